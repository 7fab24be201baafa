"""An Nsight Systems export as the tables of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.frozen import replace
from warpline.ops.arrays import I64
from warpline.readers.nsys.collectives import Collectives
from warpline.readers.nsys.database import Database, Kind
from warpline.readers.nsys.declared import Declared
from warpline.readers.nsys.dimensions import Dimensions
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.fields import CHAIN_TABLES, Field, Reading
from warpline.readers.nsys.generic import EVENTS as GENERIC_EVENTS
from warpline.readers.nsys.generic import GenericEvents
from warpline.readers.nsys.generic_samples import GenericSamples
from warpline.readers.nsys.graphs import NODE_TABLES, NodeLaunches
from warpline.readers.nsys.identity import PLACE_TABLES, Identities
from warpline.readers.nsys.mapping import FRAME_ROWS, GRAPH_EVENTS, MAPPING, Mapped
from warpline.readers.nsys.meta import FORMAT, read_facts, unread_tables
from warpline.readers.nsys.metrics import Metrics
from warpline.readers.nsys.names import Names
from warpline.readers.nsys.payload import Payloads
from warpline.readers.nsys.python_events import GilSpans, PythonSamples
from warpline.readers.nsys.ranges import EVENTS, NvtxEvents, mark_fields, range_fields
from warpline.schema import TABLES, TableSpec
from warpline.trace.backtraces import Backtraces, FrameRows
from warpline.trace.column import ColumnData, concatenate, null_column
from warpline.trace.meta import TraceMeta
from warpline.trace.source import ROWS_PER_BLOCK
from warpline.trace.strings import StringPool

# Kinds of CAPTURE_EVENT_TYPE -> tables that count as recorded, even if empty.
_CAPTURED: Mapping[str, tuple[str, ...]] = {
    "Cuda": (
        "kernel",
        "memcpy",
        "memset",
        "graph_launch",
        "api_call",
        "host_wait",
        "stream_wait",
    ),
    "NvtxEvents": ("range", "mark", "range_payload", "collective"),
    "OSRuntime": ("os_call",),
}

# Tables that are recorded if NVTX_EVENTS has a domain of nsys's own.
_PYTHON = ("python_sample", "gil_span")

_NO_STACKS = (
    "the export omits Python stacks. To include them, export the report with --include-blobs=true."
)
_NO_PAYLOADS = (
    "the export omits NVTX payloads, and with them NCCL message sizes and communicators. "
    "To include them, export the report with --include-blobs=true."
)

# Table of the trace -> its source tables in the export.
SOURCES: Mapping[str, tuple[str, ...]] = {
    **{table: tuple(mapped.source for mapped in parts) for table, parts in MAPPING.items()},
    **dict.fromkeys((*_CAPTURED["NvtxEvents"], *_PYTHON), (EVENTS,)),
    "stack": CHAIN_TABLES,
    "graph_launch": (*(part.source for part in MAPPING["graph_launch"]), *NODE_TABLES),
}


class Part(Protocol):
    """Rows of one table of a trace."""

    def __len__(self) -> int: ...

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns. Those that are entirely null may be omitted."""
        ...


