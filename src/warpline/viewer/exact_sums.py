"""Exact sums of a row over equal bins: a thinned report has the time of every window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I64
from warpline.viewer.columns import plain
from warpline.viewer.container import BlockWriter
from warpline.viewer.names import CATEGORIES
from warpline.viewer.rows import Events

MOST_BINS, LEAST_BINS = 16_384, 16
_BYTES_PER_BIN = 5  # after compression and base64: a few categories of one or two bytes


class Sums(NamedTuple):
    """Sums of one row; bin i has 2**level ns and starts i of these after the first.

    Attributes:
        level: Binary logarithm of the width of a bin in ns.
        events: Number of events that start in each bin, shape (bins,).
        ns: Time of the events in each bin by category, each of shape (bins,).
    """

    level: int
    events: I64
    ns: Mapping[int, I64]


def bins_within(size: float, rows: int) -> int:
    """Return the number of bins of each row so that the sums of all take about this size, bytes."""
    fitting = int(size / (_BYTES_PER_BIN * max(rows, 1)))
    return 1 << (max(min(fitting, MOST_BINS), LEAST_BINS).bit_length() - 1)


def exact_sums(
    events: Events, categories: I64, span: tuple[int, int], most_bins: int = MOST_BINS
) -> Sums:
    """Return the exact sums of a row.

    Args:
        events: All events of the row, sorted by start, without overlaps.
        categories: Category of each name.
        span: Start and end of the timeline, ns; all events are inside.
        most_bins: Most bins; the level is the lowest that needs no more.
    """
    low, high = span
    level = max(-(-(high - low) // most_bins) - 1, 0).bit_length()
    count = -(-(high - low) // (1 << level))
    edges = low + (np.arange(count + 1) << level)
    start, end = events.start_ns, events.end_ns
    category = categories[events.name]
    ns = {}
    for each in np.unique(category).tolist():
        own = np.flatnonzero(category == each)
        ns[each] = _time_in(start[own], end[own], edges)
    places = np.searchsorted(start, edges[:-1])
    return Sums(level, np.diff(places, append=len(start)), ns)


def _time_in(start: I64, end: I64, edges: I64) -> I64:
    """Return the time of disjoint intervals between each two edges."""
    length = end - start
    before = np.append(0, np.cumsum(length))
    begun = np.searchsorted(start, edges)
    last = np.maximum(begun - 1, 0)  # the last interval that starts before each edge
    inside = np.minimum(edges - start[last], length[last])
    reach = np.where(begun > 0, before[last] + inside, 0)
    time: I64 = np.diff(reach)
    return time


def write_sums(writer: BlockWriter, sums: Sums) -> dict[str, Any]:
    """Add the sums of a row to a container; return their description in the head."""
    columns = [plain("events", sums.events)]
    columns += [plain(CATEGORIES[place].name, ns) for place, ns in sums.ns.items()]
    block, offset = writer.append("sums", columns)
    return {
        "block": block,
        "offset": offset,
        "level": sums.level,
        "count": len(sums.events),
        "columns": [column.head() for column in columns],
    }
