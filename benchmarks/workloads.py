"""Run one of torch_programs.py, with its problem ("bad") or without ("fixed").

Usage: PYTHONPATH=benchmarks python benchmarks/workloads.py NAME bad|fixed [--steps N] [--warm N]
           [--kineto FILE] [--unbounded] [--turns FOLDER]

Prints the mean and the median step in ms. Steps are NVTX ranges step_0, step_1... with ranges data,
forward, backward and optimizer inside, enclosed by `cudaProfilerStart` and `Stop`. Only
`ddp_serial` is written for several ranks (torchrun); rank 0 prints.
"""

# Types are checked where PyTorch is not installed.
# mypy: allow-subclassing-any, no-warn-return-any

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
import turns
from torch.cuda import nvtx
from torch_programs import PROGRAMS, RANK, RANKS


def prepared(name: str, *, bad: bool, warm: int) -> Callable[[], None]:
    """Set up a program, run its warm-up steps and return a function that runs further steps."""
    torch.cuda.set_device(RANK)
    torch.manual_seed(RANK)
    step = PROGRAMS[name](bad=bad)
    for number in range(warm):
        with nvtx.range("warmup"):
            step(number)
    torch.cuda.synchronize()
    numbers = itertools.count()

    def following() -> None:
        number = next(numbers)
        with nvtx.range(f"step_{number}"):
            step(warm + number)

    return following


def timed(step: Callable[[], None], count: int, *, bounded: bool) -> dict[str, float]:
    """Run steps and return the mean step and the median CPU time per step, in ms.

    If `bounded`, call cudaProfilerStart and Stop for profilers.
    """
    if bounded:
        torch.cuda.cudart().cudaProfilerStart()
    times = [time.perf_counter()]
    for _ in range(count):
        step()
        times.append(time.perf_counter())
    torch.cuda.synchronize()
    mean = (time.perf_counter() - times[0]) / count
    if bounded:
        torch.cuda.cudart().cudaProfilerStop()
    median = statistics.median(b - a for a, b in itertools.pairwise(times))
    return {"mean": mean * 1e3, "median": median * 1e3}


@contextlib.contextmanager
def pytorch_profiler(path: str) -> Iterator[None]:
    """Record with PyTorch's profiler; `path` may contain RANK; if empty, nothing is written."""
    with torch.profiler.profile() as profiler:
        yield
    if path:
        profiler.export_chrome_trace(path.replace("RANK", str(RANK)))


def take_turns(folder: str, step: Callable[[], None], count: int, *, bounded: bool) -> None:
    """Run steps on request from turns.py, after an uncounted step that fills caches."""

    def work() -> dict[str, float]:
        step()
        torch.cuda.synchronize()
        return timed(step, count, bounded=bounded)

    if RANKS == 1:
        turns.serve(folder, work)
        return
    # Synchronize ranks on the CPU: a waiting GPU would block others that share it.
    hosts = torch.distributed.new_group(backend="gloo")

    def told(word: str = "") -> str:
        words = [word]
        torch.distributed.broadcast_object_list(words, src=0, group=hosts)
        return words[0]

    if RANK == 0:
        turns.serve(folder, lambda: work() if told("go") else {})
        told("end")
        return
    while told() == "go":
        work()


def main() -> int:
    """Run one program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("variant", choices=("bad", "fixed"))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm", type=int, default=4)
    parser.add_argument("--kineto", metavar="FILE", help="'' profiles without writing a file")
    parser.add_argument(
        "--unbounded", action="store_true", help="do not call cudaProfilerStart and Stop"
    )
    parser.add_argument("--turns", metavar="FOLDER", help="run steps on request from turns.py")
    options = parser.parse_args()
    if RANKS > 1:
        torch.distributed.init_process_group("nccl")
    step = prepared(options.name, bad=options.variant == "bad", warm=options.warm)
    bounded = not options.unbounded
    with contextlib.ExitStack() as around:
        if options.kineto is not None:
            around.enter_context(pytorch_profiler(options.kineto))
        if options.turns is not None:
            take_turns(options.turns, step, options.steps, bounded=bounded)
        else:
            told = timed(step, options.steps, bounded=bounded)
    if options.turns is None and RANK == 0:
        words = f"mean {told['mean']:.3f} ms, median {told['median']:.3f} ms"
        print(f"{options.name} {options.variant}: {words}")
    if RANKS > 1:
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
