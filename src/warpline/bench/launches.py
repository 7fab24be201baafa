"""What launching kernels takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.bench.backends import Backend
from warpline.bench.driver import Driver
from warpline.bench.timing import Timer

Point = Mapping[str, Any]
MODES = ("call", "back-to-back", "synchronized", "graph")

_QUEUE = 500  # launches of a batch: fewer than the 1,024 that the queue of the GPU holds
_SYNCHRONIZED = 50
_GRAPH_KERNELS = 20_000  # of a batch, in at most _GRAPHS launches
_GRAPHS = 50


def points(kernels: Sequence[int]) -> list[Point]:
    """Return what to measure: each mode, and graphs of each number of kernels."""
    single = [{"mode": mode, "kernels": 1} for mode in MODES[1:-1]]
    return [
        {"mode": MODES[0], "kernels": 0},
        *single,
        *({"mode": MODES[-1], "kernels": count} for count in kernels),
    ]


def measure(
    backend: Backend, driver: Driver, timer: Timer, point: Point
) -> Iterator[dict[str, Any]]:
    """Yield the row of a point.

    ``launch_ns`` is the time of a launch on the CPU; with synchronization, until the kernel has
    ended. ``kernel_ns`` is the time from one kernel to the next on the GPU.
    """
    mode, kernels = point["mode"], point["kernels"]
    if mode == "call":
        batches = timer.cpu_calls(driver.idle_call(), _QUEUE)
        yield {**point, "launch_ns": batches.call_ns, **batches.columns()}
        return
    call = backend.graph(kernels) if mode == "graph" else backend.launch()
    if mode == "synchronized":

        def and_wait() -> None:
            call()
            timer.synchronize()

        batches = timer.cpu_calls(and_wait, _SYNCHRONIZED)
        yield {**point, "launch_ns": batches.call_ns, **batches.columns()}
        return
    calls = _QUEUE if mode != "graph" else max(min(_GRAPHS, _GRAPH_KERNELS // kernels), 1)
    cpu, gpu = timer.launches(call, calls)
    kernel_ns = gpu.call_ns / kernels
    yield {**point, "launch_ns": cpu.call_ns, "kernel_ns": kernel_ns, **cpu.columns()}
