"""Ranges projected onto the GPU: from the start of their first operation to the end of the last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline import native
from warpline.derived import derived
from warpline.derived.ranges.sweeping import read_ahead, sweep_input
from warpline.derived.ranges.threads import launches_within, thread_range_nesting
from warpline.derived.work.launches import launch_calls_in_any_order
from warpline.ops.arrays import I32, I64
from warpline.trace import Trace

OPERATION_TABLES = ("kernel", "memcpy", "memset")


class Projection(NamedTuple):
    """The ranges that contain launch calls of GPU operations.

    Attributes:
        row: Shape (n,), int64, rows of the range table, ascending.
        start_ns: Shape (n,), int64, start of the first operation on a GPU.
        end_ns: Shape (n,), int64, end of the last operation.
        operations: Shape (n,), int64, number of kernels, copies and memsets.
        launches: Shape (n,), int32, number of launch calls; a CUDA graph launch is one.
        depth: Shape (n,), int32, number of enclosing ranges.
        children: Shape (n,), int32, number of direct child ranges that launch GPU work.
    """

    row: I64
    start_ns: I64
    end_ns: I64
    operations: I64
    launches: I32
    depth: I32
    children: I32


class _Work(NamedTuple):
    """The operations launched by each call, shape (calls,)."""

    first: I64
    last: I64
    operations: I64


class _RangeWork(NamedTuple):
    """The operations and launch calls of each range, shape (ranges,)."""

    first: I64
    last: I64
    operations: I64
    launches: I32


@derived
def projected_ranges(trace: Trace) -> Projection:
    """Return the projection of each range that contains at least one whole launch call."""
    read_ahead(trace, *OPERATION_TABLES)
    n_ranges, work = trace.row_count("range"), _work_of_ranges(trace)
    row = np.flatnonzero(work.launches)
    nesting = thread_range_nesting(trace, push_pop_only=False)
    inner = nesting.parent[nesting.has_parent & (work.launches > 0)]
    children = np.bincount(inner, minlength=n_ranges).astype(np.int32)
    kept = slice(None) if len(row) == n_ranges else row
    return Projection(
        row=row,
        start_ns=work.first[kept],
        end_ns=work.last[kept],
        operations=work.operations[kept],
        launches=work.launches[kept],
        depth=nesting.depth[kept],
        children=children[kept],
    )


def _work_of_ranges(trace: Trace) -> _RangeWork:
    calls = _work_of_calls(trace)  # not kept: as large as the columns of the calls
    return _swept(trace, calls) or _by_pairs(trace, calls)


def _swept(trace: Trace, calls: _Work) -> _RangeWork | None:
    """Return the work of each range by a sweep of the native core; None without it."""
    core = native.core()
    if core is None:
        return None
    columns = sweep_input(trace)
    operations = calls.operations.astype(np.int32)
    of_calls = native.CallWork(
        first=calls.first.ctypes.data,
        last=calls.last.ctypes.data,
        operations=operations.ctypes.data,
    )
    n_ranges = len(columns.range_start)
    work = _RangeWork(
        first=np.empty(n_ranges, np.int64),
        last=np.empty(n_ranges, np.int64),
        operations=np.empty(n_ranges, np.int64),
        launches=np.empty(n_ranges, np.int32),
    )
    of_ranges = native.RangeWork(*(column.ctypes.data for column in work))
    status = core.wl_range_work_i64(columns.structure(), of_calls, of_ranges)
    return work if status == native.OK else None


def _by_pairs(trace: Trace, calls: _Work) -> _RangeWork:
    """Return the same from the pairs of a range and a call."""
    n_ranges = trace.row_count("range")
    work = _RangeWork(*_nothing(n_ranges), np.zeros(n_ranges, np.int32))
    for pairs in launches_within(trace, "api_call"):
        working = np.flatnonzero(calls.operations[pairs.point])
        owner, call = pairs.interval[working], pairs.point[working]
        begins = np.flatnonzero(np.diff(owner, prepend=-1))
        rows = owner[begins]
        if len(rows):
            work.first[rows] = np.minimum.reduceat(calls.first[call], begins)
            work.last[rows] = np.maximum.reduceat(calls.last[call], begins)
            work.operations[rows] = np.add.reduceat(calls.operations[call], begins)
            work.launches[rows] = np.diff(begins, append=len(call))
    return work


def _work_of_calls(trace: Trace) -> _Work:
    n_calls = trace.row_count("api_call") if trace.has("api_call") else 0
    work = _Work(*_nothing(n_calls))
    for table in OPERATION_TABLES:
        if n_calls and trace.has(table):
            call = launch_calls_in_any_order(trace, table)
            columns = trace.columns(table, "start_ns", "end_ns", ordered=False)
            start, end = columns["start_ns"].values, columns["end_ns"].values
            if len(call) and int(call.min()) < 0:
                rows = np.flatnonzero(call >= 0)
                call, start, end = call[rows], start[rows], end[rows]
            _add_operations(work, call, start, end)
    return work


def _add_operations(work: _Work, call: I32, start: I64, end: I64) -> None:
    """Add operations to the work of their calls."""
    counts = np.bincount(call, minlength=len(work.operations))
    work.operations[:] += counts
    if counts.max(initial=0) <= 1:  # as without CUDA graphs: ten times as fast as `ufunc.at`
        work.first[call] = np.minimum(work.first[call], start)
        work.last[call] = np.maximum(work.last[call], end)
    else:
        np.minimum.at(work.first, call, start)
        np.maximum.at(work.last, call, end)


def _nothing(count: int) -> tuple[I64, I64, I64]:
    limits = np.iinfo(np.int64)
    return np.full(count, limits.max), np.full(count, limits.min), np.zeros(count, np.int64)