class NsysSource:
    """A TableSource over an export. All data is read on first use.

    Args:
        database: The export, open.
        shown_as: The file that the user named, if different.
        format_name: Name of the reader.

    Raises:
        UnsupportedVersionError: It was written by a version with another major schema.
    """

    def __init__(
        self, database: Database, shown_as: Path | None = None, format_name: str = FORMAT
    ) -> None:
        self.strings = StringPool()
        self._export = Export(database)
        names = Names(self._export, self.strings)
        ids = Identities(self._export)
        declared = Declared(self._export, ids, names)
        self._facts = read_facts(self._export, declared)
        self._path, self._format = shown_as or database.path, format_name
        if database.missing_bytes:
            self._export.probe({source for names in SOURCES.values() for source in names})
        self._generic = GenericEvents(self._export, ids, names)
        metrics = Metrics(self._export, ids, declared, names, self._generic)
        self._dimensions = Dimensions(ids, declared, metrics, names)
        self._backtraces = Backtraces(self._frame_rows)
        self._reading = Reading(
            self._export, names, ids, self._dimensions, metrics, self._backtraces
        )
        span = self._facts.meta.span_ns
        self._events = NvtxEvents(self._export, None if span is None else span[1])
        self._payloads = Payloads(self._export, self._events, names)
        self._python = PythonSamples(
            self._reading,
            self._events,
            len(FRAME_ROWS),
            was_wanted=self._facts.samples_python and self._export.has(EVENTS),
        )
        self._gil = GilSpans(self._reading, self._events)
        self._parts = self._make_parts()

    @classmethod
    def open(cls, path: Path) -> NsysSource:
        """Open an export. Raises InputError when it cannot be used."""
        database = Database.open(path)
        try:
            return cls(database)
        except BaseException:
            database.close()
            raise

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording, including damage found while reading."""
        wrong = [
            f"{column}: {count:,} values have the wrong type and are shown as missing"
            for column, count in self._export.mismatched.items()
        ]
        return replace(
            self._facts.meta,
            paths=(self._path,),
            format=self._format,
            unread=self._unread,
            damaged=self._damaged(),
            warnings=(*self._facts.meta.warnings, *wrong, *self._payload_hint),
        )

    def tables(self) -> Sequence[str]:
        """Return the tables that were recorded, empty ones included."""
        return self._recorded

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        if table in self._dimensions.tables():
            return self._dimensions.row_count(table)
        return sum(len(part) for part in self._parts[table])

    def foresee(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Note columns of tables that will be loaded: one pass over a table then reads them all."""
        for table, names in columns.items():
            for part in self._parts.get(table, ()):
                if isinstance(part, MappedPart):
                    part.foresee(names)

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a recorded table. Raises CorruptTraceError for unreadable rows."""
        if table in self._dimensions.tables():
            return self._dimensions.load(table, columns)
        spec = TABLES[table]
        loaded = [(len(part), part.load(columns)) for part in self._parts[table] if len(part)]
        if not loaded:
            return {name: null_column(spec.column(name), 0) for name in columns}
        return {
            name: concatenate(
                [data.get(name) or null_column(spec.column(name), n) for n, data in loaded]
            )
            for name in columns
        }

    def blocks(self, table: str, columns: Sequence[str]) -> Iterator[dict[str, ColumnData]] | None:
        """Return columns of a large table, a block of rows at a time; None for any other."""
        if table in self._dimensions.tables():
            return None
        parts = [part for part in self._parts[table] if isinstance(part, MappedPart)]
        if len(parts) < len(self._parts[table]) or not any(part.is_large for part in parts):
            return None
        return self._blocks(TABLES[table], parts, columns)

    @staticmethod
    def _blocks(
        spec: TableSpec, parts: Sequence[MappedPart], columns: Sequence[str]
    ) -> Iterator[dict[str, ColumnData]]:
        for part in parts:
            for count, data in part.blocks(columns):
                yield {
                    name: data.get(name) or null_column(spec.column(name), count)
                    for name in columns
                }

    def _make_parts(self) -> dict[str, tuple[Part, ...]]:
        events, reading = self._events, self._reading
        parts: dict[str, tuple[Part, ...]] = {
            table: tuple(MappedPart(reading, mapped) for mapped in sources)
            for table, sources in MAPPING.items()
        }
        parts["graph_launch"] += (NodeLaunches(reading),)
        if self._export.has(GENERIC_EVENTS):
            parts["counter"] += (GenericSamples(reading, self._generic),)
        fields = range_fields(events)
        ranges = Mapped("range", EVENTS, fields, lambda _: events.chosen_ranges, events)
        marks = Mapped("mark", EVENTS, mark_fields(events), lambda _: events.mark_rows)
        parts["range"] = (MappedPart(reading, ranges),)
        parts["mark"] = (MappedPart(reading, marks),)
        parts["range_payload"] = (self._payloads,)
        parts["python_sample"], parts["gil_span"] = (self._python,), (self._gil,)
        parts["stack"], parts["frame"] = (self._backtraces.stack,), (self._backtraces.frame,)
        parts["collective"] = (Collectives(reading, events, self._payloads),)
        return parts

    def _frame_rows(self) -> list[FrameRows]:
        """Return the frames of each table of backtraces, none for a damaged one."""
        frame_rows, spec = [], TABLES["frame"]
        for mapped in FRAME_ROWS:
            table = SourceTable(self._export, mapped.source)
            fields = mapped.fields.values()
            kinds = {column: kind for field in fields for column, kind in field.kinds.items()}
            with suppress(CorruptTraceError):  # `Export.read` notes it
                table.fetch({"id": Kind.INT64, "stackDepth": Kind.INT64, **kinds})
            columns = {
                name: field.load(self._reading, table, spec.column(name))
                for name, field in mapped.fields.items()
            }
            chain, position = table.ints("id").filled(0), table.ints("stackDepth").filled(0)
            frame_rows.append(FrameRows(chain, position, columns))
        return [*frame_rows, self._python.frame_rows()]

    @cached_property
    def _recorded(self) -> list[str]:
        recorded = {table for table in SOURCES if self._is_recorded(table)} - {*_PYTHON}
        if self._generic.has_samples:
            recorded.add("counter")
        recorded |= {*self._dimensions.tables()} - {"metric"}
        if "counter" in recorded:
            recorded.add("metric")
        if self._python.is_recorded:
            recorded |= {"python_sample", "stack"}
        if self._gil.is_recorded:
            recorded.add("gil_span")
        if "stack" in recorded:
            recorded.add("frame")
        return [table for table in TABLES if table in recorded]

    def _is_recorded(self, table: str) -> bool:
        """Whether a table was recorded, even if empty.

        A table without rows was recorded if its kind of event was selected. In an export that
        omits empty tables, so were the kinds that the recording does not name.
        """
        captured = self._facts.captured or frozenset()
        if any(table in _CAPTURED.get(kind, ()) for kind in captured):
            return True
        sources = [source for source in SOURCES[table] if self._export.has(source)]
        is_known = any(table in tables for tables in _CAPTURED.values())
        if self._facts.captured is None or (self._facts.is_lazy and not is_known):
            return bool(sources)
        return any(self._export.row_count(source) for source in sources)

    @cached_property
    def _unread(self) -> dict[str, int]:
        described = (*PLACE_TABLES, *(source for names in SOURCES.values() for source in names))
        unread = unread_tables(self._export, (*described, GENERIC_EVENTS))
        unread.update(self._generic.unread)
        with suppress(CorruptTraceError):
            for kind, count in self._events.unmapped.items():
                unread[f"{EVENTS} of type {kind}"] = count
            graphs = self._parts["graph_node"][-1]
            rest = self._export.row_count(GRAPH_EVENTS) - len(graphs)
            if rest:
                unread[GRAPH_EVENTS] = rest
        return unread

    @cached_property
    def _payload_hint(self) -> list[str]:
        with suppress(CorruptTraceError):
            hints = [_NO_PAYLOADS] if self._payloads.are_left_out else []
            return [*hints, _NO_STACKS] if self._python.are_stacks_left_out else hints
        return []

    def _damaged(self) -> dict[str, str]:
        """Return the tables of the trace with unreadable rows, and other such tables."""
        damaged: dict[str, str] = {}
        for source, why in self._export.damaged.items():
            tables = [table for table, sources in SOURCES.items() if source in sources]
            damaged.update(dict.fromkeys(tables or [source], why))
        return damaged


class MappedPart:
    """Rows of a table that `mapping` makes from one source table."""

    def __init__(self, reading: Reading, mapped: Mapped) -> None:
        self._reading = reading
        self._mapped = mapped

    def __len__(self) -> int:
        if self._mapped.chosen is not None and self._reading.export.row_count(self._mapped.source):
            return len(self._mapped.chosen)
        return len(self._table())

    @property
    def is_large(self) -> bool:
        """Whether the source table is read in blocks."""
        return self._reading.export.is_large(self._mapped.source)

    def foresee(self, columns: Sequence[str]) -> None:
        """Note columns that will be loaded."""
        self._reading.export.foresee(self._mapped.source, self._kinds(columns))

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns, without those that the source lacks."""
        fields = {
            name: self._mapped.fields[name] for name in columns if name in self._mapped.fields
        }
        kinds = self._kinds(columns)
        export = self._reading.export
        self.foresee(columns)  # in the pass that finds the rows, if there is one
        table = self._table()
        table.fetch(kinds)
        export.forget(self._mapped.source)
        return self._fields_of(table, fields)

    def blocks(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, ColumnData]]]:
        """Yield the number of some rows and what `load` returns for them."""
        fields = {
            name: self._mapped.fields[name] for name in columns if name in self._mapped.fields
        }
        kinds, export, source = self._kinds(columns), self._reading.export, self._mapped.source
        for part in export.parts(source, ROWS_PER_BLOCK):
            table = SourceTable(export, source, self._between(*part), part)
            table.fetch(kinds)
            yield len(table), self._fields_of(table, fields)

    def _fields_of(self, table: SourceTable, fields: Mapping[str, Field]) -> dict[str, ColumnData]:
        spec = TABLES[self._mapped.table]
        return {
            name: field.load(self._reading, table, spec.column(name))
            for name, field in fields.items()
        }

    def _between(self, first: int, last: int) -> I64 | None:
        """Return the rows of a part of the source table; None for all."""
        if self._mapped.chosen is not None:
            return self._mapped.chosen.between(first, last)
        rows = self._rows
        return None if rows is None else rows[slice(*np.searchsorted(rows, (first, last)))]

    def _kinds(self, columns: Sequence[str]) -> dict[str, Kind]:
        fields = (self._mapped.fields[name] for name in columns if name in self._mapped.fields)
        return {column: kind for field in fields for column, kind in field.kinds.items()}

    def _table(self) -> SourceTable:
        return SourceTable(self._reading.export, self._mapped.source, self._rows)

    @cached_property
    def _rows(self) -> I64 | None:
        if self._mapped.rows is None:
            return None
        if not self._reading.export.row_count(self._mapped.source):
            return np.zeros(0, np.int64)
        return self._mapped.rows(self._reading)
