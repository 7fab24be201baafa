"""The collective library calls that launched each kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.stacks import is_launched_inside
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I64, BoolArray, Integers, repeated, taken
from warpline.ops.join import Lookup
from warpline.ops.tree import enclosing
from warpline.trace import Trace
from warpline.trace.collectives import DOMAIN


@derived
def collective_of_kernel(trace: Trace) -> Lookup:
    """Return the row of `collective` that launched each kernel, shape (kernels,).

    It is the innermost call open on the launching thread at the launch. Kernels of grouped calls
    are launched at the end of the group and have none.
    """
    count = trace.row_count("kernel") if trace.has("kernel") else 0
    has_calls = trace.has("collective") and trace.row_count("collective")
    launches = _launches(trace) if has_calls else None
    if launches is None or not len(launches.kernel):
        return Lookup(
            repeated(np.zeros(1, np.int64), count), repeated(np.zeros(1, np.bool_), count)
        )
    row, found = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    calls = trace.columns("collective", "start_ns", "end_ns", "thread_id")
    start, end, thread = (calls[name].values for name in ("start_ns", "end_ns", "thread_id"))
    inside = enclosing(
        launches.start_ns,
        start,
        np.maximum(start, end),
        point_group=launches.thread,
        group=thread,
    )
    row[launches.kernel], found[launches.kernel] = inside.row, inside.found
    return Lookup(row, found)


@derived
def launched_by_collectives(trace: Trace) -> BoolArray:
    """Return which kernels were launched inside a collective or inside any NCCL range.

    Shape (kernels,). Kernels of grouped calls are launched at the end of the group, which is also
    a range in NCCL's domain.
    """
    inside = collective_of_kernel(trace).found.copy()
    ranges = _ranges_of_nccl(trace)
    if not len(ranges) or not len(inside) or not trace.has("api_call"):
        return inside
    return inside | is_launched_inside(trace, "kernel", ranges)


class _Launches(NamedTuple):
    """Kernels with a known launch call: row, and start and thread of the call."""

    kernel: I64
    start_ns: I64
    thread: Integers


def _launches(trace: Trace) -> _Launches:
    calls = launch_calls(trace)["kernel"]
    kernel = np.flatnonzero(calls.found)
    if not len(kernel):
        return _Launches(kernel, kernel, kernel)
    columns = trace.columns("api_call", "start_ns", "thread_id")
    row = calls.row[kernel]
    start, thread = (taken(columns[name].values, row) for name in ("start_ns", "thread_id"))
    return _Launches(kernel, start, thread)


def _ranges_of_nccl(trace: Trace) -> I64:
    """Return the ranges in NCCL's domain, rows of `range`."""
    if not trace.has("range"):
        return np.zeros(0, np.int64)
    domain = trace.columns("range", "domain_id")["domain_id"]
    number = trace.strings.find(DOMAIN)  # After the column: texts get numbers when read.
    if number is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(domain.is_valid() & (domain.values == number))
