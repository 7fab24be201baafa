"""Collectives in which ranks meet: each one ends when all have begun, and the data has moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.tiling import by_group
from warpline.replay.host import NONE
from warpline.replay.lanes import lanes
from warpline.trace import Trace

# Of the pairs, this share has to overlap in time, else they were matched wrongly.
_MATCHED_RATIO = 0.9


class Meetings(NamedTuple):
    """Which operations are one collective.

    Attributes:
        of_item: Shape (items,), int64, number of the collective, NONE for other items.
        n_meetings: How many there are.
        offset_ns: Shape (processes,), int64, what the clock of each process is ahead of the
            first one's.
    """

    of_item: I64
    n_meetings: int
    offset_ns: I64


@derived
def meetings(trace: Trace, name: str | None = None) -> Meetings:
    """Return the collectives of several processes, matched by their order; none if they differ."""
    found, work = lanes(trace, name), operations(trace)
    processes = trace.row_count("process") if trace.has("process") else 0
    nothing = Meetings(np.full(len(found), NONE), 0, np.zeros(processes, np.int64))
    collective = BUSY_CATEGORIES.index("collective")
    rows = np.flatnonzero(operation_categories(trace) == collective)
    ranks = [rows[of] for of in by_group(work.process[rows])]
    if len(ranks) < 2 or len({len(rank) for rank in ranks}) > 1:
        return nothing
    ranks = [rank[np.argsort(work.start_ns[rank], kind="stable")] for rank in ranks]
    names = [_names(trace, work.row[rank]) for rank in ranks]
    if any(np.any(other != names[0]) for other in names[1:]):
        return nothing
    offset = nothing.offset_ns.copy()
    for rank in ranks[1:]:
        ahead = np.median(work.end_ns[rank] - work.end_ns[ranks[0]])
        offset[work.process[rank[0]]] = round(float(ahead))
    starts = [work.start_ns[rank] - offset[work.process[rank]] for rank in ranks]
    ends = [work.end_ns[rank] - offset[work.process[rank]] for rank in ranks]
    meet = np.max(starts, axis=0) <= np.min(ends, axis=0)
    if np.mean(meet) < _MATCHED_RATIO:
        return nothing
    return _in_window(found.operation, [rank[meet] for rank in ranks], len(work), offset)


def _in_window(operation: I64, ranks: list[I64], n_operations: int, offset_ns: I64) -> Meetings:
    """Return the meetings of which all operations are replayed."""
    item = np.full(n_operations + 1, NONE)
    item[operation] = np.arange(len(operation))
    item[NONE] = NONE
    places = np.stack([item[rank] for rank in ranks])
    places = places[:, np.all(places >= 0, axis=0)]
    number = np.full(len(operation), NONE)
    number[places] = np.arange(places.shape[1])
    return Meetings(number, places.shape[1], offset_ns)


def _names(trace: Trace, rows: I64) -> I64:
    names: I64 = trace.columns("kernel", "short_name_id")["short_name_id"].values[rows]
    return names
