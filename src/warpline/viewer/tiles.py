"""Tiles: the content of some rows in a time range at one level of detail.

A tile of level ``k`` has `BINS` bins of ``2**k`` ns. A row with few events in the tile has its
events, any other row has bins, so that every tile is small and fast.
``viewer/CONTAINER.md`` is the contract.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64, BoolArray
from warpline.viewer.columns import Packed, delta, float64, optional, plain
from warpline.viewer.container import event_columns
from warpline.viewer.range_max import NOTHING
from warpline.viewer.rows import Events, Link
from warpline.viewer.stored_rows import OfCategory, StoredRow

BINS = 512
MOST_EVENTS = 1024
_WIDE_BINS = 1.5
_HEAD_BYTES = 4
_PLACES = np.arange(BINS)


class Grid(NamedTuple):
    """The grid of tiles.

    Attributes:
        origin_ns: Start of the first tile of each level, in the trace's time.
        end_ns: End of the recording.
        offset_ns: Subtracted from all times sent to the page.
    """

    origin_ns: int
    end_ns: int
    offset_ns: int

    @property
    def levels(self) -> int:
        """Number of levels: the single tile of the last level covers everything."""
        return max(0, (self.end_ns - self.origin_ns - 1).bit_length() - BINS.bit_length() + 1) + 1

    def has(self, level: int, index: int) -> bool:
        """Return whether the tile exists."""
        if not 0 <= level < self.levels or index < 0:
            return False
        return self.origin_ns + index * (BINS << level) < self.end_ns

    def edges(self, level: int, index: int) -> I64:
        """Return the edges of a tile's bins, shape (BINS + 1,)."""
        first = self.origin_ns + index * (BINS << level)
        return first + (np.arange(BINS + 1, dtype=np.int64) << level)


class _Bins(NamedTuple):
    """A row in bins: arrays of shape (BINS,), and the wide events, shape (w,)."""

    busy_ns: I64
    top: I64
    top_ns: I64
    rest: I64
    rest_ns: I64
    wide: I64


class _CounterBins(NamedTuple):
    """A counter in bins, shape (BINS,); NaN where it has no value."""

    mean: F64
    least: F64
    most: F64


