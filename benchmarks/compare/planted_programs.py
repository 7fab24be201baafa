"""Programs whose steps can be made slower by a known time, for planted.py.

Usage: PYTHONPATH=src:benchmarks python benchmarks/compare/planted_programs.py NAME
           --turns FOLDER [--plant none|kernel|host|copy] [--share 0.03] [--steps 40] [--cpu]

Each step runs a CPU loop, copies an input to the GPU, works, runs `scaled`, a kernel of this file,
and waits for the GPU. A plant makes the loop, the copy or `scaled` longer by a share of the step,
which is measured under the profiler immediately before. On the CPU (--cpu), NumPy stands in for the
GPU, to try the measurement itself.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import turns
from blind.harness import capture_range

import warpline

Step = Callable[[], object]
KINDS = ("none", "kernel", "host", "copy")
WARM_S = 0.2  # clocks and allocators have settled
SETTLED_STEPS = 12  # recorded before the first counted step; their second half is timed
HOST_NS = 150_000  # of the CPU loop of every step
COPY_BYTES = 4 << 20  # of the input of every step
MOST_COPY_BYTES = 128 << 20
BLOCKS = 132  # one wave on every Hopper GPU
THREADS = 256
ROUNDS = 64
KERNEL = r"""
extern "C" __global__ void scaled(float* values, long long rounds, long long spin_ns) {
    long long size = (long long)gridDim.x * blockDim.x;
    for (long long round = 0; round < rounds; ++round) {
        long long at = round * size + blockIdx.x * (long long)blockDim.x + threadIdx.x;
        values[at] = values[at] * 0.999f + 0.001f;
    }
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < (unsigned long long)spin_ns);
}
"""


class Plant(NamedTuple):
    """What a step has more than the original one.

    Attributes:
        kernel_ns: Added to the kernel `scaled`.
        host_ns: Added to the CPU loop.
        copy_bytes: Added to the input.
    """

    kernel_ns: int = 0
    host_ns: int = 0
    copy_bytes: int = 0


class Device(Protocol):
    """Where the parts of a step run that can be made slower."""

    def copy(self, size: int) -> None:
        """Copy bytes to the device, in order with all other work."""

    def scaled(self, spin_ns: int) -> None:
        """Run the kernel and let it spin."""

    def finish(self) -> None:
        """Wait until all work is done."""

    def step(self) -> contextlib.AbstractContextManager[object]:
        """Return the NVTX range of a counted step."""


class Gpu:
    """CuPy on its null stream, which is PyTorch's stream, too."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415, I001 - absent without a GPU; before CuPy, to load its libraries
        import cupy  # noqa: PLC0415 - absent without a GPU

        self._range = torch.cuda.nvtx.range
        self._cupy = cupy
        self._source = cupy.cuda.alloc_pinned_memory(MOST_COPY_BYTES)
        self._target = cupy.empty(MOST_COPY_BYTES, cupy.uint8)
        self._values = cupy.ones(BLOCKS * THREADS * ROUNDS, cupy.float32)
        self._kernel = cupy.RawKernel(KERNEL, "scaled")

    def copy(self, size: int) -> None:
        """Copy bytes from pinned memory."""
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice
        runtime.memcpyAsync(self._target.data.ptr, self._source.ptr, size, kind, 0)

    def scaled(self, spin_ns: int) -> None:
        """Launch the kernel on the null stream."""
        arguments = (self._values, np.int64(ROUNDS), np.int64(spin_ns))
        self._kernel((BLOCKS,), (THREADS,), arguments)

    def finish(self) -> None:
        """Wait for the device."""
        self._cupy.cuda.runtime.deviceSynchronize()

    def step(self) -> contextlib.AbstractContextManager[object]:
        """Return a range of PyTorch, which needs no further package."""
        found: contextlib.AbstractContextManager[object] = self._range("step")
        return found


