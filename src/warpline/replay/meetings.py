"""Collectives in which ranks meet: each ends when all ranks have started and data has moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.collectives.matches import collective_matches
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.tiling import by_group
from warpline.replay.host import NONE
from warpline.replay.queued import queued
from warpline.trace import Run, Trace

# At least this share of matched collectives must overlap in time, or the match is wrong.
_MATCHED_RATIO = 0.9


class Meetings(NamedTuple):
    """The operations of each collective.

    Attributes:
        of_item: Shape (items,), int64, number of the collective, NONE for other items.
        n_meetings: Number of collectives.
        offset_ns: Shape (processes,), int64, how far each process's clock is ahead of the first.
    """

    of_item: I64
    n_meetings: int
    offset_ns: I64


class _Parts(NamedTuple):
    """The parts of collectives: the collective and the operation of each."""

    collective: I64
    operation: I64


@derived
def meetings(run: Run) -> Meetings:
    """Return the collectives of several processes whose parts are all simulated.

    Without matched collectives, collective kernels such as sends and receives are matched by order.
    """
    trace = run.trace
    queue, work, matched = queued(run), operations(trace), collective_matches(trace)
    processes = trace.row_count("process") if trace.has("process") else 0
    at_once = np.zeros(processes, np.int64)
    if matched.count:
        # The clocks of different files were aligned when the files were opened.
        parts = _Parts(matched.collective, matched.operation)
        return _in_window(queue.operation, parts, len(work), at_once)
    parts, offset = _by_order(trace, at_once)
    return _in_window(queue.operation, parts, len(work), offset)


def _by_order(trace: Trace, offset_ns: I64) -> tuple[_Parts, I64]:
    """Return collectives matched by order, and clock offsets; none if the ranks differ."""
    work = operations(trace)
    nothing = np.zeros(0, np.int64)
    collective = TimePart.COLLECTIVE
    rows = np.flatnonzero(operation_categories(trace) == collective)
    ranks = [rows[of] for of in by_group(work.process[rows])]
    if len(ranks) < 2 or len({len(rank) for rank in ranks}) > 1:
        return _Parts(nothing, nothing), offset_ns
    ranks = [rank[np.argsort(work.start_ns[rank], kind="stable")] for rank in ranks]
    names = [_names(trace, work.row[rank]) for rank in ranks]
    if any(np.any(other != names[0]) for other in names[1:]):
        return _Parts(nothing, nothing), offset_ns
    offset, files = offset_ns.copy(), trace.meta.file_of_process
    for rank in ranks[1:]:
        one, other = int(work.process[ranks[0][0]]), int(work.process[rank[0]])
        if len(files) > max(one, other) and files[one] != files[other]:
            ahead = np.median(work.end_ns[rank] - work.end_ns[ranks[0]])
            offset[other] = round(float(ahead))
    starts = [work.start_ns[rank] - offset[work.process[rank]] for rank in ranks]
    ends = [work.end_ns[rank] - offset[work.process[rank]] for rank in ranks]
    meet = np.max(starts, axis=0) <= np.min(ends, axis=0)
    if np.mean(meet) < _MATCHED_RATIO:
        return _Parts(nothing, nothing), offset_ns
    kept = np.stack([rank[meet] for rank in ranks])
    number = np.broadcast_to(np.arange(kept.shape[1]), kept.shape)
    return _Parts(number.ravel(), kept.ravel()), offset


def _in_window(operation: I64, parts: _Parts, n_operations: int, offset_ns: I64) -> Meetings:
    """Return the meetings whose parts are all simulated."""
    item = np.full(n_operations + 1, NONE)
    item[operation] = np.arange(len(operation))
    item[NONE] = NONE
    place = item[parts.operation]
    count = int(parts.collective.max(initial=-1)) + 1
    is_whole = np.ones(count, np.bool_)
    is_whole[parts.collective[place < 0]] = False
    number = np.cumsum(is_whole) - 1
    chosen = is_whole[parts.collective]
    of_item = np.full(len(operation), NONE)
    of_item[place[chosen]] = number[parts.collective[chosen]]
    return Meetings(of_item, int(is_whole.sum()), offset_ns)


def _names(trace: Trace, rows: I64) -> I64:
    names: I64 = trace.columns("kernel", "short_name_id")["short_name_id"].values[rows]
    return names
