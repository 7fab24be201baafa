"""Ranges projected onto the GPU: from the start of their first operation to the end of the last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.threads import launches_within, thread_range_nesting
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I32, I64
from warpline.trace import Trace

_TABLES = ("kernel", "memcpy", "memset")


class Projection(NamedTuple):
    """The ranges that contain launch calls of GPU operations.

    Attributes:
        row: Shape (n,), int64, rows of the range table, ascending.
        start_ns: Shape (n,), int64, start of the first operation on a GPU.
        end_ns: Shape (n,), int64, end of the last operation.
        operations: Shape (n,), int64, number of kernels, copies and memsets.
        launches: Shape (n,), int64, number of launch calls; a CUDA graph launch is one.
        depth: Shape (n,), int32, number of enclosing ranges.
        children: Shape (n,), int64, number of direct child ranges that launch GPU work.
    """

    row: I64
    start_ns: I64
    end_ns: I64
    operations: I64
    launches: I64
    depth: I32
    children: I64


class _Work(NamedTuple):
    """The operations launched by each call, shape (calls,)."""

    first: I64
    last: I64
    operations: I64


@derived
def projected_ranges(trace: Trace) -> Projection:
    """Return the projection of each range that contains at least one whole launch call."""
    n_ranges, calls = trace.row_count("range"), _work_of_calls(trace)
    of_range = _Work(*_nothing(n_ranges))
    launches = np.zeros(n_ranges, np.int64)
    for pairs in launches_within(trace, "api_call"):
        working = np.flatnonzero(calls.operations[pairs.point])
        owner, call = pairs.interval[working], pairs.point[working]
        begins = np.flatnonzero(np.diff(owner, prepend=-1))
        rows = owner[begins]
        if len(rows):
            of_range.first[rows] = np.minimum.reduceat(calls.first[call], begins)
            of_range.last[rows] = np.maximum.reduceat(calls.last[call], begins)
            of_range.operations[rows] = np.add.reduceat(calls.operations[call], begins)
            launches[rows] = np.diff(begins, append=len(call))
    row = np.flatnonzero(launches)
    nesting = thread_range_nesting(trace, push_pop_only=False)
    inner = row[nesting.has_parent[row]]
    children = np.bincount(nesting.parent[inner], minlength=n_ranges)
    first, last, operations = (column[row] for column in of_range)
    return Projection(
        row=row,
        start_ns=first,
        end_ns=last,
        operations=operations,
        launches=launches[row],
        depth=nesting.depth[row],
        children=children[row],
    )


def _work_of_calls(trace: Trace) -> _Work:
    n_calls = trace.row_count("api_call") if trace.has("api_call") else 0
    work = _Work(*_nothing(n_calls))
    for table in _TABLES:
        if n_calls and trace.has(table):
            launches = launch_calls(trace)[table]
            rows, call = np.flatnonzero(launches.found), launches.row[launches.found]
            columns = trace.columns(table, "start_ns", "end_ns")
            np.minimum.at(work.first, call, columns["start_ns"].values[rows])
            np.maximum.at(work.last, call, columns["end_ns"].values[rows])
            work.operations[:] += np.bincount(call, minlength=n_calls)
    return work


def _nothing(count: int) -> tuple[I64, I64, I64]:
    limits = np.iinfo(np.int64)
    return np.full(count, limits.max), np.full(count, limits.min), np.zeros(count, np.int64)
