"""Ranges projected to the GPUs: the time range of the GPU work launched in each range."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.phases import leading_threads
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.stacks import innermost_range, range_nesting
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize
from warpline.ops.tree import enclosing
from warpline.trace import Run, Trace
from warpline.viewer.lanes import MAX_LANES, TOO_DEEP, lanes

_NO_RANGE = -1
_NO_THREAD = -1


class Projected(NamedTuple):
    """Ranges with GPU work, by device and row.

    Attributes:
        device: Shape (n,), int64, rows of the device table.
        range: Shape (n,), int64, rows of the range table.
        start_ns: Shape (n,), int64, start of the first operation of the range.
        end_ns: Shape (n,), int64, end of the last operation of the range.
        level: Shape (n,), int64, number of ranges around it on its thread; of other threads than
            the leading one, such as that of the backward pass, with those around them there.
    """

    device: I64
    range: I64
    start_ns: I64
    end_ns: I64
    level: I64


def phase_lanes(phases: Projected) -> I64:
    """Return the lane of each projected range on its device: always below that of its parent.

    Consecutive ranges may overlap on the device. So each level has as many lanes as it needs, and
    those of the next level follow: no range takes a lane that ranges around it left free.

    Returns:
        Shape (n,), int64; `TOO_DEEP` beyond `MAX_LANES` lanes.
    """
    levels = int(phases.level.max(initial=0)) + 1
    level = factorize(phases.device * levels + phases.level)
    own = lanes(phases.start_ns, phases.end_ns, level.codes.astype(np.int64)).astype(np.int64)
    is_deep = own == TOO_DEEP
    count = np.zeros(level.n_groups, np.int64)
    np.maximum.at(count, level.codes, np.where(is_deep, MAX_LANES, own) + 1)
    before = np.cumsum(count) - count
    device = level.uniques // levels  # ascending, and the levels of each device
    lane = (before - before[np.searchsorted(device, device)])[level.codes] + own
    return np.where(is_deep | (lane >= MAX_LANES), TOO_DEEP, lane)


@derived
def projected(trace: Trace) -> Projected:
    """Return the push/pop ranges projected to the devices.

    An operation belongs to the ranges that enclose its launch on the launching thread. If a thread
    has no open range, as in the backward pass, its operations belong to the open ranges of the
    leading thread of its process.
    """
    owner = _range_of_operations(trace)
    work = operations(trace)
    parts = [
        _on_device(trace, device, np.flatnonzero((work.device == device) & (owner >= 0)), owner)
        for device in np.unique(work.device[owner >= 0]).tolist()
    ]
    nothing = np.zeros(0, np.int64)
    return Projected(
        *(np.concatenate([nothing, *(part[place] for part in parts)]) for place in range(5))
    )


def _on_device(trace: Trace, device: int, rows: I64, owner: I64) -> Projected:
    work, nesting = operations(trace), range_nesting(trace)
    limits = np.iinfo(np.int64)
    first = np.full(len(nesting.depth), limits.max)
    last = np.full(len(nesting.depth), limits.min)
    np.minimum.at(first, owner[rows], work.start_ns[rows])
    np.maximum.at(last, owner[rows], work.end_ns[rows])
    order = np.argsort(nesting.depth, kind="stable")
    deepest = int(nesting.depth.max(initial=0))
    bounds = np.searchsorted(nesting.depth[order], np.arange(1, deepest + 2))
    for depth in range(deepest, 0, -1):
        level = order[bounds[depth - 1] : bounds[depth]]
        np.minimum.at(first, nesting.parent[level], first[level])
        np.maximum.at(last, nesting.parent[level], last[level])
    ranges = np.flatnonzero(last >= first)
    return Projected(
        np.full(len(ranges), device),
        ranges,
        first[ranges],
        last[ranges],
        _levels(trace)[ranges],
    )


def _levels(trace: Trace) -> I64:
    """Return the level of each range: other threads begin below the range usually around them."""
    level = range_nesting(trace).depth.astype(np.int64)
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id", "process_id")
    start, end, thread, process = (column.values for column in columns.values())
    is_leading = leading_threads(Run(trace))[process] == thread
    others = np.flatnonzero(~is_leading)
    outermost = others[level[others] == 0]
    around = enclosing(
        start[outermost],
        start,
        end,
        point_group=process[outermost].astype(np.int64),
        group=np.where(is_leading & push_pop_ranges(trace), process, _NO_THREAD).astype(np.int64),
    )
    if around.found.any():
        level[others] += int(np.median(level[around.row[around.found]])) + 1
    return level


def _range_of_operations(trace: Trace) -> I64:
    """Return the innermost range of each operation, _NO_RANGE outside all ranges."""
    work = operations(trace)
    innermost = np.full(len(work), _NO_RANGE, np.int64)
    launched = np.flatnonzero(work.call >= 0)
    if not len(launched) or not trace.has("range") or not trace.row_count("range"):
        return innermost
    inner = innermost_range(trace, "api_call")
    call = work.call[launched]
    own = inner.found[call]
    innermost[launched[own]] = inner.row[call[own]]
    rows = launched[~own]
    ranges = trace.columns("range", "start_ns", "end_ns", "thread_id")
    thread = np.where(push_pop_ranges(trace), ranges["thread_id"].values, _NO_THREAD)
    lead = leading_threads(Run(trace))[work.process[rows]]
    around = enclosing(
        trace.columns("api_call", "start_ns")["start_ns"].values[work.call[rows]],
        ranges["start_ns"].values,
        ranges["end_ns"].values,
        point_group=np.where(lead < 0, _NO_THREAD - 1, lead),
        group=thread.astype(np.int64),
    )
    innermost[rows[around.found]] = around.row[around.found]
    return innermost
