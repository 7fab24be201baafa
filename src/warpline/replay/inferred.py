"""Inferred dependencies between streams, where the recording does not contain them.

Some recordings show cudaStreamWaitEvent calls without the stream and the event. If an operation
started late after such a call, just when an operation of another stream ended, it waited for that
operation. If a kernel started late while an earlier operation of another stream filled the GPU, it
waited for free SMs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from warpline.derived.idle.host_calls import numbers_of_texts
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tiling import by_group
from warpline.replay.edges import NEVER
from warpline.replay.host import NONE, host_side
from warpline.replay.queued import Queued, queued
from warpline.trace import Run

_LATE_NS = 3_000
_JUST_NS = 60_000
_NEXT_ENDS = 32
_WAIT = lazy_pattern(r"\A(cuda|cu|hip)StreamWaitEvent(_|\Z)")


class Inferred(NamedTuple):
    """Items, and the items that they waited for.

    Attributes:
        item: Shape (k,), int64.
        awaited: Shape (k,), int64, items.
    """

    item: I64
    awaited: I64


class _Late(NamedTuple):
    """Items that started late, with their actual and expected starts."""

    item: I64
    start_ns: I64
    expected_ns: I64

    def taken(self, rows: I64 | BoolArray) -> _Late:
        return _Late(*(column[rows] for column in self))


def inferred_waits(run: Run, start_ns: I64, expected_ns: I64) -> Inferred:
    """Return the items whose ends late items probably waited for.

    Args:
        run: The trace, and the choice of its steps.
        start_ns: Shape (items,), recorded start.
        expected_ns: Shape (items,), expected start; NEVER if unknown.
    """
    host, queue = host_side(run), queued(run)
    asks = np.flatnonzero(numbers_of_texts(run.trace, host.name, _is_wait) > 0)
    told = run.trace.has("stream_wait") and run.trace.row_count("stream_wait") > 0
    if told or not len(asks):
        return _nothing()
    late = _late_items(queue, start_ns, expected_ns)
    late = late.taken(_asked_since(host.start_ns[asks], queue, late.item))
    return _matched(queue, late, _just_before)


def inferred_room(run: Run, start_ns: I64, expected_ns: I64) -> Inferred:
    """Return the operations that probably left no free SMs for late kernels; arguments as above."""
    queue, work = queued(run), operations(run.trace)
    late = _late_items(queue, start_ns, expected_ns)
    kernel = np.zeros(len(work), np.bool_)
    kernel[work.of_table("kernel")] = True
    return _matched(queue, late.taken(kernel[queue.operation[late.item]]), _filling)


def _nothing() -> Inferred:
    return Inferred(np.zeros(0, np.int64), np.zeros(0, np.int64))


def _late_items(queue: Queued, start_ns: I64, expected_ns: I64) -> _Late:
    known = (expected_ns != NEVER) & (queue.operation >= 0) & (queue.call >= 0)
    items = np.flatnonzero(known & (expected_ns < start_ns - _LATE_NS))
    # On the clock of the recording, which the graph may have shifted.
    behind = start_ns[items] - expected_ns[items]
    return _Late(items, queue.start_ns[items], queue.start_ns[items] - behind)


def _matched(queue: Queued, late: _Late, choose: Callable[[Queued, I64, _Late], I64]) -> Inferred:
    """Return the operation of its process that each late item waited for."""
    awaited = np.full(len(late.item), NONE)
    work = np.flatnonzero(queue.operation >= 0)
    for rows in by_group(queue.process[late.item]):
        own = work[queue.process[work] == queue.process[late.item[rows[0]]]]
        own = own[np.argsort(queue.end_ns[own], kind="stable")]
        awaited[rows] = choose(queue, own, late.taken(rows))
    known = awaited >= 0
    return Inferred(late.item[known], awaited[known])


def _asked_since(asks_ns: I64, queue: Queued, items: I64) -> BoolArray:
    """Return which items follow a wait call made after their predecessor was enqueued."""
    same = (items > 0) & (queue.stream[items - 1] == queue.stream[items])
    before = np.where(same, queue.asked_ns[items - 1], np.iinfo(np.int64).min)
    first = np.searchsorted(asks_ns, before, side="left")
    last = np.searchsorted(asks_ns, queue.asked_ns[items], side="right")
    asked: BoolArray = last > first
    return asked


def _just_before(queue: Queued, own: I64, late: _Late) -> I64:
    """Return which of the items `own`, sorted by end, ended last before each late start."""
    ends = queue.end_ns[own]
    low = np.searchsorted(ends, late.start_ns - _JUST_NS)
    high = np.searchsorted(ends, late.start_ns + 1)
    chosen = np.full(len(late.item), NONE)
    for row, (first, last) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        near = own[first:last]
        near = near[_elsewhere_and_earlier(queue, near, int(late.item[row]))]
        chosen[row] = near[-1] if len(near) else NONE
    return chosen


def _filling(queue: Queued, own: I64, late: _Late) -> I64:
    """Return which of the items `own`, sorted by end, ran throughout each late item's delay."""
    ends = queue.end_ns[own]
    # Only the next few ends are searched.
    first = np.searchsorted(ends, late.start_ns, side="right")
    chosen = np.full(len(late.item), NONE)
    for row, place in enumerate(first.tolist()):
        near = own[place : place + _NEXT_ENDS]
        near = near[_elsewhere_and_earlier(queue, near, int(late.item[row]))]
        near = near[queue.start_ns[near] <= late.expected_ns[row] + _LATE_NS]
        chosen[row] = near[0] if len(near) else NONE
    return chosen


def _elsewhere_and_earlier(queue: Queued, items: I64, item: int) -> BoolArray:
    """Return which items are in other streams and were enqueued before an item."""
    elsewhere: BoolArray = (queue.stream[items] != queue.stream[item]) & (
        queue.asked_ns[items] <= queue.asked_ns[item]
    )
    return elsewhere


@cache
def _is_wait(name: str) -> int:
    return int(_WAIT.search(name) is not None)
