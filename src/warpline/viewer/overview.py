"""The overview block: the content of each row in a few thousand bins, drawn before the events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64, U8
from warpline.viewer.rows import Events

_MOST_BINS, _LEAST_BINS = 2048, 64
_MOST_BYTES = (
    1 << 26
)  # the page keeps them all in memory: with thousands of threads, bins are wider
NO_CATEGORY = 255
_FULL = 255


class _Bins(NamedTuple):
    """Edges of the bins, ns: shape (bins + 1,), ascending."""

    edges: F64

    @property
    def number(self) -> int:
        return len(self.edges) - 1

    @property
    def width(self) -> F64:
        return np.maximum(np.diff(self.edges), 1e-9)


def bin_count(rows: int) -> int:
    """Return the number of bins per row for a number of rows."""
    count = _MOST_BINS
    while count > _LEAST_BINS and 2 * rows * count > _MOST_BYTES:
        count //= 2
    return count


class Overview:
    """Collects the coverage and the main category of every row and bin.

    Args:
        rows: Number of rows, groups included; a row that is not added is empty.
        start_ns: Start of the first bin.
        end_ns: End of the last bin.
    """

    def __init__(self, rows: int, start_ns: int, end_ns: int) -> None:
        count = bin_count(rows)
        self._bins = _Bins(np.linspace(start_ns, end_ns, count + 1))
        self._coverage = np.zeros((rows, count), np.uint8)
        self._main = np.full((rows, count), NO_CATEGORY, np.uint8)

    def add(self, place: int, events: Events, categories: I64) -> None:
        """Add the events of a row; `categories` has the category of each name."""
        if not len(events):
            return
        if events.value is not None:
            self._coverage[place] = _mean_of_counter(events, self._bins)
            self._main[place] = categories[events.name[0]]
        else:
            self._coverage[place], self._main[place] = _of_events(events, categories, self._bins)

    def content(self) -> bytes:
        """Return the content of the block: 2 * rows * bins bytes."""
        return self._coverage.tobytes() + self._main.tobytes()


def _of_events(events: Events, categories: I64, bins: _Bins) -> tuple[U8, U8]:
    covered, touched = _covered(events.start_ns, events.end_ns, bins), _touched(events, bins)
    shade = np.clip(np.round(covered / bins.width * _FULL), 0, _FULL).astype(np.uint8)
    level: U8 = np.maximum(shade, touched)
    category = categories.astype(np.uint8)[events.name]
    present = np.flatnonzero(np.bincount(category))
    if len(present) == 1:
        main = np.where(level > 0, present[0], NO_CATEGORY)
        return level, main.astype(np.uint8)
    best = np.zeros(bins.number)
    main = np.where(level > 0, present[0], NO_CATEGORY)
    for each in present.tolist():
        rows = np.flatnonzero(category == each)
        share = _covered(events.start_ns[rows], events.end_ns[rows], bins)
        main = np.where(share > best, each, main)
        best = np.maximum(best, share)
    return level, main.astype(np.uint8)


def _covered(start: I64, end: I64, bins: _Bins) -> F64:
    """Return the time in each bin that the events cover, ns; the events do not overlap."""
    before = np.append(0, np.cumsum(end - start)).astype(np.float64)
    place = np.searchsorted(start, bins.edges, side="right")
    last = np.maximum(place - 1, 0)
    inside = np.minimum(bins.edges - start[last], (end - start)[last])
    reach: F64 = np.where(place > 0, before[last] + np.maximum(inside, 0), 0.0)
    return np.diff(reach)


def _touched(events: Events, bins: _Bins) -> U8:
    """Return 1 for each bin that an event overlaps."""
    low, width = bins.edges[0], bins.width[0]
    first = np.clip((events.start_ns - low) / width, 0, bins.number - 1).astype(np.int64)
    last = np.ceil(np.clip((events.end_ns - low) / width, 0, bins.number)).astype(np.int64) - 1
    last = np.maximum(first, last)
    change = np.bincount(first, minlength=bins.number + 1)
    change = change - np.bincount(last + 1, minlength=bins.number + 1)
    touched: U8 = (np.cumsum(change)[: bins.number] > 0).astype(np.uint8)
    return touched


def _mean_of_counter(events: Events, bins: _Bins) -> U8:
    """Return the mean of each bin relative to the maximum; a sample is valid until the next."""
    assert events.value is not None
    value = np.maximum(np.nan_to_num(events.value), 0.0)
    largest = float(value.max())
    if largest <= 0:
        return np.zeros(bins.number, np.uint8)
    held = (events.end_ns - events.start_ns) * (value / largest)
    before = np.append(0.0, np.cumsum(held))
    place = np.searchsorted(events.start_ns, bins.edges, side="right")
    last = np.maximum(place - 1, 0)
    inside = np.clip(bins.edges - events.start_ns[last], 0, (events.end_ns - events.start_ns)[last])
    reach = np.where(place > 0, before[last] + inside * (value[last] / largest), 0.0)
    level: U8 = np.clip(np.round(np.diff(reach) / bins.width * _FULL), 0, _FULL).astype(np.uint8)
    return level
