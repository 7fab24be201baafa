"""NVTX_EVENTS as ranges and marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I64, BoolArray, taken
from warpline.ops.group import factorize_rows
from warpline.readers.nsys.database import Kind, RawCodes
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.fields import Field, Reading, process, required, thread
from warpline.readers.nsys.identity import PROCESS_MASK
from warpline.schema import TABLES, Column
from warpline.trace.column import ColumnData, make_column

EVENTS = "NVTX_EVENTS"


class Event(IntEnum):
    """Values of NVTX_EVENTS.eventType that are mapped.

    The raw halves appear only where the exporter found no match. The last two are ranges
    imported from NVTX text files.
    """

    CATEGORY = 33
    MARK = 34
    PUSH = 35
    POP = 36
    START = 37
    END = 38
    THREAD_NAME = 39
    PUSH_POP = 59
    START_END = 60
    IMPORTED_PUSH_POP = 70
    IMPORTED_START_END = 71
    DOMAIN_CREATE = 75
    DOMAIN_DESTROY = 76


RANGES = (
    Event.PUSH_POP,
    Event.START_END,
    Event.IMPORTED_PUSH_POP,
    Event.IMPORTED_START_END,
    Event.PUSH,
    Event.START,
)
_MAPPED = {int(kind) for kind in Event} - {Event.POP, Event.END}
_START_END = (Event.START_END, Event.IMPORTED_START_END, Event.START)
# Whoever counts the ranges reads these columns of theirs next.
_OF_RANGES = {
    **dict.fromkeys(("start", "end"), Kind.INT64),
    **dict.fromkeys(("domainId", "textId"), Kind.INT64_CODES),
    "text": Kind.TEXT_CODES,
}
_DEFAULT_DOMAIN = 0
_NO_CATEGORY = 0
_STYLE_START_END = 1  # of schema.labels.RANGE_STYLES


class NvtxEvents:
    """The rows of NVTX_EVENTS by event type, and the names that other rows define.

    Args:
        export: The export.
        end_ns: When the recording ended, which is where open ranges end; or None.
    """

    def __init__(self, export: Export, end_ns: int | None) -> None:
        self._export = export
        self._end_ns = end_ns

    def types_of(self, rows: I64) -> I64:
        """Return the event type of some rows, shape (n,)."""
        types = self._export.event_types
        return np.asarray(types.keys)[types.codes[rows]]

    def rows_of(self, kinds: Sequence[int]) -> I64:
        """Return the rows of some event types, ascending."""
        types = self._export.event_types
        return np.flatnonzero(np.isin(types.keys, kinds)[types.codes])

    @property
    def range_rows(self) -> I64:
        """Rows that are ranges, or begin one, ascending."""
        chosen = self.chosen_ranges
        return np.arange(len(self._export.event_types.codes)) if chosen is None else chosen

    @cached_property
    def chosen_ranges(self) -> I64 | None:
        """Rows that are ranges, or begin one, ascending; None if all are."""
        return None if self._is_range.all() else np.flatnonzero(self._is_range[self._types.codes])

    def __len__(self) -> int:
        """Return the number of ranges."""
        return self._range_count

    def between(self, first: int, last: int) -> I64 | None:
        """Return those of `chosen_ranges` from `first` to before `last`; None if all are."""
        if self._is_range.all():
            return None
        return np.flatnonzero(self._is_range[self._types.codes[first:last]]) + first

    @cached_property
    def _types(self) -> RawCodes:
        """The types of all events, from a pass that also reads what ranges of small tables need."""
        if not self._export.is_large(EVENTS):
            self._export.foresee(EVENTS, _OF_RANGES)
        types = self._export.event_types
        self._export.forget(EVENTS)
        return types

    @cached_property
    def _range_count(self) -> int:
        if self._is_range.all():
            return len(self._types.codes)
        return int(np.count_nonzero(self._is_range[self._types.codes]))

    @cached_property
    def _is_range(self) -> BoolArray:
        """Whether events of each type are ranges, or begin one."""
        return np.isin(np.asarray(self._types.keys), RANGES)

    @cached_property
    def mark_rows(self) -> I64:
        """Rows that are marks, ascending."""
        return self.rows_of((Event.MARK,))

    @cached_property
    def unmapped(self) -> dict[int, int]:
        """Ignored event types -> rows, such as a pop or end without its begin."""
        types = self._export.event_types
        counts = np.bincount(types.codes, minlength=len(types.keys))
        rows = dict(zip(np.asarray(types.keys).tolist(), counts.tolist(), strict=True))
        return {kind: count for kind, count in rows.items() if kind not in _MAPPED} | self._lonely

    @cached_property
    def domains(self) -> dict[tuple[int, ...], bytes]:
        """Name of each (globalPid, domain id)."""
        return self._names(Event.DOMAIN_CREATE, "domainId")

    @cached_property
    def categories(self) -> dict[tuple[int, ...], bytes]:
        """Name of each (globalPid, domain id, category)."""
        return self._names(Event.CATEGORY, "domainId", "category")

    def range_ends(self, table: SourceTable | None = None) -> tuple[I64, BoolArray]:
        """Return when each range ends, and whether it was still open; both shape (n_ranges,).

        Args:
            table: The rows of ranges, if their times have been read.
        """
        table = table or self.table(self.chosen_ranges, "start", "end")
        start, ends, is_open = self._closed(table)
        if is_open.any():
            ends = np.where(is_open, np.maximum(start, self._last_ns), ends)
        return ends, is_open

    def _closed(self, table: SourceTable) -> tuple[I64, I64, BoolArray]:
        """Return starts and ends of ranges, and which have no end."""
        start, end = table.ints("start").values, table.ints("end")
        is_open, ends = ~end.is_valid(), end.filled(0)
        partners = self._halves[0]
        if partners:
            begun = np.array([*partners], np.int64)
            rows = np.arange(len(start)) if table.rows is None else table.rows
            places = np.minimum(np.searchsorted(rows, begun), len(rows) - 1)
            here = np.flatnonzero(rows[places] == begun) if len(rows) else np.zeros(0, np.int64)
            ends[places[here]] = np.array([*partners.values()], np.int64)[here]
            is_open[places[here]] = False
        return start, ends, is_open

    @cached_property
    def _last_ns(self) -> int:
        """When ranges end that are open at the end of the recording."""
        if self._end_ns is not None:
            return self._end_ns
        start, ends, is_open = self._closed(self.table(self.chosen_ranges, "start", "end"))
        return int(max(start.max(), ends[~is_open].max(initial=start.min())))

    def table(self, rows: I64 | None, *columns: str) -> SourceTable:
        """Return some rows, None for all, with the given columns of integers."""
        table = SourceTable(self._export, EVENTS, rows)
        table.fetch(dict.fromkeys(columns, Kind.INT64))
        return table

    @property
    def _lonely(self) -> dict[int, int]:
        return self._halves[1]

    @cached_property
    def _halves(self) -> tuple[dict[int, int], dict[int, int]]:
        """Raw halves of ranges: row of a begin -> time of its end; and ends without a begin.

        Pushes and pops nest per thread and domain. Starts and ends share an id in a process.
        """
        rows = self.rows_of((Event.PUSH, Event.POP, Event.START, Event.END))
        if not len(rows):
            return {}, {}
        table = self.table(rows, "start", "globalTid", "domainId", "rangeId")
        time_ns, thread_key = table.ints("start").values, table.ints("globalTid").values
        domain, range_id = table.ints("domainId").values, table.ints("rangeId").values
        kinds = self.types_of(rows)
        open_rows: dict[tuple[int, ...], list[int]] = {}
        partner_ns: dict[int, int] = {}
        lonely: dict[int, int] = {}
        for place in np.argsort(time_ns, kind="stable").tolist():
            kind = Event(int(kinds[place]))
            nested = kind in (Event.PUSH, Event.POP)
            key: tuple[int, ...] = (int(thread_key[place]), int(domain[place]))
            if not nested:
                key = (-1, int(thread_key[place]) & PROCESS_MASK, int(range_id[place]))
            if kind in (Event.PUSH, Event.START):
                open_rows.setdefault(key, []).append(int(rows[place]))
            elif open_rows.get(key):
                partner_ns[open_rows[key].pop()] = int(time_ns[place])
            else:
                lonely[kind] = lonely.get(kind, 0) + 1
        return partner_ns, lonely

    def _names(self, kind: Event, *columns: str) -> dict[tuple[int, ...], bytes]:
        """Return the text of each (globalPid, *columns) in rows of one event type."""
        rows = self.rows_of((kind,))
        table = self.table(rows, "globalTid", *columns)
        processes = table.ints("globalTid").values & PROCESS_MASK
        keys = zip(
            processes.tolist(), *(table.ints(c).values.tolist() for c in columns), strict=True
        )
        texts = table.strings("text")
        return {key: text.encode() for key, text in zip(keys, texts, strict=True) if text}


def event_name() -> Field:
    """Return the name of an event: registered, or written in the row."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ids = table.codes("textId")
        rows, valid = reading.names.of_texts(table.text_codes("text"))
        if ids.valid is not None and not ids.valid.any():
            return make_column(spec, rows, valid)
        is_registered = np.ones(len(rows), np.bool_) if ids.valid is None else ids.valid
        known = is_registered if valid is None else is_registered | valid
        rows = np.where(is_registered, reading.names.of_ids(ids), rows)
        return make_column(spec, rows, known)

    return Field(load, {"textId": Kind.INT64_CODES, "text": Kind.TEXT_CODES})


