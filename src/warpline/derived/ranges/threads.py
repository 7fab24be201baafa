"""Ranges that start and end on one thread, and the launch calls fully inside them.

This is nsys's attribution of GPU work to ranges: an operation belongs to every range of either
style that contains its whole launch call on the same thread. Rows of all tables are numbered in
their total order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.stacks import launched_inside
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I32, I64
from warpline.ops.containers import shortest_containers
from warpline.ops.join import Lookup
from warpline.ops.tree import Nesting, Pairs, enclosing, nest, nest_or_cross
from warpline.trace import ColumnData, Trace

_NO_THREAD = -1


@derived
def thread_range_nesting(trace: Trace, *, push_pop_only: bool) -> Nesting:
    """Return the nesting of the ranges of each thread, shape (ranges,).

    The parent is the shortest range that contains a range. This matters only for partially
    overlapping ranges: start/end ranges, and ranges of two domains. A range that ends on another
    thread has no parent, no children and depth 0.

    Args:
        trace: The trace.
        push_pop_only: Whether start/end ranges are also left without parent and children.
    """
    start, end = _times(trace, "range")
    thread = range_threads(trace)
    if push_pop_only:
        thread = np.where(push_pop_ranges(trace), thread, np.int32(_NO_THREAD))
    nesting, crosses = nest_or_cross(start, end, thread)
    if crosses:
        rows = np.flatnonzero(thread != _NO_THREAD)
        parts = start[rows], end[rows], thread[rows]
        container = shortest_containers(*parts)
        parent, has_parent = np.zeros_like(start), np.zeros(len(start), np.bool_)
        parent[rows], has_parent[rows] = rows[container.row], container.found
        return Nesting(np.where(has_parent, parent, 0), has_parent, _depths(parent, has_parent))
    apart = thread == _NO_THREAD
    if not apart.any():
        return nesting
    return Nesting(
        np.where(apart, 0, nesting.parent),
        nesting.has_parent & ~apart,
        np.where(apart, np.int32(0), nesting.depth),
    )


@derived
def innermost_around_launch(trace: Trace, table: str) -> Lookup:
    """Return the range that contains the whole launch call of each row of a GPU table.

    Of several ranges, it is the last to start. Shape (rows of the table,); nothing is found
    without ranges or calls.
    """
    launches = launch_calls(trace)[table]
    if not _has_both(trace):
        return Lookup(np.zeros_like(launches.row), np.zeros_like(launches.found))
    of_calls = _around_calls(trace)
    found = launches.found & of_calls.found[launches.row]
    row = np.zeros_like(launches.row)
    row[found] = of_calls.row[launches.row[found]]
    return Lookup(row, found)


def launches_within(trace: Trace, table: str) -> Iterator[Pairs]:
    """Yield each range with each row of a table whose whole launch call it contains.

    The table is one of `DEVICE_TABLES`, or ``"api_call"`` for the calls themselves. Pairs come in
    blocks, with ascending ranges and no range in two blocks. Without ranges or calls, there are
    none.
    """
    if not _has_both(trace):
        return
    range_end = _times(trace, "range")[1]
    call_end = _times(trace, "api_call")[1]
    if table != "api_call":
        call_end = call_end[launch_calls(trace)[table].row]
    for pairs in launched_inside(trace, table, start_end="same thread").pairs():
        whole = call_end[pairs.point] <= range_end[pairs.interval]
        yield pairs if whole.all() else Pairs(pairs.interval[whole], pairs.point[whole])


@derived
def _around_calls(trace: Trace) -> Lookup:
    """Return the last range to start that contains each whole call, shape (calls,)."""
    (start, end), (call_start, call_end) = _times(trace, "range"), _times(trace, "api_call")
    thread = range_threads(trace)
    calls = trace.columns("api_call", "thread_id")["thread_id"].values
    row, found = enclosing(call_start, start, end, point_group=calls, group=thread)
    # The innermost range may end before the call; then an enclosing range may contain the call.
    around = nest(start, end, thread)
    cut = np.flatnonzero(found & (end[row] < call_end))
    while len(cut):
        inner = row[cut]
        row[cut], found[cut] = around.parent[inner], around.has_parent[inner]
        cut = cut[found[cut] & (end[row[cut]] < call_end[cut])]
    return Lookup(np.where(found, row, 0), found)


def _has_both(trace: Trace) -> bool:
    return all(trace.has(table) and trace.row_count(table) for table in ("range", "api_call"))


def _times(trace: Trace, table: str) -> tuple[I64, I64]:
    columns = trace.columns(table, "start_ns", "end_ns")
    return columns["start_ns"].values, columns["end_ns"].values


def range_threads(trace: Trace) -> I32:
    """Return each range's thread, -1 if it ended on another one, shape (ranges,)."""
    columns = trace.columns("range", "thread_id", "end_thread_id")
    return own_thread(columns["thread_id"], columns["end_thread_id"])


def own_thread(thread: ColumnData, ended_on: ColumnData) -> I32:
    """Return the thread of ranges, -1 for one that ended on another."""
    threads: I32 = thread.values
    if ended_on.valid is None or not ended_on.valid.any():
        return np.full(len(threads), _NO_THREAD, np.int32) if ended_on.valid is None else threads
    return np.where(ended_on.valid, np.int32(_NO_THREAD), threads)


def _depths(parent: I64, has_parent: np.typing.NDArray[np.bool_]) -> np.typing.NDArray[np.int32]:
    """Return the number of ancestors of each row."""
    depth = np.zeros(len(parent), np.int32)
    rows = np.flatnonzero(has_parent)
    up = parent[rows]
    while len(rows):
        depth[rows] += 1
        inside = has_parent[up]
        rows, up = rows[inside], parent[up[inside]]
    return depth
