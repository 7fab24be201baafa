"""Data-parallel training whose communication can be made longer by a known time, for planted.py.

Usage: PYTHONPATH=src:benchmarks python -m torch.distributed.run --standalone --nproc-per-node 2
           benchmarks/compare/planted_ranks.py --turns FOLDER [--plant none|communication]
           [--share 0.03] [--steps 30] [--cpu]

Each step computes the gradients of a stack of layers, sums them over the ranks in one all-reduce,
and updates the weights. The GPU is the limit: there are few launches. The plant makes the
all-reduce longer by a share of the step; both are measured immediately before. Rank 0 takes the
turns. With --cpu, gloo and a small model stand in, to try the measurement itself.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import time

import torch
import torch.distributed as dist
import turns
from blind.harness import RANK, capture_range
from torch import nn

import warpline

KINDS = ("none", "communication")
WARM_STEPS = 40  # half a second: clocks and allocators have settled
SETTLED_STEPS = 12  # recorded before the first counted step; their second half is timed
MOST_ADDED = 1 << 28  # numbers: 512 MB, 1.5 ms at 330 GB/s
RATE_SIZE = 1 << 26  # numbers by which two all-reduces differ whose times are compared


class Training:
    """A rank: its layers, and their gradients in one buffer, which the plant lengthens."""

    def __init__(self, *, is_cpu: bool) -> None:
        self._is_cpu = is_cpu
        width, batch, layers = (256, 64, 4) if is_cpu else (4096, 8192, 6)
        self.scale = 256 if is_cpu else 1  # by which sizes of the CPU are smaller
        device = "cpu" if is_cpu else f"cuda:{RANK}"
        dtype = torch.float32 if is_cpu else torch.bfloat16
        torch.manual_seed(1)
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.GELU())]
        self._model = nn.Sequential(*parts).to(device, dtype)
        parameters = list(self._model.parameters())
        self.count = sum(parameter.numel() for parameter in parameters)
        self._sent = torch.zeros(self.count + MOST_ADDED // self.scale, device=device, dtype=dtype)
        views = self._sent[: self.count].split([parameter.numel() for parameter in parameters])
        for parameter, view in zip(parameters, views, strict=True):
            parameter.grad = view.view_as(parameter)
        self._optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
        self._input = torch.randn(batch, width, device=device, dtype=dtype)

    def step(self, added: int) -> None:
        """Run one step, with some more numbers in the all-reduce, and wait for it."""
        self._sent[: self.count].zero_()
        self._model(self._input).square().mean().backward()
        self.reduce(self.count + added)
        self._optimizer.step()
        self.finish()

    def reduce(self, count: int) -> None:
        """Sum the first numbers of the buffer over the ranks."""
        dist.all_reduce(self._sent[:count])

    def finish(self) -> None:
        """Wait until all work is done."""
        if not self._is_cpu:
            torch.cuda.synchronize()

    def counted(self) -> contextlib.AbstractContextManager[object]:
        """Return the NVTX range of a counted step."""
        if self._is_cpu:
            return warpline.annotate("step")
        found: contextlib.AbstractContextManager[object] = torch.cuda.nvtx.range("step")
        return found

    def ns_per_number(self) -> float:
        """Return what a number more adds to the all-reduce."""
        size = RATE_SIZE // self.scale
        small, large = (self._reduce_ns(self.count + added) for added in (0, size))
        return max((large - small) / size, 1e-4)

    def _reduce_ns(self, count: int) -> float:
        times = []
        for _ in range(7):
            self.reduce(1)  # the ranks start together
            self.finish()
            begin = time.perf_counter_ns()
            self.reduce(count)
            self.finish()
            times.append(time.perf_counter_ns() - begin)
        return statistics.median(times)

    def step_times_ns(self, count: int) -> list[int]:
        """Return the times of some steps without a plant."""
        marks = [time.perf_counter_ns()]
        for _ in range(count):
            self.step(0)
            marks.append(time.perf_counter_ns())
        return [end - begin for begin, end in itertools.pairwise(marks)]


def turn(training: Training, hosts: dist.ProcessGroup, share: float, steps: int) -> turns.Figures:
    """Run the steps of a rank: those to warm up, those that are timed, and those that count."""
    training.step_times_ns(WARM_STEPS)
    rate = training.ns_per_number()
    with capture_range():
        base_ns = statistics.median(training.step_times_ns(SETTLED_STEPS)[SETTLED_STEPS // 2 :])
        added = min(round(share * base_ns / rate), MOST_ADDED // training.scale)
        added = agreed(added, hosts)
        begin = time.perf_counter_ns()
        for _ in range(steps):
            with training.counted():
                training.step(added)
        mean_ns = (time.perf_counter_ns() - begin) / steps
    return {"base": base_ns, "mean": mean_ns}


def agreed(value: int, hosts: dist.ProcessGroup) -> int:
    """Return rank 0's number on all ranks. They wait on the CPU: others share their GPUs."""
    number = torch.tensor(value)
    dist.broadcast(number, src=0, group=hosts)
    return int(number)


def main() -> None:
    """Set up a rank, and run its steps once for each request."""
    parser = argparse.ArgumentParser(description="Train data-parallel, with longer communication.")
    parser.add_argument("--turns", required=True, metavar="FOLDER", help="see turns.py")
    parser.add_argument("--plant", choices=KINDS, default="none")
    parser.add_argument("--share", type=float, default=0.0, help="of the step, planted")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--cpu", action="store_true", help="without GPUs")
    options = parser.parse_args()
    share = options.share if options.plant == "communication" else 0.0
    if not options.cpu:
        torch.cuda.set_device(RANK)
    dist.init_process_group("gloo" if options.cpu else "nccl")
    hosts = dist.new_group(backend="gloo")
    training = Training(is_cpu=options.cpu)
    training.step_times_ns(4)

    def asked() -> turns.Figures:
        agreed(1, hosts)
        return turn(training, hosts, share, options.steps)

    if RANK == 0:
        turns.serve(options.turns, asked)
        agreed(0, hosts)
    else:
        while agreed(1, hosts):
            turn(training, hosts, share, options.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
