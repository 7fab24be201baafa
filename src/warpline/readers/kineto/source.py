"""A PyTorch profiler trace as tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from warpline.errors import UnknownFormatError
from warpline.ops.arrays import I64
from warpline.readers.kineto.collectives import Collectives
from warpline.readers.kineto.counters import Counters, Metrics
from warpline.readers.kineto.dimensions import Dimensions
from warpline.readers.kineto.events import Events
from warpline.readers.kineto.fields import Reading
from warpline.readers.kineto.kinds import RECORDED
from warpline.readers.kineto.mapping import MAPPING
from warpline.readers.kineto.meta import describe_other, origin_of, read_meta
from warpline.readers.kineto.recordings import EventRecords
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool


class Part(Protocol):
    """Rows of a table with rows that are not single events."""

    def __len__(self) -> int: ...

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns. Those that are entirely null may be omitted."""
        ...


# Tables that the profiler records together: if one has rows, the others are just empty.
_RECORDED_TOGETHER = (
    frozenset(("kernel", "memcpy", "memset", "api_call")),
    frozenset(("op", "range")),
    frozenset(("host_wait", "stream_wait", "event_record")),
)


class KinetoSource:
    """A TableSource over one file, normally of one process.

    Opening scans the file. Arguments that only some tables need are read with those tables.

    Args:
        path: The file, plain or gzip.

    Raises:
        UnknownFormatError: It holds no events of the PyTorch profiler.
        CorruptTraceError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.strings = StringPool()
        events = Events(path, self.strings)
        if not np.isin(events.kinds, RECORDED).any():
            raise UnknownFormatError(
                describe_other(path, events.scan),
                hint="use a Chrome trace written by torch.profiler",
            )
        origin_ns = origin_of(events)
        self._dimensions = Dimensions(events)
        self._reading = Reading(events, self._dimensions, origin_ns)
        self._meta = read_meta(events, origin_ns)
        self._rows: dict[str, I64] = {}
        counters = Counters(self._reading)
        self._parts: dict[str, Part] = {
            "event_record": EventRecords(self._reading),
            "collective": Collectives(self._reading),
            "counter": counters,
            "metric": Metrics(self._reading, counters),
        }

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording."""
        return self._meta

    def tables(self) -> Sequence[str]:
        """Return the tables that were recorded."""
        return self._recorded

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        if table in self._dimensions.tables():
            return self._dimensions.row_count(table)
        if table in self._parts:
            return len(self._parts[table])
        return len(self._rows_of(table))

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a recorded table."""
        if table in self._dimensions.tables():
            return self._dimensions.load(table, columns)
        if table in self._parts:
            return self._parts[table].load(columns)
        spec, fields, rows = TABLES[table], MAPPING[table].fields, self._rows_of(table)
        loaded = {
            name: fields[name](self._reading, rows, spec.column(name))
            for name in columns
            if name in fields
        }
        for name in columns:
            column = spec.column(name)
            if name not in loaded and not column.nullable:
                loaded[name] = make_column(column, np.zeros(len(rows)))
        return loaded

    @cached_property
    def _recorded(self) -> list[str]:
        kinds = self._reading.events.kinds
        met = {int(kind) for kind in np.unique(kinds)}
        recorded = {table for table, mapped in MAPPING.items() if met & {*mapped.kinds}}
        if "python_frame" in recorded and len(self._rows_of("range")):
            recorded.add("range")
        recorded |= {table for table, part in self._parts.items() if len(part)}
        for together in _RECORDED_TOGETHER:
            recorded |= together if recorded & together else frozenset()
        recorded |= {*self._dimensions.tables()}
        return [table for table in TABLES if table in recorded]

    def _rows_of(self, table: str) -> I64:
        if table not in self._rows:
            mapped = MAPPING[table]
            choose = mapped.rows
            self._rows[table] = (
                self._reading.events.rows(*mapped.kinds)
                if choose is None
                else choose(self._reading)
            )
        return self._rows[table]
