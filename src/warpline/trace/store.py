"""The columns of a source: loaded once, validated, and sorted into the total order of rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from warpline.errors import MissingTableError, SchemaError
from warpline.schema import TABLES, Column, TableSpec
from warpline.trace.column import ColumnData, null_column
from warpline.trace.source import ROWS_PER_BLOCK, Foresees, ReadsBlocks, TableSource
from warpline.units import plural

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# Columns that are passed on and not kept are read about this many bytes at a time, because each
# request of a source takes a pass over its file.
_BATCH_BYTES = 2**26

# 73 years from the origin: beyond, differences and sums of times could exceed 64 bits.
_FAR_NS = 1 << 61

_TIES_PER_BLOCK = 2**16
_NULLS_FIRST = -1


class ColumnStore:
    """The loaded columns of a source, shared by all Traces of it."""

    def __init__(self, source: TableSource) -> None:
        self.source = source
        self.recorded = frozenset(source.tables())
        self._raw: dict[tuple[str, str], ColumnData] = {}  # in file order
        self._sorted: dict[tuple[str, str], ColumnData] = {}
        self._unordered: set[str] = set()  # tables whose first reader took any order
        self._ordered: set[str] = set()  # tables whose first reader took the total order
        self._order: dict[str, I32 | I64 | None] = {}
        self._rank: dict[str, I64 | None] = {}
        self._impossible: dict[str, int] = {}
        self._lock = threading.RLock()  # a server reads while the diagnosis is computed

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of the rows loaded so far, one sentence per table."""
        return tuple(
            f"{table}: {plural(count, 'row')} with impossible times, shown with zero duration"
            for table, count in self._impossible.items()
        )

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        self.spec(table)
        return self.source.row_count(table)

    def spec(self, table: str) -> TableSpec:
        """Return the declaration of a recorded table. Raises MissingTableError for any other."""
        spec = TABLES.get(table)
        if spec is None:
            raise MissingTableError(f"unknown table {table!r}", hint=_known_tables())
        if table not in self.recorded:
            raise MissingTableError(
                f"the recording has no {table!r} table",
                hint="recorded tables: " + ", ".join(sorted(self.recorded)),
            )
        return spec

    def foresee(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Let the source know which columns of recorded tables are requested next."""
        if isinstance(self.source, Foresees):
            with self._lock:
                missing = {
                    table: [name for name in of if not self._has(table, name)]
                    for table, of in columns.items()
                    if table in self.recorded
                }
                self.source.foresee({table: of for table, of in missing.items() if of})

    def columns(
        self, table: str, names: Sequence[str], *, ordered: bool = True
    ) -> dict[str, ColumnData]:
        """Return columns in the table's total order, or in any order if not `ordered`.

        File order avoids the sort, for computations that do not depend on order. All columns that
        are returned in any order are in the same one: file order if the first request for the
        table takes it, otherwise the total order, and then each column is kept only once.
        """
        spec = self.spec(table)
        with self._lock:
            self._load(spec, names)
            if not ordered and table not in self._ordered:
                self._unordered.add(table)
            if not ordered and table in self._unordered:
                return {name: self._raw[table, name] for name in names}
            if names and table not in self._unordered:
                self._ordered.add(table)
            return {name: self._in_order(table, name) for name in names}

    def blocks(self, table: str, names: Sequence[str]) -> Iterator[dict[str, ColumnData]]:
        """Yield columns of some rows at a time, in the order of unordered `columns`.

        Tables that the source reads in blocks are not kept, unless they are loaded already.
        """
        spec = self.spec(table)
        source, blocks = self.source, None
        if isinstance(source, ReadsBlocks) and not all(self._has(table, name) for name in names):
            times = [name for name in (spec.start, spec.end) if name is not None]
            wanted = list(dict.fromkeys((*names, *times)))
            with self._lock:
                blocks = source.blocks(table, wanted)
        if blocks is None:
            yield from slices(self.columns(table, names, ordered=False))
            return
        impossible = 0
        for loaded in blocks:
            count = len(next(iter(loaded.values())))
            for name, data in loaded.items():
                _check(spec, spec.column(name), data, count)
            impossible += _repair_times(loaded, times)
            with self._lock:
                block = {name: self._rerank(spec.column(name), loaded[name]) for name in names}
            yield block
        if impossible:
            self._impossible[table] = impossible

    def passing(self, table: str, names: Sequence[str]) -> Iterator[tuple[str, ColumnData]]:
        """Yield columns in the table's total order, and keep none that was not kept before.

        They are read a few at a time: memory is needed for some columns, not for all.
        """
        spec = self.spec(table)
        row_bytes = max(self.source.row_count(table), 1) * 8
        size = max(_BATCH_BYTES // row_bytes, 1)
        for first in range(0, len(names), size):
            batch = names[first : first + size]
            with self._lock:
                kept = {
                    name
                    for name in (column.name for column in spec.columns)
                    if self._has(table, name)
                }
                columns = self.columns(table, batch)
                for name in {column.name for column in spec.columns} - kept:
                    self._raw.pop((table, name), None)
                    self._sorted.pop((table, name), None)
            for name in batch:
                yield name, columns.pop(name)

    def _in_order(self, table: str, name: str) -> ColumnData:
        """Return a loaded column in the table's total order."""
        key = table, name
        if key not in self._sorted:
            order = self.order(table)
            self._sorted[key] = self._raw[key] if order is None else self._raw[key].take(order)
            if table not in self._unordered:
                del self._raw[key]
        return self._sorted[key]

    def order(self, table: str) -> I32 | I64 | None:
        """Return the file rows in total order, shape (n,); None if the file is in that order."""
        if table not in self._order:
            spec = self.spec(table)
            self._order[table] = self._compute_order(spec) if spec.order else None
        return self._order[table]

    def rank(self, table: str) -> I64 | None:
        """Return the position of each file row in the total order; None if it is unchanged."""
        if table not in self._rank:
            order = self.order(table)
            self._rank[table] = None if order is None else _inverse(order)
        return self._rank[table]

    def _has(self, table: str, name: str) -> bool:
        return (table, name) in self._raw or (table, name) in self._sorted

    def _load(self, spec: TableSpec, names: Sequence[str]) -> None:
        times = [name for name in (spec.start, spec.end) if name is not None]
        if not set(times).isdisjoint(names):
            names = list(dict.fromkeys((*names, *times)))  # Both are needed for the check.
        wanted = [name for name in names if not self._has(spec.name, name)]
        if not wanted:
            return
        declared = {name: spec.column(name) for name in wanted}
        loaded = self.source.load(spec.name, wanted)
        row_count = self.source.row_count(spec.name)
        for name, column in declared.items():
            data = loaded.get(name) or _absent(spec, column, row_count)
            _check(spec, column, data, row_count)
            self._raw[spec.name, name] = self._rerank(column, data)
        if not set(times).isdisjoint(wanted):
            loaded = {name: self._raw[spec.name, name] for name in times}
            impossible = _repair_times(loaded, times)
            if impossible:
                self._impossible[spec.name] = impossible
                self._raw.update({(spec.name, name): data for name, data in loaded.items()})

    def _rerank(self, column: Column, data: ColumnData) -> ColumnData:
        """Map a reference to the position of its row in the total order of its table."""
        if column.ref is None or column.ref == "string" or not TABLES[column.ref].order:
            return data
        if column.ref not in self.recorded:
            return _no_targets(column, data)
        rank = self.rank(column.ref)
        if rank is None:
            return data
        if data.valid is None:
            return ColumnData(rank[data.values].astype(data.values.dtype))
        values = np.zeros_like(data.values)
        values[data.valid] = rank[data.values[data.valid]]
        return ColumnData(values, data.valid)

    def _compute_order(self, spec: TableSpec) -> I32 | I64 | None:
        first, *rest = spec.order
        loaded = {name for name in rest if self._has(spec.name, name)}
        keys = self._order_key(spec, first)
        if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
            return None
        if bool((keys[1:] >= keys[:-1]).all()):  # as in Warpline's own recordings: only ties remain
            order, in_order = np.arange(len(keys)), keys
        else:
            order = np.argsort(keys, kind="stable")
            in_order = keys[order]
        tied = np.zeros(len(keys), np.bool_)
        tied[1:] = in_order[1:] == in_order[:-1]
        tied[:-1] |= tied[1:]
        if tied.any():
            self._load(spec, rest)
            later = [self._raw[spec.name, name] for name in reversed(rest)]
            for places in _runs(np.flatnonzero(tied), in_order):
                rows = order[places]
                # lexsort sorts by its last key first. Row numbers break the remaining ties.
                by = [data.take(rows).filled(_NULLS_FIRST) for data in later]
                order[places] = rows[np.lexsort((rows, *by, keys[rows]))]
            del later
            for name in set(rest) - loaded:
                del self._raw[spec.name, name]  # nobody asked for it
        if bool((order[1:] > order[:-1]).all()):
            return None
        fits = len(order) <= np.iinfo(np.int32).max
        kept = order.astype(np.int32) if fits else order
        kept.flags.writeable = False
        return kept

    def _order_key(self, spec: TableSpec, name: str) -> npt.NDArray[np.int64]:
        self._load(spec, [name])
        return self._raw[spec.name, name].filled(_NULLS_FIRST).astype(np.int64, copy=False)


def slices(columns: dict[str, ColumnData]) -> Iterator[dict[str, ColumnData]]:
    """Yield some rows of columns at a time, as views."""
    count = len(next(iter(columns.values())))
    for first in range(0, count, ROWS_PER_BLOCK):
        rows = slice(first, first + ROWS_PER_BLOCK)
        yield {name: data.take(rows) for name, data in columns.items()}


def _repair_times(columns: dict[str, ColumnData], names: Sequence[str]) -> int:
    """Set the duration of rows with impossible times to zero, and return how many there are.

    Only a damaged file has rows that end before they start, or that are too far from the
    origin. A warning reports their number. Results from the other rows stay correct. Rows without a
    start or an end are left as they are.
    """
    if not names or not len(columns[names[0]]):
        return 0
    starts, ends = columns[names[0]], columns[names[-1]]
    first, last = starts.values, ends.values
    in_reach = first.min() >= -_FAR_NS and max(first.max(), last.max()) <= _FAR_NS
    if in_reach and bool((last >= first).all()):
        return 0
    start = np.clip(first, -_FAR_NS, _FAR_NS)
    wrong = (start != first) | (last < first) | (last > _FAR_NS)
    wrong &= starts.is_valid() & ends.is_valid()
    columns[names[-1]] = ColumnData(np.where(wrong, start, last), ends.valid)
    columns[names[0]] = ColumnData(np.where(wrong, start, first), starts.valid)
    return int(np.count_nonzero(wrong))


def _runs(places: I64, keys: I64) -> Iterator[I64]:
    """Yield places in ascending keys, a block at a time; those with equal keys are in one block."""
    begin = 0
    while begin < len(places):
        last = keys[places[min(begin + _TIES_PER_BLOCK, len(places)) - 1]]
        end = int(np.searchsorted(places, np.searchsorted(keys, last, side="right")))
        yield places[begin:end]
        begin = end


def _no_targets(column: Column, data: ColumnData) -> ColumnData:
    if bool(data.is_valid().any()):
        raise SchemaError(f"{column.name} refers to table {column.ref!r}, which was not recorded")
    return data


def _inverse(order: I32 | I64) -> I64:
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    inverse.flags.writeable = False
    return inverse


def _absent(spec: TableSpec, column: Column, row_count: int) -> ColumnData:
    if row_count and not column.nullable:
        raise SchemaError(f"the reader returned no {spec.name}.{column.name}")
    return null_column(column, row_count)


def _check(spec: TableSpec, column: Column, data: ColumnData, row_count: int) -> None:
    where = f"{spec.name}.{column.name}"
    if data.values.shape != (row_count,):
        raise SchemaError(f"{where} has shape {data.values.shape}, not ({row_count},)")
    if data.values.dtype != np.dtype(column.dtype.value):
        raise SchemaError(f"{where} has dtype {data.values.dtype}, not {column.dtype.value}")
    if data.valid is not None and not column.nullable:
        raise SchemaError(f"{where} has nulls but is declared not nullable")


def _known_tables() -> str:
    return "tables: " + ", ".join(TABLES)
