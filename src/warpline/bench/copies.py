"""What a GPU reaches in copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.bench.backends import Backend
from warpline.bench.driver import Driver
from warpline.bench.refusals import RefusedError
from warpline.bench.timing import Timer

Point = Mapping[str, Any]


def points(sizes: Sequence[int], kinds: Sequence[str]) -> list[Point]:
    """Return what to measure: each kind of copy with each size in bytes."""
    return [{"kind": kind, "bytes": size} for kind in kinds for size in sizes]


def measure(
    backend: Backend, driver: Driver, timer: Timer, point: Point
) -> Iterator[dict[str, Any]]:
    """Yield the row of a point, or one for each other GPU if copies go to these."""
    kind, size = point["kind"], point["bytes"]
    if kind != "p2p":
        yield {**point, **_rate(timer, backend, kind, size, driver.index)}
        return
    peers = [index for index in range(driver.count) if index != driver.index]
    if not peers:
        raise RefusedError("only one GPU is visible")
    for peer in peers:
        row = {**point, "peer": peer, "is_direct": driver.peer(peer)[1]}
        yield {**row, **_rate(timer, backend, kind, size, peer)}
        backend.free()


def _rate(timer: Timer, backend: Backend, kind: str, size: int, peer: int) -> dict[str, Any]:
    batches = timer.batches(backend.copy(kind, size, peer))
    return {"bytes_per_s": size / batches.call_ns * 1e9, **batches.columns()}