class Cpu:
    """A stand-in without a GPU."""

    def copy(self, size: int) -> None:
        """Take as long as a GPU would, roughly."""
        spin(size // 50)

    def scaled(self, spin_ns: int) -> None:
        """Spin."""
        spin(20_000 + spin_ns)

    def finish(self) -> None:
        """Do nothing: all work is done."""

    def step(self) -> contextlib.AbstractContextManager[object]:
        """Return a range of Warpline."""
        return warpline.annotate("step")


def spin(ns: int) -> None:
    """Keep the CPU busy."""
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass


def stand_in() -> Step:
    """The work of a step without a GPU: 2 ms of the CPU."""
    return lambda: spin(2_000_000)


def transforms() -> Step:
    """CuPy, limited by the GPU: Fourier transforms and elementwise work on 268 MB."""
    import cupy  # noqa: PLC0415 - absent without a GPU

    field = cupy.random.default_rng(1).standard_normal((128, 1024, 512), dtype=cupy.float32)

    def step() -> object:
        for _ in range(4):
            spectrum = cupy.fft.rfft2(field)
            spectrum *= 0.5
            field[:] = cupy.fft.irfft2(spectrum, s=field.shape[1:]) + 0.1 * cupy.tanh(field)
        return field

    return step


def small_launches() -> Step:
    """CuPy, limited by launches: 300 kernels of a few microseconds."""
    import cupy  # noqa: PLC0415 - absent without a GPU

    values = [cupy.ones(4096, cupy.float32) for _ in range(50)]

    def step() -> object:
        for value in values:
            other = cupy.sin(value) * 0.5
            other += value
            cupy.multiply(other, 0.5, out=value)
            cupy.maximum(value, 0.0, out=value)
        return values

    return step


def _language_model(torch: Any, layers: int, width: int, batch: int) -> Step:
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(
        width, 8, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    body = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    embedding = torch.nn.Embedding(8192, width)
    model = torch.nn.Sequential(embedding, body, torch.nn.Linear(width, 8192))
    model = model.to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 8192, (batch, 257), device="cuda")

    def step() -> object:
        logits = model(tokens[:, :-1])
        flat = logits.flatten(0, 1).float()
        loss = torch.nn.functional.cross_entropy(flat, tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def training_on_gpu() -> Step:
    """PyTorch training, limited by the GPU: a Transformer of four wide layers."""
    import torch  # noqa: PLC0415 - absent without a GPU

    return _language_model(torch, layers=4, width=1024, batch=32)


def training_on_cpu() -> Step:
    """PyTorch training, limited by the CPU: a Transformer of eight narrow layers."""
    import torch  # noqa: PLC0415 - absent without a GPU

    return _language_model(torch, layers=8, width=256, batch=2)


def convolutions() -> Step:
    """PyTorch inference: convolutions in channels-last format and a result on the CPU."""
    import torch  # noqa: PLC0415 - absent without a GPU

    torch.manual_seed(1)
    parts = [torch.nn.Conv2d(8 if not at else 128, 128, 3, padding=1) for at in range(8)]
    model = torch.nn.Sequential(*(part for conv in parts for part in (conv, torch.nn.ReLU())))
    model = model.to("cuda", torch.bfloat16, memory_format=torch.channels_last).eval()
    images = torch.randn(64, 8, 96, 96, device="cuda", dtype=torch.bfloat16)
    images = images.to(memory_format=torch.channels_last)

    def step() -> object:
        with torch.no_grad():
            return model(images).mean((2, 3)).cpu()

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    item.__name__: item
    for item in (transforms, small_launches, training_on_gpu, training_on_cpu, convolutions)
}


def plant_of(kind: str, added_ns: float, ns_per_byte: float) -> Plant:
    """Return the plant that adds a time to each step."""
    if kind == "kernel":
        return Plant(kernel_ns=round(added_ns))
    if kind == "host":
        return Plant(host_ns=round(added_ns))
    if kind == "copy":
        return Plant(copy_bytes=min(round(added_ns / ns_per_byte), MOST_COPY_BYTES - COPY_BYTES))
    return Plant()


def run_step(work: Step, device: Device, plant: Plant) -> None:
    """Run one step and wait for it."""
    spin(HOST_NS + plant.host_ns)
    device.copy(COPY_BYTES + plant.copy_bytes)
    work()
    device.scaled(plant.kernel_ns)
    device.finish()


def copy_rate(device: Device) -> float:
    """Return what a byte of a copy adds, in ns, between two sizes."""

    def ns(size: int) -> float:
        times = []
        for _ in range(5):
            device.finish()
            begin = time.perf_counter_ns()
            device.copy(size)
            device.finish()
            times.append(time.perf_counter_ns() - begin)
        return statistics.median(times)

    large, small = 16 << 20, 4 << 20
    return max((ns(large) - ns(small)) / (large - small), 1e-4)


def step_times_ns(work: Step, device: Device, plant: Plant, count: int) -> list[int]:
    """Return the times of some steps."""
    marks = [time.perf_counter_ns()]
    for _ in range(count):
        run_step(work, device, plant)
        marks.append(time.perf_counter_ns())
    return [end - begin for begin, end in itertools.pairwise(marks)]


def main() -> None:
    """Set up a program, and run its steps once on request."""
    parser = argparse.ArgumentParser(description="Run a program whose steps can be made slower.")
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--turns", required=True, metavar="FOLDER", help="see turns.py")
    parser.add_argument("--plant", choices=KINDS, default="none")
    parser.add_argument("--share", type=float, default=0.0, help="of the step, planted")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--cpu", action="store_true", help="without a GPU")
    options = parser.parse_args()
    device: Device = Cpu() if options.cpu else Gpu()
    work = stand_in() if options.cpu else PROGRAMS[options.name]()
    for _ in range(4):
        run_step(work, device, Plant())

    def turn() -> dict[str, float]:
        end = time.monotonic() + WARM_S
        while time.monotonic() < end:
            run_step(work, device, Plant())
        rate = copy_rate(device)
        with capture_range():
            settled = step_times_ns(work, device, Plant(), SETTLED_STEPS)
            base_ns = statistics.median(settled[SETTLED_STEPS // 2 :])
            plant = plant_of(options.plant, options.share * base_ns, rate)
            begin = time.perf_counter_ns()
            for _ in range(options.steps):
                with device.step():
                    run_step(work, device, plant)
            mean_ns = (time.perf_counter_ns() - begin) / options.steps
        return {"base": base_ns, "mean": mean_ns}

    turns.serve(options.turns, turn)


if __name__ == "__main__":
    main()