def domain_name(events: NvtxEvents) -> Field:
    """Return the name of an event's domain, null for the default one."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        domain = table.codes("domainId")  # null is 0, the default
        ids = np.asarray(domain.keys)
        named = ids != _DEFAULT_DOMAIN
        rows = np.flatnonzero(taken(named, domain.codes)) if named.any() else np.zeros(0, np.int64)
        threads = reading.ids.codes(table.name, "globalTid")
        of_rows = threads.codes[rows if table.rows is None else table.rows[rows]]
        keys = (threads.keys[of_rows] & PROCESS_MASK, ids[domain.codes[rows]])

        def text(key: tuple[int, ...]) -> bytes:
            return events.domains.get(key) or f"domain {key[1]}".encode()

        return _named_rows(reading, spec, len(domain.codes), rows, keys, text)

    return Field(load, {"domainId": Kind.INT64_CODES})


def category_name(events: NvtxEvents) -> Field:
    """Return the name of an event's category, its number if unnamed, null without a category."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        category = table.ints("category").filled(_NO_CATEGORY)
        rows = np.flatnonzero(category != _NO_CATEGORY)
        processes = table.ints("globalTid").values[rows] & PROCESS_MASK
        keys = (processes, table.ints("domainId").values[rows], category[rows])

        def text(key: tuple[int, ...]) -> bytes:
            return events.categories.get(key) or str(key[2]).encode()

        return _named_rows(reading, spec, len(category), rows, keys, text)

    columns = ("category", "domainId", "globalTid")
    return Field(load, dict.fromkeys(columns, Kind.INT64))


