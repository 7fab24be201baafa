"""A recording in memory: immutable, columnar, loaded on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from warpline.errors import MissingTableError
from warpline.lazy import lazy
from warpline.schema import TABLES, TableSpec
from warpline.trace.column import ColumnData, Rows
from warpline.trace.filters import DeviceFilter, Filter, ProcessFilter, StreamFilter, Window
from warpline.trace.meta import TraceMeta
from warpline.trace.source import HasForeign, TableSource
from warpline.trace.store import ColumnStore, slices
from warpline.trace.strings import StringPool

if TYPE_CHECKING:
    import polars as pl

    from warpline.trace import frame
else:  # brings Polars, which is slow to import
    frame = lazy("warpline.trace.frame")

I64 = npt.NDArray[np.int64]
_ALL = slice(None)


class Table:
    """One table of a trace. Columns are loaded on first use."""

    def __init__(self, trace: Trace, spec: TableSpec) -> None:
        self._trace = trace
        self.spec = spec

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.spec.name

    def __len__(self) -> int:
        return self._trace.row_count(self.name)

    def column(self, name: str) -> ColumnData:
        """Return a column in the total order of rows, with its validity mask."""
        return self._trace.columns(self.name, name)[name]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return the values of a column. Nulls are 0: `column` has the validity mask."""
        return self.column(name).values

    def to_polars(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return a Polars DataFrame with texts and labels instead of their numbers."""
        return frame.to_polars(self._trace, self.spec, columns)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.spec.columns)
        return f"<Table {self.name}: {len(self):,} rows; {names}>"


class Trace:
    """The content of one or several recordings, as a mapping from table names to DataFrames.

    ``trace["kernel"]`` is a Polars DataFrame. ``"kernel" in trace``, ``list(trace)`` and
    ``len(trace)`` are about the recorded tables.

    Times are int64 ns from the trace's origin, the producer's time zero, and may be negative. The
    rows of a table have a total order. A trace is immutable: methods such as `window` and `select`
    return another Trace that shares its memory.
    """

    def __init__(self, source: TableSource) -> None:
        self._store = ColumnStore(source)
        self._filters: tuple[Filter, ...] = ()
        self._rows: dict[str, Rows] = {}
        self._places: dict[str, I64] = {}
        # Cache of warpline.derived: its results live as long as this trace.
        self.memo: dict[Any, Any] = {}

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording. Problems found while reading are added to the warnings."""
        meta, warnings = self._store.source.meta, self._store.warnings
        return replace(meta, warnings=(*meta.warnings, *warnings)) if warnings else meta

    @property
    def strings(self) -> StringPool:
        """The texts that ``*_id`` columns with ``ref="string"`` refer to."""
        return self._store.source.strings

    @property
    def foreign(self) -> Mapping[str, memoryview]:
        """Unknown members of a recording file, kept when it is written again.

        Empty for a part of a recording, because the matching part of a member is unknown.
        """
        source = self._store.source
        return source.foreign if isinstance(source, HasForeign) and not self._filters else {}

    @property
    def foreign_rows(self) -> Mapping[str, int]:
        """Number of rows of the unknown tables of a recording file; see `foreign`."""
        source = self._store.source
        return source.foreign_rows if isinstance(source, HasForeign) and not self._filters else {}

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the recorded tables, including empty ones, in schema order."""
        return tuple(name for name in TABLES if name in self._store.recorded)

    def has(self, table: str) -> bool:
        """Return whether the table was recorded. It may be empty."""
        return table in self._store.recorded

    def table(self, name: str) -> Table:
        """Return a table. Raises MissingTableError if it was not recorded."""
        return Table(self, self._store.spec(name))

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Return a table as a Polars DataFrame. Raises MissingTableError if it was not recorded."""
        return self.table(name).to_polars()

    def __contains__(self, name: object) -> bool:
        """Return whether a table was recorded. It may be empty."""
        return name in self._store.recorded

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the recorded tables, in schema order."""
        return iter(self.tables)

    def __len__(self) -> int:
        """Return the number of recorded tables."""
        return len(self.tables)

    def __enter__(self) -> Self:
        """Return the trace, for ``with warpline.open(path) as trace``.

        There is nothing to close: a trace releases its files when it is no longer referenced.
        """
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the trace as it is; it can still be used."""

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.tables)

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        rows = self._selection(table)
        if isinstance(rows, slice):
            return len(range(*rows.indices(self._store.row_count(table))))
        return len(rows)

    def foresee(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Say which columns of large tables are requested next, so that each is read in one pass.

        Args:
            columns: Names of columns by table. Tables that were not recorded are skipped.
        """
        self._store.foresee(columns)

    def columns(self, table: str, *names: str, ordered: bool = True) -> dict[str, ColumnData]:
        """Return columns of a recorded table by name.

        Args:
            table: Name of the table.
            names: Names of columns. All have the same row order.
            ordered: Whether rows are in the table's total order. Any order is faster, and
                sufficient for sums.
        """
        if not self._filters:
            return self._store.columns(table, names, ordered=ordered)
        rows = self._selection(table)
        loaded = self._store.columns(table, names)
        spec = self._store.spec(table)
        return {
            name: self._renumber(spec.column(name).ref, data.take(rows))
            for name, data in loaded.items()
        }

    def blocks(
        self, table: str, *names: str, ordered: bool = False
    ) -> Iterator[dict[str, ColumnData]]:
        """Yield columns of a recorded table, some rows at a time.

        Large tables of some files are then never in memory as a whole.

        Args:
            table: Name of the table.
            names: Names of columns.
            ordered: Whether rows are in the table's total order: then the whole is loaded.
        """
        if ordered or self._filters:
            yield from slices(self.columns(table, *names))
        else:
            yield from self._store.blocks(table, names)

    def passing(self, table: str, *names: str) -> Iterator[tuple[str, ColumnData]]:
        """Yield columns of a recorded table one by one, without keeping them in memory.

        For columns that are used once. Rows are in the table's total order.
        """
        rows, spec = self._selection(table), self._store.spec(table)
        for name, data in self._store.passing(table, names):
            if self._filters:
                yield name, self._renumber(spec.column(name).ref, data.take(rows))
            else:
                yield name, data

    def window(self, start_ns: int | None, end_ns: int | None) -> Trace:
        """Return the rows that overlap ``[start_ns, end_ns)``, not clipped; None is unbounded.

        Tables and rows without times are kept.
        """
        return self.filtered(Window(start_ns, end_ns))

    def select(
        self,
        *,
        process: Sequence[int] | None = None,
        device: Sequence[int] | None = None,
        stream: Sequence[int] | None = None,
    ) -> Trace:
        """Return the rows of the given processes, devices or streams.

        Args:
            process: Rows of the process table. Applies to every table with a process or thread.
            device: Rows of the device table. Applies to tables of GPU operations and other GPU
                events.
            stream: Rows of the stream table. Applies to tables of operations in streams.
        """
        trace = self
        if process is not None:
            trace = trace.filtered(ProcessFilter(tuple(process)))
        if device is not None:
            trace = trace.filtered(DeviceFilter(tuple(device)))
        if stream is not None:
            trace = trace.filtered(StreamFilter(tuple(stream)))
        return trace

    def filtered(self, chosen: Filter) -> Trace:
        """Return a Trace of the rows that a filter keeps. It shares this trace's memory."""
        trace = object.__new__(Trace)
        trace._store = self._store
        trace._filters = (*self._filters, chosen)
        trace._rows, trace._places, trace.memo = {}, {}, {}
        return trace

    @property
    def is_whole(self) -> bool:
        """Whether this is a whole recording, not a part."""
        return not self._filters

    def unfiltered(self) -> Trace:
        """Return the whole recording, in a Trace that shares this trace's memory."""
        trace = object.__new__(Trace)
        trace._store = self._store
        trace._filters, trace._rows, trace._places, trace.memo = (), {}, {}, {}
        return trace

    def places_of_whole(self, table: str) -> I64:
        """Return the row here of each row of the table in the whole recording, -1 for others."""
        if self._keeps_all(table):
            return np.arange(self.row_count(table))
        return self._place(table)

    def _selection(self, table: str) -> Rows:
        """Return the rows of the whole table that this trace contains."""
        if not self._filters:
            self._store.spec(table)
            return _ALL
        if table not in self._rows:
            self._rows[table] = self._select_rows(self._store.spec(table))
        return self._rows[table]

    def _select_rows(self, spec: TableSpec) -> Rows:
        if not spec.order:
            return _ALL  # Row numbers of dimensions are ids, so all rows stay.
        whole = self.unfiltered()
        keep: npt.NDArray[np.bool_] | None = None
        for chosen in self._filters:
            mask = chosen.keep(whole, spec)
            if mask is not None:
                keep = mask if keep is None else keep & mask
        for column in spec.columns:
            if column.ref is None or column.ref == "string" or not TABLES[column.ref].order:
                continue
            mask = self._target_kept(spec, column.name, column.ref)
            if mask is not None:
                keep = mask if keep is None else keep & mask
        return _ALL if keep is None else _as_rows(keep)

    def _target_kept(self, spec: TableSpec, name: str, ref: str) -> npt.NDArray[np.bool_] | None:
        """Return the mask of rows whose target row is kept, or that have no target."""
        if not self.has(ref) or self._keeps_all(ref):
            return None
        data = self._store.columns(spec.name, [name])[name]
        places = self._place(ref)
        kept = places[data.values] >= 0 if len(places) else np.zeros(len(data), np.bool_)
        return kept if data.valid is None else kept | ~data.valid

    def _keeps_all(self, table: str) -> bool:
        rows = self._selection(table)
        return isinstance(rows, slice) and rows == _ALL

    def _place(self, table: str) -> I64:
        """Return the new row number of each row of the whole table, -1 for a dropped row."""
        if table not in self._places:
            places = np.full(self._store.row_count(table), -1, np.int64)
            rows = self._selection(table)
            places[rows] = np.arange(self.row_count(table))
            self._places[table] = places
        return self._places[table]

    def _renumber(self, ref: str | None, data: ColumnData) -> ColumnData:
        if ref is None or ref == "string" or not TABLES[ref].order or not self.has(ref):
            return data
        if self._keeps_all(ref) or not len(data):
            return data
        values = self._place(ref)[data.values].astype(data.values.dtype)
        if data.valid is not None:
            values[~data.valid] = 0
        return ColumnData(values, data.valid)

    def span(self) -> tuple[int, int]:
        """Return start and end of this trace, ns from the origin.

        The span is the window, if there is one; else the producer's span, extended to every GPU
        operation, API call and range. It is (0, 0) for a recording without events.
        """
        window = next((f for f in reversed(self._filters) if isinstance(f, Window)), None)
        low, high = (window.start_ns, window.end_ns) if window else (None, None)
        if low is None or high is None:
            first, last = self._extent
            # A window may lie before or after everything that was recorded.
            low = min(first, last if high is None else high) if low is None else low
            high = max(last, low) if high is None else high
        return low, high

    def recorded_ns(self) -> int:
        """Return the recorded time in ns: with step sampling, the time of the samples only."""
        low, high = self.span()
        windows = self.meta.windows_ns
        if windows is None:
            return high - low
        return sum(max(min(end, high) - max(start, low), 0) for start, end in windows)

    @cached_property
    def _extent(self) -> tuple[int, int]:
        lows, highs = [], []
        if self.meta.span_ns is not None:
            lows.append(self.meta.span_ns[0])
            highs.append(self.meta.span_ns[1])
        for table in ("kernel", "memcpy", "memset", "graph_launch", "api_call", "range"):
            if self.has(table) and self.row_count(table):
                times = self.columns(table, "start_ns", "end_ns", ordered=False)
                lows.append(int(times["start_ns"].values.min()))
                highs.append(int(times["end_ns"].values.max()))
        return (min(lows), max(highs)) if lows else (0, 0)

    def require(self, table: str) -> Table:
        """Return a table with rows. Raises MissingTableError if it is empty or was not recorded."""
        rows = self.table(table)
        if not len(rows):
            raise MissingTableError(f"table {table!r} is empty")
        return rows

    def __repr__(self) -> str:
        names = ", ".join(path.name for path in self.meta.paths)
        counts = [f"{name} {self.row_count(name):,}" for name in self.tables if TABLES[name].order]
        part = " (part)" if self._filters else ""
        return f"<Trace {names}{part}: {', '.join(counts)}>"


def _as_rows(keep: npt.NDArray[np.bool_]) -> Rows:
    """Return the kept rows; contiguous ones as a slice, so that columns are views."""
    rows = np.flatnonzero(keep)
    if len(rows) == len(keep):
        return _ALL
    if not len(rows):
        return slice(0, 0)
    if int(rows[-1]) - int(rows[0]) + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