class _Writer:
    """Collects columns in sequence."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, columns: Sequence[Packed], count: int) -> dict[str, Any]:
        """Add columns of `count` values and return their location."""
        described = {
            "offset": self._size,
            "count": count,
            "columns": [column.head() for column in columns],
        }
        self._parts += [column.data for column in columns]
        self._size += sum(len(column.data) for column in columns)
        return described

    def framed(self, head: dict[str, Any]) -> bytes:
        """Return the length of a head, the head, and the columns."""
        text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
        return b"".join((len(text).to_bytes(_HEAD_BYTES, "little"), text, *self._parts))


def tile(rows: Sequence[StoredRow], grid: Grid, level: int, index: int, wanted: list[int]) -> bytes:
    """Return a tile of some rows.

    Args:
        rows: All rows.
        grid: Grid of the tiles.
        level: Level of the tile.
        index: Index of the tile in its level.
        wanted: Indices of the rows to include.
    """
    edges = grid.edges(level, index)
    low, high = int(edges[0]), int(edges[-1])
    writer = _Writer()
    told: list[dict[str, Any]] = []
    bins: list[_Bins] = []
    counters: list[_CounterBins] = []
    wide: list[I64] = []
    for place in wanted:
        row = rows[place]
        first, last = row.touching(low, high)
        if last - first <= MOST_EVENTS:
            told.append(
                {"row": place, "first": first, **_events(writer, _drawn(row, first, last), grid)}
            )
        elif row.is_counter:
            told.append({"row": place, "counter": len(counters)})
            counters.append(_counter_bins(row, level, edges))
        else:
            row_bins = _bins(row, level, edges)
            told.append({"row": place, "bins": len(bins), "wide": len(row_bins.wide)})
            bins.append(row_bins)
            wide.append(_wide_of(row, row_bins.wide, low))
    head: dict[str, Any] = {"level": level, "index": index, "rows": told}
    if bins:
        head["bins"] = _write_bins(writer, bins)
        head["wide"] = _write_wide(writer, np.concatenate(wide, axis=1))
    if counters:
        count = len(counters) * BINS
        columns = (np.concatenate(each) for each in zip(*counters, strict=True))
        named = zip(_CounterBins._fields, columns, strict=True)
        head["counters"] = writer.add([float64(name, values) for name, values in named], count)
    return writer.framed(head)


def cut_out(
    rows: Sequence[StoredRow], grid: Grid, wanted: list[int], span: tuple[float, float], most: int
) -> bytes | None:
    """Return all events of some rows that overlap a span of the trace's time, with ids and links.

    None if there are more than `most`.
    """
    touching = [(place, *rows[place].touching(*span)) for place in wanted]
    if sum(last - first for _, first, last in touching) > most:
        return None
    writer = _Writer()
    told = [
        {"row": place, "first": first, **_events(writer, events, grid)}
        for place, first, last in touching
        for events in [_with_links(rows[place], first, last)]
    ]
    return writer.framed({"rows": told})


def _with_links(row: StoredRow, first: int, last: int) -> Events:
    """Return some events with all their data."""
    own = slice(first, last)
    ends = {name: row.links[name][own].astype(np.int64) for name in row.links}
    links = {name: Link(rows, rows >= 0) for name, rows in ends.items()}
    return row.row.events.taken(own).linked(links)


def _drawn(row: StoredRow, first: int, last: int) -> Events:
    """Return some events with the data for drawing: a tile needs no ids and no links."""
    whole, own = row.row.events, slice(first, last)
    value = None if whole.value is None else whole.value[own]
    return Events(whole.start_ns[own], whole.end_ns[own], whole.name[own], value=value)


def _events(writer: _Writer, shown: Events, grid: Grid) -> dict[str, Any]:
    """Write some events as a part."""
    if not len(shown):
        return {"count": 0}
    described = writer.add(event_columns(shown), len(shown))
    return {**described, "first_ns": int(shown.start_ns[0]) - grid.offset_ns}


def _bins(row: StoredRow, level: int, edges: I64) -> _Bins:
    begun = np.searchsorted(row.start_ns, edges)
    before = begun - 1  # the last event that starts before each edge
    known = np.maximum(before, 0)
    start, length = row.start_ns[known], row.lengths(known)
    low = row.busy_ns[known]
    inside = np.minimum(row.busy_ns[known + 1] - low, edges - start)
    reach = np.where(before >= 0, low + inside, 0)
    crosses = (before >= 0) & (start + length > edges)
    (top, top_ns), (rest, rest_ns) = (
        _heaviest(row, level, edges, begun, crosses, is_idle=is_idle) for is_idle in (False, True)
    )
    is_wide = crosses & (length >= _WIDE_BINS * (1 << level))
    wide = before[is_wide]
    return _Bins(
        reach[1:] - reach[:-1],
        _names(row, top),
        top_ns,
        _names(row, rest),
        rest_ns,
        wide[np.diff(wide, prepend=-1) != 0],
    )


def _heaviest(
    row: StoredRow, level: int, edges: I64, begun: I64, crosses: BoolArray, *, is_idle: bool
) -> tuple[I64, I64]:
    """Return the dominant category of each bin.

    Returns:
        For the busy or idle category with the most time in each bin: its event that covers most of
        the bin, or `NOTHING`, and the category's time.
    """
    heaviest = np.full(BINS, NOTHING, np.int64)
    kept = [own for own in row.by_category if own.is_idle == is_idle]
    if not kept:
        return heaviest, np.zeros(BINS, np.int64)
    sums = np.full((len(kept), BINS), NOTHING, np.int64)
    reached = []
    for own, its_sums in zip(kept, sums, strict=True):
        places = own.places(begun)
        into = _reaching_in(own, places, begun, crosses)
        over = np.where(into, _ends(row, begun - 1) - edges, 0)  # time beyond each edge
        before = own.before_ns[places] - over
        is_here = into[:-1] | (places[1:] > places[:-1])
        its_sums[is_here] = (before[1:] - before[:-1])[is_here]
        reached.append((places, into))
    chosen = np.argmax(sums, axis=0)
    most_ns = sums[chosen, _PLACES]
    chosen[most_ns < 0] = NOTHING
    for place, (own, (places, into)) in enumerate(zip(kept, reached, strict=True)):
        bins = np.flatnonzero(chosen == place)
        if len(bins):
            heaviest[bins] = _longest(row, own, level, edges, places, into)[bins]
    return heaviest, np.maximum(most_ns, 0)


def _reaching_in(own: OfCategory, places: I64, begun: I64, crosses: BoolArray) -> BoolArray:
    """Return the edges that an event of a category crosses."""
    last = own.numbers(np.maximum(places - 1, 0))
    reaches: BoolArray = crosses & (places > 0) & (last == begun - 1)
    return reaches


def _ends(row: StoredRow, events: I64) -> I64:
    end_ns: I64 = row.row.events.end_ns[np.maximum(events, 0)]
    return end_ns


def _longest(
    row: StoredRow, own: OfCategory, level: int, edges: I64, places: I64, into: BoolArray
) -> I64:
    """Return the event of a category that covers most of each bin; arbitrary if there is none."""
    candidates = np.empty((3, BINS), np.int64)
    candidates[0] = np.where(into[:-1], places[:-1] - 1, NOTHING)
    candidates[1] = own.longest.best(level, places)
    candidates[2] = np.where(places[1:] > places[:-1], places[1:] - 1, NOTHING)
    events = own.numbers(np.maximum(candidates, 0))
    inside = np.minimum(_ends(row, events), edges[1:])
    inside -= np.maximum(row.start_ns[events], edges[:-1])
    inside[candidates < 0] = NOTHING
    chosen: I64 = events[np.argmax(inside, axis=0), _PLACES]
    return chosen


def _names(row: StoredRow, events: I64) -> I64:
    return np.where(events >= 0, row.name[np.maximum(events, 0)], NOTHING).astype(np.int64)


def _counter_bins(row: StoredRow, level: int, edges: I64) -> _CounterBins:
    assert row.value is not None
    value = row.value
    begun = np.searchsorted(row.start_ns, edges)
    area, known = row.curve_until(edges)
    time = np.diff(known)
    last = np.where(np.diff(begun) > 0, begun[1:] - 1, NOTHING)
    # The previous value counts unless a sample is exactly at the start of the bin.
    follows = np.minimum(begun[:-1], len(row) - 1)
    is_held = (begun[:-1] > 0) & ((row.start_ns[follows] != edges[:-1]) | (begun[:-1] == len(row)))
    into = np.where(is_held, begun[:-1] - 1, NOTHING)

    def extreme(inner: I64, nothing: float) -> F64:
        candidates = np.stack((into, inner, last))
        found = np.where(candidates >= 0, value[np.maximum(candidates, 0)], nothing)
        return np.where(np.isnan(found), nothing, found)

    most = extreme(row.highest.best(level, begun), -np.inf).max(axis=0)
    least = extreme(row.lowest.best(level, begun), np.inf).min(axis=0)
    mean = np.divide(np.diff(area), time, out=most.copy(), where=time > 0)
    is_known = most > -np.inf
    mean, least, most = (np.where(is_known, each, np.nan) for each in (mean, least, most))
    return _CounterBins(np.clip(mean, least, most), least, most)


def _wide_of(row: StoredRow, events: I64, low: int) -> I64:
    """Return start in the tile, duration, and name of some events, shape (3, w)."""
    names = row.name[events].astype(np.int64)
    return np.stack((row.start_ns[events] - low, row.lengths(events), names))


def _write_bins(writer: _Writer, bins: list[_Bins]) -> dict[str, Any]:
    busy, top, top_ns, rest, rest_ns = (
        np.concatenate([getattr(each, name) for each in bins])
        for name in ("busy_ns", "top", "top_ns", "rest", "rest_ns")
    )
    columns = [
        plain("busy", busy),
        optional("top", top, top >= 0),
        plain("top_ns", top_ns),
        optional("rest", rest, rest >= 0),
        plain("rest_ns", rest_ns),
    ]
    return writer.add(columns, len(bins) * BINS)


def _write_wide(writer: _Writer, wide: I64) -> dict[str, Any]:
    start, length, name = wide
    columns = [delta("start", start), plain("duration", length), plain("name", name)]
    return writer.add(columns, len(start))
