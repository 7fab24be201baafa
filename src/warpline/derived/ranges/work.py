"""The GPU work of each range: number of operations and busy time.

A GPU operation (kernel, copy, memset, or graph-level CUDA graph) belongs to every range that is
open when its launch call starts: push/pop ranges of the launching thread, and start/end ranges of
its process on any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived, forget
from warpline.derived.ranges.coverage import Coverage, Timeline
from warpline.derived.ranges.stacks import innermost_range, launched_inside
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.group import factorize
from warpline.ops.join import Lookup
from warpline.ops.tree import Contents
from warpline.trace import Trace

_KERNEL = DEVICE_TABLES.index("kernel")


class Work(NamedTuple):
    """GPU operations with a known launch call, by the row of that call.

    Attributes:
        call: Shape (n,), int64, rows of `api_call` in its total order, ascending.
        operation: Shape (n,), int64, places in `operations`.
        is_kernel: Shape (n,), bool.
    """

    call: I64
    operation: I64
    is_kernel: BoolArray


class RangeWork(NamedTuple):
    """The GPU work of each range, rows in the table's total order.

    Attributes:
        operations: Shape (ranges,), int64, number of operations.
        kernels: Shape (ranges,), int64, number of operations that are kernels.
        launches: Shape (ranges,), int64, number of launch calls; a CUDA graph launch is one.
        took: The time of the operations on the GPUs.
        self_operations: Shape (ranges,), int64, operations not launched in a range opened later
            on the thread; 0 for start/end ranges, which do not nest.
        self_busy_ns: Shape (ranges,), int64, time during which at least one of these runs.
    """

    operations: I64
    kernels: I64
    launches: I64
    took: Coverage
    self_operations: I64
    self_busy_ns: I64


def has_work(trace: Trace) -> bool:
    """Return whether the trace has GPU work with a known launch call."""
    return trace.has("api_call") and len(launched_work(trace).call) > 0


@derived
def launched_work(trace: Trace) -> Work:
    """Return the GPU operations with a known launch call.

    Graph launches count only if traced at graph level.
    """
    work = operations(trace)
    operation = np.flatnonzero(work.call >= 0)
    operation = operation[np.argsort(work.call[operation], kind="stable")]
    return Work(work.call[operation], operation, work.table[operation] == _KERNEL)


@derived
def work_timeline(trace: Trace) -> Timeline:
    """Return the operations of `launched_work`, ready to be measured in sets."""
    work = operations(trace)
    return Timeline(work.start_ns, work.end_ns, work.device, launched_work(trace).operation)


@derived
def work_inside(trace: Trace) -> Contents:
    """Return the operations of `launched_work` that belong to each range."""
    calls, counts = launched_inside(trace, "api_call"), _operations_by_call(trace)
    of_call = counts[calls.order]
    reach = _running_sum(of_call)
    shift = (np.cumsum(counts) - counts)[calls.order] - reach[:-1]
    order = np.arange(reach[-1]) + np.repeat(shift, of_call)
    return Contents(order, reach[calls.first], reach[calls.last])


def _innermost_of_work(trace: Trace) -> Lookup:
    """Return the innermost push/pop range around the launch of each operation."""
    call = launched_work(trace).call
    of_calls = innermost_range(trace, "api_call")
    return Lookup(of_calls.row[call], of_calls.found[call])


@derived
def range_work(trace: Trace) -> RangeWork:
    """Return the GPU work of each range; raises MissingTableError without ranges or calls."""
    work, inside = launched_work(trace), work_inside(trace)
    launches = _sums(launched_inside(trace, "api_call"), _operations_by_call(trace) > 0)
    forget(trace, launched_inside)  # large, and only made for this
    operations = inside.last - inside.first
    innermost = _innermost_of_work(trace)
    self_operations = np.bincount(innermost.row[innermost.found], minlength=len(operations))
    took = work_timeline(trace).measure_contents(inside, len(operations))
    return RangeWork(
        operations=operations,
        kernels=_sums(inside, work.is_kernel),
        launches=launches,
        took=took,
        self_operations=self_operations,
        self_busy_ns=_self_busy(trace, innermost, self_operations == operations, took.busy_ns),
    )


def work_notes(trace: Trace) -> tuple[str, ...]:
    """Return a note on GPU work that belongs to no range, if there is any."""
    inside, n_known = work_inside(trace), len(launched_work(trace).call)
    n_open = np.bincount(inside.first, minlength=len(inside.order) + 1)
    n_open -= np.bincount(inside.last, minlength=len(inside.order) + 1)
    is_held = np.zeros(n_known, np.bool_)
    is_held[inside.order[np.cumsum(n_open)[:-1] > 0]] = True
    n_all = len(operations(trace))
    n_free = n_all - int(np.count_nonzero(is_held))
    if not n_free:
        return ()
    why = "launched outside all ranges, or the launch call was not recorded"
    return (f"{n_free:,} of {n_all:,} GPU operations belong to no range: {why}",)


def _self_busy(trace: Trace, innermost: Lookup, is_all_own: BoolArray, busy_ns: I64) -> I64:
    """Return the busy time of the work launched directly in each range."""
    # Most ranges are leaves: all their work is their own, and its busy time is already known.
    members = np.flatnonzero(innermost.found)
    members = members[~is_all_own[innermost.row[members]]]
    owners = factorize(innermost.row[members])
    sets = group_contents(owners.codes, owners.n_groups)
    own = Contents(members[sets.order], sets.first, sets.last)
    busy = busy_ns.copy()
    busy[~is_all_own] = 0
    busy[owners.uniques] = work_timeline(trace).measure_contents(own, owners.n_groups).busy_ns
    return busy


def group_contents(codes: Integers, n_groups: int) -> Contents:
    """Return the rows of each group.

    Args:
        codes: Shape (n,), group numbers in ``[0, n_groups)``.
        n_groups: Number of groups.
    """
    last = np.cumsum(np.bincount(codes, minlength=n_groups))
    return Contents(np.argsort(codes, kind="stable"), np.append(0, last[:-1])[:n_groups], last)


@derived
def _operations_by_call(trace: Trace) -> I64:
    """Return the number of operations launched by each call, shape (calls,)."""
    return np.bincount(launched_work(trace).call, minlength=trace.row_count("api_call"))


def _sums(inside: Contents, values: BoolArray) -> I64:
    """Return for each interval the number of its points that are True."""
    running = _running_sum(values[inside.order])
    return running[inside.last] - running[inside.first]


def _running_sum(values: Integers | BoolArray) -> I64:
    """Return the exclusive prefix sums and the total, shape (n + 1,)."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