def _named_rows(
    reading: Reading,
    spec: Column,
    count: int,
    rows: I64,
    keys: tuple[I64, ...],
    text: Callable[[tuple[int, ...]], bytes],
) -> ColumnData:
    """Return a column of texts for tuples of keys in some rows, null elsewhere."""
    values, valid = np.zeros(count, np.int32), np.zeros(count, np.bool_)
    if len(rows):
        groups = factorize_rows(*keys)
        distinct = zip(*(key[groups.first].tolist() for key in keys), strict=True)
        names = [reading.names.pool.intern(text(key)) for key in distinct]
        values[rows], valid[rows] = np.array(names, np.int32)[groups.codes], True
    return make_column(spec, values, valid)


def color() -> Field:
    """Return a color as an unsigned number. The export holds the same bits as a signed one."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ints = table.ints("color")
        return make_column(spec, ints.values & 0xFFFF_FFFF, ints.valid)

    return Field(load, {"color": Kind.INT64})


def range_fields(events: NvtxEvents) -> Mapping[str, Field]:
    """Return the fields of the table range."""

    def end_ns(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, events.range_ends(table)[0])

    def is_truncated(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, events.range_ends(table)[1])

    def end_thread(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ended = thread("endGlobalTid").load(reading, table, spec)
        begun = thread().load(reading, table, TABLES["range"].column("thread_id"))
        return make_column(spec, ended.values, ended.is_valid() & (ended.values != begun.values))

    def style(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        types = reading.export.event_types
        values = np.isin(types.keys, _START_END).astype(np.int32) * _STYLE_START_END
        codes = types.codes if table.rows is None else taken(types.codes, table.rows)
        return make_column(spec, taken(values, codes))

    def source_id(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        rows = np.arange(len(table)) if table.rows is None else table.rows
        return make_column(spec, rows + 1)

    ends = dict.fromkeys(("start", "end"), Kind.INT64)
    return {
        "start_ns": required("start"),
        "end_ns": Field(end_ns, ends),
        "process_id": process(),
        "thread_id": thread(),
        "end_thread_id": Field(end_thread),
        "domain_id": domain_name(events),
        "name_id": event_name(),
        "category_id": category_name(events),
        "color": color(),
        "style": Field(style),
        "is_truncated": Field(is_truncated, ends),
        "source_id": Field(source_id),
    }


def mark_fields(events: NvtxEvents) -> Mapping[str, Field]:
    """Return the fields of the table mark."""
    return {
        "time_ns": required("start"),
        "process_id": process(),
        "thread_id": thread(),
        "domain_id": domain_name(events),
        "name_id": event_name(),
        "category_id": category_name(events),
        "color": color(),
    }
