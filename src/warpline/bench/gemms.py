"""What a GPU reaches in GEMMs, and what launching them takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.bench.backends import Backend
from warpline.bench.driver import Driver
from warpline.bench.timing import Timer

Point = Mapping[str, Any]


def points(shapes: Sequence[tuple[int, int, int]], dtypes: Sequence[str]) -> list[Point]:
    """Return what to measure: each shape (m, n, k) with each type."""
    return [{"dtype": dtype, "m": m, "n": n, "k": k} for dtype in dtypes for m, n, k in shapes]


def flop(point: Point) -> int:
    """Return the operations of a GEMM: a multiplication and an addition for each m, n and k."""
    return 2 * int(point["m"]) * int(point["n"]) * int(point["k"])


def measure(
    backend: Backend, driver: Driver, timer: Timer, point: Point
) -> Iterator[dict[str, Any]]:
    """Yield the row of a point: ``flop_per_s``, its spread, clock, ``gpu_ns`` and ``launch_ns``."""
    call = backend.gemm((point["m"], point["n"], point["k"]), point["dtype"])
    batches = timer.batches(call)
    queued = timer.queued(call, batches.call_ns)
    yield {
        **point,
        "flop_per_s": flop(point) / batches.call_ns * 1e9,
        **batches.columns(),
        "sm_clock_hz": batches.sm_clock_hz,
        "gpu_ns": None if queued is None else queued.gpu_ns,
        "launch_ns": None if queued is None else queued.launch_ns,
    }
