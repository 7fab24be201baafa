"""Nesting of ranges, and the GPU work launched inside them.

Rows of all tables are numbered in their total order. Functions raise MissingTableError if they
need a `range` or `api_call` table that does not exist.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I64, BoolArray, Integers, taken
from warpline.ops.join import Lookup
from warpline.ops.tree import Contents, Nesting, contents, enclosing, nest
from warpline.schema.labels import RANGE_STYLES
from warpline.trace import Trace

StartEnd = Literal["any thread", "same thread"]

_PUSH_POP = next(value for value, label in RANGE_STYLES.items() if label == "PushPop")
_NO_THREAD = -1


class _Ranges(NamedTuple):
    """Columns of the range table: time, thread, process and style."""

    start: I64
    end: I64
    thread: Integers
    process: Integers
    is_push_pop: BoolArray

    def taken(self, rows: I64) -> _Ranges:
        start, end, thread, process = (taken(column, rows) for column in self[:4])
        return _Ranges(start, end, thread, process, self.is_push_pop[rows])


class _Launches(NamedTuple):
    """Rows of a table with a launch call: start, thread and process of the call."""

    row: I64
    start: I64
    thread: Integers
    process: Integers


@derived
def range_nesting(trace: Trace) -> Nesting:
    """Return the nesting of the push/pop ranges of each thread, shape (ranges,).

    Start/end ranges have no parent, no children and depth 0.

    Ranges of one domain form a stack and nest. Ranges of two domains may overlap partially. Then
    neither is inside the other, and `launched_inside` still counts their launches correctly.
    """
    ranges = _ranges(trace)
    pushed = ranges.is_push_pop
    nesting = nest(ranges.start, ranges.end, _stack_of(ranges))
    if pushed.all():
        return nesting
    return Nesting(
        np.where(pushed, nesting.parent, 0),
        nesting.has_parent & pushed,
        np.where(pushed, nesting.depth, np.int32(0)),
    )


@derived
def innermost_range(trace: Trace, table: str) -> Lookup:
    """Return the innermost push/pop range around each row's launch, shape (rows of the table,).

    Of the ranges open on the launching thread when the launch call starts, it is the last to
    start.

    Args:
        trace: The trace.
        table: One of `DEVICE_TABLES`, or ``"api_call"`` for the calls themselves.
    """
    if table == "api_call":
        calls, ranges = _launches(trace, table), _ranges(trace)
        group = _stack_of(ranges)
        return enclosing(
            calls.start, ranges.start, ranges.end, point_group=calls.thread, group=group
        )
    of_calls, launches = innermost_range(trace, "api_call"), launch_calls(trace)[table]
    row, found = np.zeros_like(launches.row), launches.found.copy()
    found[launches.found] = of_calls.found[launches.row[launches.found]]
    row[found] = of_calls.row[launches.row[found]]
    return Lookup(row, found)


@derived
def launched_inside(trace: Trace, table: str, *, start_end: StartEnd = "any thread") -> Contents:
    """Return the rows of a table launched inside each range of either style.

    A row belongs to every range that is open when its launch call starts: push/pop ranges of the
    launching thread, and start/end ranges. `Contents.pairs` lists ranges and rows block by block.
    Sums per range need no pairs.

    Args:
        trace: The trace.
        table: One of `DEVICE_TABLES`, or ``"api_call"`` for the calls themselves.
        start_end: Which launches a start/end range includes: those of its process on any
            thread; or, as in nsys, those of its own thread, and none if it ends on another.
    """
    launches, ranges = _launches(trace, table), _ranges(trace)
    if start_end == "any thread":
        return _within(launches, ranges, trace)
    end = np.where(_ended_elsewhere(trace), ranges.start, ranges.end)
    inside = contents(
        launches.start, ranges.start, end, point_group=launches.thread, group=ranges.thread
    )
    return Contents(launches.row[inside.order], inside.first, inside.last)


def _within(launches: _Launches, ranges: _Ranges, trace: Trace) -> Contents:
    """Return the launches in each range; those of a start/end range are on any thread."""
    group, owner, row, start = ranges.thread, launches.thread, launches.row, launches.start
    if not ranges.is_push_pop.all():
        # Every launch is listed twice: for its thread, and for its process (start/end ranges).
        n_threads = trace.row_count("thread")
        group = np.where(ranges.is_push_pop, group, n_threads + ranges.process)
        owner = np.concatenate((owner, n_threads + launches.process))
        row, start = np.tile(row, 2), np.tile(start, 2)
    inside = contents(start, ranges.start, ranges.end, point_group=owner, group=group)
    return Contents(row[inside.order], inside.first, inside.last)


def is_launched_inside(trace: Trace, table: str, ranges: I64) -> BoolArray:
    """Return which rows of a table were launched inside one of some ranges, shape (rows,).

    As in `launched_inside`, with launches on any thread for start/end ranges. Takes less for few
    ranges.

    Args:
        trace: The trace.
        table: One of `DEVICE_TABLES`, or ``"api_call"`` for the calls themselves.
        ranges: Shape (n,), rows of the range table.
    """
    is_inside = np.zeros(trace.row_count(table), np.bool_)
    if not len(ranges):
        return is_inside
    within = _within(_launches(trace, table), _ranges(trace).taken(ranges), trace)
    change = np.zeros(len(within.order) + 1, np.int64)
    np.add.at(change, within.first, 1)
    np.add.at(change, within.last, -1)
    is_inside[within.order[np.cumsum(change[:-1]) > 0]] = True
    return is_inside


def _ranges(trace: Trace) -> _Ranges:
    names = ("start_ns", "end_ns", "thread_id", "process_id", "style")
    columns = trace.columns("range", *names)
    start, end, thread, process, style = (columns[name].values for name in names)
    return _Ranges(
        start=start, end=end, thread=thread, process=process, is_push_pop=style == _PUSH_POP
    )


def _stack_of(ranges: _Ranges) -> Integers:
    """Return the thread of each push/pop range, _NO_THREAD for start/end ranges."""
    if ranges.is_push_pop.all():
        return ranges.thread
    return np.where(ranges.is_push_pop, ranges.thread, _NO_THREAD)


def _ended_elsewhere(trace: Trace) -> BoolArray:
    """Return which ranges end on another thread than they start on."""
    return trace.columns("range", "end_thread_id")["end_thread_id"].is_valid()


def _launches(trace: Trace, table: str) -> _Launches:
    names = ("start_ns", "thread_id", "process_id")
    columns = trace.columns("api_call", *names)
    if table == "api_call":
        rows = np.arange(trace.row_count(table))
        return _Launches(rows, *(columns[name].values for name in names))
    calls = launch_calls(trace)[table]
    rows = np.flatnonzero(calls.found)
    return _Launches(rows, *(taken(columns[name].values, calls.row[rows]) for name in names))
