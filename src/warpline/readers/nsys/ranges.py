"""NVTX_EVENTS as ranges and marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.readers.nsys.database import Kind
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

    @cached_property
    def types(self) -> I64:
        """The event type of each row, shape (n,)."""
        return SourceTable(self._export, EVENTS).ints("eventType").values

    @cached_property
    def range_rows(self) -> I64:
        """Rows that are ranges, or begin one, ascending."""
        return np.flatnonzero(np.isin(self.types, RANGES))

    @cached_property
    def mark_rows(self) -> I64:
        """Rows that are marks, ascending."""
        return np.flatnonzero(self.types == Event.MARK)

    @cached_property
    def unmapped(self) -> dict[int, int]:
        """Ignored event types -> rows, such as a pop or end without its begin."""
        values, counts = np.unique(self.types, return_counts=True)
        rows = dict(zip(values.tolist(), counts.tolist(), strict=True))
        return {kind: count for kind, count in rows.items() if kind not in _MAPPED} | self._lonely

    @cached_property
    def domains(self) -> dict[tuple[int, ...], bytes]:
        """Name of each (globalPid, domain id)."""
        return self._names(Event.DOMAIN_CREATE, "domainId")

    @cached_property
    def categories(self) -> dict[tuple[int, ...], bytes]:
        """Name of each (globalPid, domain id, category)."""
        return self._names(Event.CATEGORY, "domainId", "category")

    @cached_property
    def range_ends(self) -> tuple[I64, BoolArray]:
        """When each range ends, and whether it was still open; both shape (n_ranges,)."""
        table = self.table(self.range_rows, "start", "end")
        start, end = table.ints("start").values, table.ints("end")
        is_open, ends = ~end.is_valid(), end.filled(0)
        for row, partner_ns in self._halves[0].items():
            place = int(np.searchsorted(self.range_rows, row))
            ends[place], is_open[place] = partner_ns, False
        if is_open.any():
            last = self._end_ns
            if last is None:
                last = int(max(start.max(), ends[~is_open].max(initial=start.min())))
            ends = np.where(is_open, np.maximum(start, last), ends)
        return ends, is_open

    def table(self, rows: I64, *columns: str) -> SourceTable:
        """Return some rows with the given columns of integers."""
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
        rows = np.flatnonzero(np.isin(self.types, (Event.PUSH, Event.POP, Event.START, Event.END)))
        if not len(rows):
            return {}, {}
        table = self.table(rows, "start", "globalTid", "domainId", "rangeId")
        time_ns, thread_key = table.ints("start").values, table.ints("globalTid").values
        domain, range_id = table.ints("domainId").values, table.ints("rangeId").values
        open_rows: dict[tuple[int, ...], list[int]] = {}
        partner_ns: dict[int, int] = {}
        lonely: dict[int, int] = {}
        for place in np.argsort(time_ns, kind="stable").tolist():
            kind = Event(int(self.types[rows[place]]))
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
        rows = np.flatnonzero(self.types == kind)
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
        ids = table.ints("textId")
        rows, valid = reading.names.of_texts(table.texts("text"))
        if not ids.is_valid().any():
            return make_column(spec, rows, valid)
        is_registered = ids.is_valid()
        known = is_registered if valid is None else is_registered | valid
        rows = np.where(is_registered, reading.names.of_ids(ids), rows)
        return make_column(spec, rows, known)

    return Field(load, {"textId": Kind.INT64, "text": Kind.TEXT})


def domain_name(events: NvtxEvents) -> Field:
    """Return the name of an event's domain, null for the default one."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        domain = table.ints("domainId").filled(_DEFAULT_DOMAIN)
        rows = np.flatnonzero(domain != _DEFAULT_DOMAIN)
        keys = (table.ints("globalTid").values[rows] & PROCESS_MASK, domain[rows])

        def text(key: tuple[int, ...]) -> bytes:
            return events.domains.get(key) or f"domain {key[1]}".encode()

        return _named_rows(reading, spec, len(domain), rows, keys, text)

    return Field(load, {"domainId": Kind.INT64, "globalTid": Kind.INT64})


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
        return make_column(spec, events.range_ends[0])

    def is_truncated(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, events.range_ends[1])

    def end_thread(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ended = thread("endGlobalTid").load(reading, table, spec)
        begun = thread().load(reading, table, TABLES["range"].column("thread_id"))
        return make_column(spec, ended.values, ended.is_valid() & (ended.values != begun.values))

    def style(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        types = events.types[events.range_rows]
        return make_column(spec, np.isin(types, _START_END) * _STYLE_START_END)

    def source_id(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, events.range_rows + 1)

    return {
        "start_ns": required("start"),
        "end_ns": Field(end_ns),
        "process_id": process(),
        "thread_id": thread(),
        "end_thread_id": Field(end_thread),
        "domain_id": domain_name(events),
        "name_id": event_name(),
        "category_id": category_name(events),
        "color": color(),
        "style": Field(style),
        "is_truncated": Field(is_truncated),
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
