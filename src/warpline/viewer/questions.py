"""Queries of a tiled page: exact answers about events and sums.

Times and rows are those of the container. ``viewer/CONTAINER.md`` is the contract.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.viewer.attributes import EVENT_TABLES
from warpline.viewer.name_sums import CHUNK
from warpline.viewer.stored_rows import StoredRow
from warpline.viewer.tiles import Grid, cut_out

_FURTHEST = 2**62
_MOST_LINES = 1_000
_MOST_LINKED = 10_000
_MOST_CUT = 3_000_000
_MOST_BINS = 16_384
_WIDE_BINS = 1.5  # longer events are drawn one by one
_MADE_ID = re.compile(r"(.+)#(\d{1,15})", re.DOTALL | re.ASCII)
_TABLE_ID = re.compile(r"([a-z_]+):(\d{1,18})", re.ASCII)

Asked = Mapping[str, Any]


class BadQuestion(ValueError):  # noqa: N818 - a rejected query
    """The query is invalid."""


class _Key(NamedTuple):
    """Sort key of a walk: time, then row, then event."""

    time_ns: float
    row: int
    event: int


class Questions:
    """Answers from stored rows.

    Args:
        rows: Rows in the order of the container.
        grid: Grid of the tiles.
        links: Links of the container's head.
        names: Number of names.
    """

    def __init__(
        self,
        rows: Sequence[StoredRow],
        grid: Grid,
        links: Sequence[Mapping[str, str]],
        names: int,
    ) -> None:
        self._rows, self._grid, self._links, self._names = rows, grid, links, names
        self._places = {row.row.id: place for place, row in enumerate(rows)}
        # A phase has the id of its range: prefer the range.
        self._seeking = sorted(range(len(rows)), key=lambda place: rows[place].row.kind == "phase")
        self._answers: Mapping[str, Callable[[Asked], Any]] = {
            "event": lambda asked: self._found(_whole(asked, "row"), _whole(asked, "event")),
            "stretch": self._stretch,
            "find": lambda asked: self._find(_text(asked, "id")),
            "at": self._at,
            "latest": self._latest,
            "links": self._linked,
            "match": self._match,
            "tally": self._tally,
            "hits": self._hits,
            "longest": self._longest,
            "sums": self._sums,
            "names": self._by_name,
            "means": self._means,
        }

    def answer(self, name: str, asked: Asked) -> Any:
        """Return an answer for JSON; KeyError for an unknown query.

        Raises:
            BadQuestion: An argument is missing or invalid.
        """
        return self._answers[name](asked)

    def events(self, asked: Asked) -> bytes | None:
        """Return all events of rows that overlap a span; None if there are too many."""
        most = min(_whole(asked, "most"), _MOST_CUT)
        return cut_out(self._rows, self._grid, self._wanted(asked), self._span(asked), most)

    # -- what was asked --------------------------------------------------------------------

    def _wanted(self, asked: Asked) -> list[int]:
        given = asked.get("rows")
        if not isinstance(given, list) or len(given) > 2 * len(self._rows):
            raise BadQuestion("rows")
        return [self._row(place) for place in given]

    def _row(self, place: Any) -> int:
        if not _is_whole(place) or not 0 <= place < len(self._rows):
            raise BadQuestion("row")
        return int(place)

    def _time(self, asked: Asked, name: str) -> float:
        time: float = _number(asked, name) + self._grid.offset_ns
        return time

    def _span(self, asked: Asked) -> tuple[float, float]:
        start, end = self._time(asked, "start"), self._time(asked, "end")
        return start, max(start, end)

    # -- events ----------------------------------------------------------------------------

    def _found(self, place: int, event: int) -> dict[str, Any] | None:
        """Return the data of an event; None if it does not exist."""
        if not (0 <= place < len(self._rows) and 0 <= event < len(self._rows[place])):
            return None
        row, offset = self._rows[place], self._grid.offset_ns
        events = row.row.events
        table = row.row.table if events.table is None else EVENT_TABLES[int(events.table[event])]
        number = None if events.row is None or table is None else int(events.row[event])
        ends = {link: int(rows[event]) for link, rows in row.links.items()}
        return {
            "row": place,
            "event": event,
            "id": f"{row.row.id}#{event}" if number is None else f"{table}:{number}",
            "start": int(events.start_ns[event]) - offset,
            "end": int(events.end_ns[event]) - offset,
            "name": int(events.name[event]),
            "table": None if number is None else table,
            "tableRow": number,
            "links": {link: end for link, end in ends.items() if end >= 0},
        }

    def _stretch(self, asked: Asked) -> list[Any]:
        place = self._row(asked.get("row"))
        first = max(_whole(asked, "first"), 0)
        last = min(_whole(asked, "last"), first + _MOST_LINES, len(self._rows[place]))
        return [self._found(place, event) for event in range(first, last)]

    def _find(self, text: str) -> dict[str, Any] | None:
        made = _MADE_ID.fullmatch(text)
        if made is not None:
            return self._found(self._places.get(made[1], -1), int(made[2]))
        of_table = _TABLE_ID.fullmatch(text)
        return None if of_table is None else self._of_table(of_table[1], int(of_table[2]))

    def _of_table(self, table: str, number: int) -> dict[str, Any] | None:
        if table not in EVENT_TABLES:
            return None
        for place in self._seeking:
            event = self._rows[place].find(table, number)
            if event is not None:
                return self._found(place, event)
        return None

    def _at(self, asked: Asked) -> dict[str, Any] | None:
        place, time = self._row(asked.get("row")), self._time(asked, "time")
        reach = _number(asked, "reach")
        row = self._rows[place]
        after = row.begun_by(time)
        before = after - 1
        if before >= 0 and row.end_ns(before) > time:
            return self._found(place, before)
        back = time - row.end_ns(before) if before >= 0 else math.inf
        ahead = int(row.start_ns[after]) - time if after < len(row) else math.inf
        if min(back, ahead) > reach:
            return None
        return self._found(place, before if back <= ahead else after)

    def _latest(self, asked: Asked) -> list[Any]:
        time = self._time(asked, "time")
        return [
            self._found(place, self._rows[place].begun_by(time) - 1)
            for place in self._wanted(asked)
        ]

    def _linked(self, asked: Asked) -> list[Any]:
        place, event = _whole(asked, "row"), _whole(asked, "event")
        own = self._found(place, event)
        if own is None:
            return []
        links: list[Any] = []
        for link in self._links:
            name, table = link["name"], link["table"]
            if name in own["links"]:
                cause = self._of_table(table, own["links"][name])
                if cause is not None:
                    links.append(_link(name, link["text"], cause, is_cause=True))
            if own["table"] == table:
                links += [
                    _link(name, name, effect, is_cause=False)
                    for effect in self._pointing_at(name, own["tableRow"])
                ]
        return links

    def _pointing_at(self, link: str, number: int) -> Iterator[dict[str, Any] | None]:
        left = _MOST_LINKED
        for place, row in enumerate(self._rows):
            for event in row.pointing_at(link, number, left):
                left -= 1
                yield self._found(place, event)

    # -- walks -----------------------------------------------------------------------------

    def _match(self, asked: Asked) -> dict[str, Any] | None:
        lit, begin = self._lit(_text(asked, "lit")), self._begin(asked)
        is_forward = _whole(asked, "direction") > 0
        best: _Key | None = None
        for place in self._wanted(asked):
            row = self._rows[place]
            if not len(row) or row.is_counter:
                continue
            seek = _next_lit if is_forward else _last_lit
            event = seek(row, lit, _first_beyond(row, place, begin, is_forward=is_forward), best)
            if event is None:
                continue
            key = _Key(int(row.start_ns[event]), place, event)
            if best is None or (key < best if is_forward else key > best):
                best = key
        return None if best is None else self._found(best.row, best.event)

    def _begin(self, asked: Asked) -> _Key:
        start = asked.get("from")
        if not isinstance(start, dict):
            raise BadQuestion("from")
        return _Key(self._time(start, "time"), _whole(start, "row"), _whole(start, "event"))

    def _tally(self, asked: Asked) -> dict[str, int]:
        """Return the number of highlighted events, and of those before a position of a walk."""
        lit, begin = self._lit(_text(asked, "lit")), self._begin(asked)
        before = total = 0
        for place in self._wanted(asked):
            row = self._rows[place]
            if not len(row) or row.is_counter:
                continue
            total += self._count(row, len(row), lit)
            preceding = _first_beyond(row, place, begin, is_forward=False) + 1
            before += self._count(row, preceding, lit)
        return {"before": before, "total": total}

    def _count(self, row: StoredRow, events: int, lit: BoolArray) -> int:
        """Return how many of the first events of a row are highlighted."""
        ns, count = np.zeros(self._names), np.zeros(self._names, np.int64)
        _add_names(row, 0, events, ns, count)
        return int(count[lit].sum())

    def _hits(self, asked: Asked) -> list[dict[str, Any]]:
        """Return the short highlighted events of each row by bin of their start."""
        lit, (start, end) = self._lit(_text(asked, "lit")), self._span(asked)
        bins = _whole(asked, "bins")
        if not 0 < bins <= _MOST_BINS or end <= start:
            raise BadQuestion("bins")
        bin_ns = (end - start) / bins
        return [
            {"row": place, **_binned_hits(self._rows[place], lit, start, bin_ns, bins)}
            for place in self._wanted(asked)
            if len(self._rows[place]) and not self._rows[place].is_counter
        ]

    def _longest(self, asked: Asked) -> dict[str, Any] | None:
        lit, (start, end) = self._lit(_text(asked, "lit")), self._span(asked)
        found: list[tuple[int, int, int, int]] = []
        for place in self._wanted(asked):
            row = self._rows[place]
            if len(row) and not row.is_counter:
                first, last = row.touching(start, end)
                found += _longest_lit(row, place, lit, first, last)
        _, _, place, event = min(found, default=(0, 0, -1, -1))
        return self._found(place, event)

    def _lit(self, text: str) -> BoolArray:
        """Return which names are highlighted, from one bit per name in base64."""
        try:
            octets = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
        except (binascii.Error, ValueError):
            raise BadQuestion("lit") from None
        if len(octets) != (self._names + 7) // 8:
            raise BadQuestion("lit")
        return np.unpackbits(octets, count=self._names, bitorder="little").astype(np.bool_)

    # -- sums ------------------------------------------------------------------------------

    def _sums(self, asked: Asked) -> list[dict[str, Any]]:
        start, end = self._span(asked)
        sums = []
        for place in self._wanted(asked):
            row = self._rows[place]
            if not len(row) or row.is_counter:
                continue
            first, last = row.touching(start, end)
            busy = row.busy_before(end) - row.busy_before(start)
            sums.append({"row": place, "first": first, "last": last, "busy_ns": busy})
        return sums

    def _means(self, asked: Asked) -> list[dict[str, Any]]:
        """Return the mean of each counter over the time that has values, and its extremes."""
        span = self._span(asked)
        means = []
        for place in self._wanted(asked):
            row = self._rows[place]
            if not len(row) or not row.is_counter or row.value is None:
                continue
            area, known = (np.diff(each) for each in row.curve_until(np.array(span)))
            first, last = row.touching(*span)
            if first < last and known[0] > 0:
                value = row.value[first:last]  # these ignore missing values
                least, most = float(np.fmin.reduce(value)), float(np.fmax.reduce(value))
                mean = min(max(float(area[0] / known[0]), least), most)
                found = {"low": mean, "high": mean, "least": least, "most": most}
                means.append({"row": place, **found, "covered_ns": _json_number(float(known[0]))})
        return means

    def _by_name(self, asked: Asked) -> list[dict[str, Any]]:
        start, end = self._span(asked)
        ns, count = np.zeros(self._names), np.zeros(self._names, np.int64)
        for place in self._wanted(asked):
            row = self._rows[place]
            if not len(row) or row.is_counter:
                continue
            first, last = row.touching(start, end)
            if first < last:
                _add_names(row, first, last, ns, count)
                ns[row.name[first]] -= max(0, start - int(row.start_ns[first]))
                ns[row.name[last - 1]] -= max(0, row.end_ns(last - 1) - end)
        order = np.flatnonzero(count)
        order = order[np.lexsort((order, -count[order], -ns[order]))]
        parts = (order.tolist(), count[order].tolist(), ns[order].tolist())
        return [
            {"name": name, "count": many, "ns": _json_number(time)}
            for name, many, time in zip(*parts, strict=True)
        ]


def _link(name: str, text: str, event: Any, *, is_cause: bool) -> dict[str, Any]:
    return {"link": name, "text": text, "isCause": is_cause, "event": event}


def _json_number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _add_names(row: StoredRow, first: int, last: int, ns: Any, count: I64) -> None:
    """Add the time and number of the events ``[first, last)`` by name."""
    sums = row.sums
    inner = (-(-first // CHUNK), last // CHUNK)
    pieces = [(first, last)]
    if sums is not None and inner[0] < inner[1]:
        time, many = sums.between(*inner)
        ns[sums.names] += time
        count[sums.names] += many
        pieces = [(first, inner[0] * CHUNK), (inner[1] * CHUNK, last)]
    events = row.row.events
    for low, high in pieces:
        for begin in range(low, high, CHUNK):
            own = slice(begin, min(begin + CHUNK, high))
            names, code = np.unique(events.name[own], return_inverse=True)
            length = events.end_ns[own] - events.start_ns[own]
            ns[names] += np.bincount(code, length)
            count[names] += np.bincount(code)


def _first_beyond(row: StoredRow, place: int, begin: _Key, *, is_forward: bool) -> int:
    """Return the nearest event of a row after, or before, a position of a walk."""
    left, right = row.begun_before(begin.time_ns), row.begun_by(begin.time_ns)
    if place == begin.row:
        inside = min(max(begin.event + (1 if is_forward else 0), left), right)
        return inside if is_forward else inside - 1
    if is_forward:
        return left if place > begin.row else right
    return right - 1 if place < begin.row else left - 1


def _longest_lit(
    row: StoredRow, place: int, lit: BoolArray, first: int, last: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the longest highlighted event of each chunk: minus its duration, start, row, event."""
    for low in range(first, last, CHUNK):
        events = np.arange(low, min(low + CHUNK, last))
        events = events[lit[row.name[events]]]
        if len(events):
            length_ns = row.lengths(events)
            most = int(events[length_ns.argmax()])
            yield -int(length_ns.max()), int(row.start_ns[most]), place, most


def _next_lit(row: StoredRow, lit: BoolArray, first: int, best: _Key | None) -> int | None:
    """Return the first highlighted event from `first` on that may be the nearest."""
    for chunk in _chunks(row, lit, first, is_forward=True):
        low = max(first, chunk * CHUNK)
        if best is not None and row.start_ns[low] > best.time_ns:
            return None
        hits = np.flatnonzero(lit[row.name[low : (chunk + 1) * CHUNK]])
        if len(hits):
            return low + int(hits[0])
    return None


def _last_lit(row: StoredRow, lit: BoolArray, last: int, best: _Key | None) -> int | None:
    """Return the last highlighted event up to `last` that may be the nearest."""
    for chunk in _chunks(row, lit, last, is_forward=False):
        high = min(last + 1, (chunk + 1) * CHUNK)
        if best is not None and row.start_ns[high - 1] < best.time_ns:
            return None
        hits = np.flatnonzero(lit[row.name[chunk * CHUNK : high]])
        if len(hits):
            return chunk * CHUNK + int(hits[-1])
    return None


def _binned_hits(
    row: StoredRow, lit: BoolArray, start: float, bin_ns: float, bins: int
) -> dict[str, list[Any]]:
    """Return the bins with short highlighted events: number, time, and the first one's name."""
    ns, name = np.zeros(bins), np.full(bins, -1, np.int64)
    first, last = row.begun_before(start), row.begun_before(start + bins * bin_ns)
    for chunk in _chunks(row, lit, first, is_forward=True):
        low, high = max(first, chunk * CHUNK), min(last, (chunk + 1) * CHUNK)
        if low >= high:
            break
        hits = low + np.flatnonzero(lit[row.name[low:high]])
        length = row.lengths(hits)
        is_short = length < _WIDE_BINS * bin_ns
        hits, length = hits[is_short], length[is_short]
        place = np.minimum((row.start_ns[hits] - start) // bin_ns, bins - 1).astype(np.int64)
        ns += np.bincount(place, length, bins)
        new, first_of = np.unique(place, return_index=True)
        is_new = name[new] < 0
        name[new[is_new]] = row.name[hits[first_of[is_new]]]
    found = np.flatnonzero(name >= 0)
    return {
        "bin": found.tolist(),
        "ns": np.minimum(ns[found], bin_ns).tolist(),
        "name": name[found].tolist(),
    }


def _chunks(row: StoredRow, lit: BoolArray, event: int, *, is_forward: bool) -> list[int]:
    """Return the chunks from an event on that may have a highlighted event."""
    if not 0 <= event < len(row):
        return []
    sums = row.sums
    count = -(-len(row) // CHUNK)
    with_lit = np.ones(count, np.bool_) if sums is None else sums.chunks_with(lit)
    lit_chunks = np.flatnonzero(with_lit)
    now = event // CHUNK
    chosen: list[int] = (
        lit_chunks[lit_chunks >= now] if is_forward else lit_chunks[lit_chunks <= now][::-1]
    ).tolist()
    return chosen


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _FURTHEST


def _whole(asked: Asked, name: str) -> int:
    value = asked.get(name)
    if value is None or not _is_whole(value):
        raise BadQuestion(name)
    return int(value)


def _number(asked: Asked, name: str) -> float:
    """Return a time in nanoseconds; integers stay integers."""
    value = asked.get(name)
    if isinstance(value, float) and math.isfinite(value) and abs(value) < _FURTHEST:
        return int(value) if value.is_integer() else value
    return _whole(asked, name)


def _text(asked: Asked, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str):
        raise BadQuestion(name)
    return value
