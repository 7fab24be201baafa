"""The tables of an export as columns of numbers and texts, for every schema version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.readers.nsys.database import (
    Database,
    Kind,
    Raw,
    RawCodes,
    RawColumn,
    RawText,
    SourceColumn,
    coded,
)
from warpline.trace.source import LARGE_TABLE_ROWS

Part = tuple[int, int]  # rows of a table, from the first to before the last

REEXPORT_HINT = "export the report again with: nsys export --type sqlite REPORT.nsys-rep"

# Columns of integers that nearly every reader of a large table needs, some here, some there. Read
# row by row, a further pass takes almost as long as the first: these are read in one, and kept.
_READ_TOGETHER: Mapping[str, tuple[str, ...]] = {
    "NVTX_EVENTS": (
        *("eventType", "start", "end", "globalTid", "endGlobalTid", "domainId", "textId"),
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
}

# What the rest of a table needs to be understood: what an event is, where and in which thread it
# ran. The native core reads these columns in the first pass over their table, whatever it is for.
_READ_FIRST: Mapping[str, Mapping[str, Kind]] = {
    "NVTX_EVENTS": dict.fromkeys(("eventType", "globalTid", "endGlobalTid"), Kind.INT64_CODES),
    "CUPTI_ACTIVITY_KIND_RUNTIME": {"globalTid": Kind.INT64_CODES},
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        **dict.fromkeys(("globalPid", "deviceId", "contextId", "streamId"), Kind.INT64_CODES),
        **dict.fromkeys(("start", "end"), Kind.INT64),
        "graphNodeId": Kind.INT64_CODES,
    },
}


class Ints(NamedTuple):
    """A column of integers.

    Attributes:
        values: Shape (n,), int64; 0 for missing values.
        valid: Shape (n,), True where there is a value; None if no value is missing.
    """

    values: I64
    valid: BoolArray | None

    def filled(self, fill: int) -> I64:
        """Return the values with `fill` for missing ones."""
        return self.values if self.valid is None else np.where(self.valid, self.values, fill)

    def is_valid(self) -> BoolArray:
        """Return the mask, all True if no value is missing."""
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid

    def take(self, rows: I64) -> Ints:
        """Return the chosen rows, ascending; all of them without a copy."""
        if len(rows) == len(self.values):
            return self
        return Ints(self.values[rows], None if self.valid is None else self.valid[rows])


class Export:
    """An export: its database, and the defects found in it so far.

    Attributes:
        database: The file.
        damaged: Source tables whose rows cannot be read -> why.
        mismatched: Source columns ``TABLE.column`` -> values of a wrong type.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.damaged: dict[str, str] = {}
        self.mismatched: dict[str, int] = {}
        self._mismatched_parts: dict[str, dict[Part, int]] = {}
        self._kept: dict[str, dict[str, Raw]] = {}
        self._foreseen: dict[str, dict[str, Kind]] = {}
        self._ahead: dict[str, dict[tuple[str, Kind], Raw]] = {}
        self._tables = {name.lower(): name for name in database.tables}
        self._columns = {
            name.lower(): {column.name.lower() for column in columns}
            for name, columns in database.tables.items()
        }

    @cached_property
    def event_types(self) -> RawCodes:
        """The types of the events in NVTX_EVENTS, which decide the meaning of other columns."""
        return SourceTable(self, "NVTX_EVENTS").codes("eventType")

    def has(self, table: str) -> bool:
        """Return whether the file holds a table, damaged or not."""
        return table.lower() in self._tables

    def has_column(self, table: str, column: str) -> bool:
        """Return whether the file holds a column."""
        return column.lower() in self._columns.get(table.lower(), ())

    def row_count(self, table: str) -> int:
        """Return the rows of a table, 0 if it is absent or known to be damaged."""
        if not self.has(table) or table in self.damaged:
            return 0
        try:
            return self.database.row_count(table)
        except CorruptTraceError as error:
            self.damaged[table] = error.message
            return 0

    def is_large(self, table: str) -> bool:
        """Return whether a table has so many rows that its columns are not read ahead."""
        return self.database.is_scanned and self.row_count(table) > LARGE_TABLE_ROWS

    def parts(self, table: str, rows: int) -> list[Part]:
        """Return parts of a table, each of about as many rows; the whole where it has none.

        Raises CorruptTraceError if the table is damaged.
        """
        count = self.row_count(table)
        borders = self.database.borders(table, rows) if count else None
        return list(pairwise(borders or [0, count]))

    def read(
        self, table: str, columns: Mapping[str, Kind], part: Part | None = None
    ) -> dict[str, Raw]:
        """Return columns of a table, or of one of its `parts`, without absent ones.

        Raises CorruptTraceError if the table's rows cannot be read.
        """
        present = {name: kind for name, kind in columns.items() if self.has_column(table, name)}
        if part is not None:
            return self._read_part(table, present, part)
        if self.database.is_scanned:
            return self._read_ahead(table, present)
        kept = self._read_together(table)
        known = {name for name, kind in present.items() if name in kept and kind is Kind.INT64}
        missing = {name: kind for name, kind in present.items() if name not in known}
        return {**{name: kept[name] for name in known}, **self._read(table, missing)}

    def foresee(self, table: str, columns: Mapping[str, Kind]) -> None:
        """Note columns that will be read: the next pass over the table reads them, too."""
        if self.database.is_scanned:
            self._foreseen[table] = {**self._foreseen.get(table, {}), **columns}

    def forget(self, table: str) -> None:
        """Drop what was foreseen and not read after all."""
        self._foreseen.pop(table, None)

    def _read_part(self, table: str, present: Mapping[str, Kind], part: Part) -> dict[str, Raw]:
        """Return columns of a part; those that were read ahead are there already."""
        ahead = self._ahead.get(table, {})
        known = {
            name: ahead[name, kind].between(*part)
            for name, kind in present.items()
            if (name, kind) in ahead
        }
        missing = {name: kind for name, kind in present.items() if name not in known}
        return {**known, **self._read(table, missing, part)}

    def _read_ahead(self, table: str, present: Mapping[str, Kind]) -> dict[str, Raw]:
        """Return columns, and keep others that were read in the same pass until they are asked."""
        is_first = table not in self._ahead
        ahead = self._ahead.setdefault(table, {})
        known = {name: ahead[name, kind] for name, kind in present.items() if (name, kind) in ahead}
        for name, raw in known.items():
            if not _is_constant(raw):
                del ahead[name, present[name]]
        missing = {name: kind for name, kind in present.items() if name not in known}
        if not missing:
            return known
        first = _READ_FIRST.get(table, {}) if is_first else {}
        if first and self.is_large(table):  # whole columns would be kept while parts are read
            first = {name: kind for name, kind in first.items() if kind is not kind.uncoded}
        others = {
            name: kind
            for name, kind in {**first, **self._foreseen.pop(table, {})}.items()
            if self.has_column(table, name) and name not in present and (name, kind) not in ahead
        }
        raws = self._read(table, {**missing, **others})
        ahead.update(
            {(name, missing[name]): raws[name] for name in missing if _is_constant(raws[name])}
        )
        ahead.update({(name, kind): raws.pop(name) for name, kind in others.items()})
        return {**known, **raws}

    def _read_together(self, table: str) -> dict[str, Raw]:
        """Return the columns of `_READ_TOGETHER`."""
        if table not in self._kept:
            names = [name for name in _READ_TOGETHER.get(table, ()) if self.has_column(table, name)]
            self._kept[table] = self._read(table, dict.fromkeys(names, Kind.INT64))
        return self._kept[table]

    def _read(
        self, table: str, present: Mapping[str, Kind], part: Part | None = None
    ) -> dict[str, Raw]:
        if not present:
            return {}
        try:
            raws = self.database.read(table, present, part)
        except CorruptTraceError as error:
            self.damaged[table] = error.message
            raise
        for name, raw in raws.items():
            if raw.mismatched:
                self._note_mismatched(f"{table}.{name}", raw.mismatched, part)
        return raws

    def _note_mismatched(self, column: str, count: int, part: Part | None) -> None:
        """Note values of a wrong type: each once, however often they are read."""
        if part is not None:
            counts = self._mismatched_parts.setdefault(column, {})
            counts[part] = count
            count = max(sum(counts.values()), self.mismatched.get(column, 0))
        self.mismatched[column] = count

    def probe(self, tables: Iterable[str]) -> None:
        """Read whole tables to find damaged ones, for a file known to be truncated."""
        for table in tables:
            declared = self.database.tables.get(table, ())
            columns = {column.name: _kind_of(column) for column in declared}
            with suppress(CorruptTraceError):  # `read` notes it
                self.read(table, columns)
        self.mismatched.clear()  # the caller did not request these values
        self._kept.clear()
        self._ahead.clear()


def _kind_of(column: SourceColumn) -> Kind:
    if column.is_real:
        return Kind.FLOAT64
    return Kind.INT64 if "INT" in column.type.upper() else Kind.BLOB


def _is_constant(raw: Raw) -> bool:
    """Return whether all rows have one value, so that its codes can be kept without memory."""
    return isinstance(raw, RawCodes) and raw.codes.strides == (0,)


class SourceTable:
    """One table of an export, or some of its rows. An absent table is empty.

    Args:
        export: The export.
        name: The table.
        rows: Ascending positions of the selected rows; None for all.
        part: One of the table's parts, in which these rows are; None for the whole table.
    """

    def __init__(
        self, export: Export, name: str, rows: I64 | None = None, part: Part | None = None
    ) -> None:
        self.export = export
        self.name = name
        self.rows = np.arange(*part) if rows is None and part else rows
        self._part = part
        self._raws: dict[tuple[str, Kind], Raw] = {}

    @classmethod
    def facts(
        cls, export: Export, name: str, ints: Iterable[str] = (), texts: Iterable[str] = ()
    ) -> SourceTable:
        """Return a small table with the given columns, empty if it is damaged.

        For tables that only describe others: the rest is readable without them.
        """
        table = cls(export, name)
        with suppress(CorruptTraceError):
            table.fetch({**dict.fromkeys(ints, Kind.INT64), **dict.fromkeys(texts, Kind.TEXT)})
        return table

    def __len__(self) -> int:
        return self.export.row_count(self.name) if self.rows is None else len(self.rows)

    @cached_property
    def _places(self) -> I64 | None:
        """Positions of the selected rows among those that are read; None for all of them."""
        if self.rows is None or self._part is None:
            return self.rows
        first, last = self._part
        return None if len(self.rows) == last - first else self.rows - first

    @property
    def _is_empty(self) -> bool:
        return self.rows is not None and not len(self.rows)

    def has(self, column: str) -> bool:
        """Return whether the table holds a column."""
        return self.export.has_column(self.name, column)

    def fetch(self, columns: Mapping[str, Kind]) -> None:
        """Read columns in one pass for later use, unless the table is known to be damaged.

        If no rows are selected, nothing is read.
        """
        if self.name in self.export.damaged or self._is_empty:
            return
        raws = self.export.read(self.name, columns, self._part)
        self._raws.update({(name, columns[name]): raw for name, raw in raws.items()})

    def require(self, column: str, valid: BoolArray | None) -> None:
        """Raise CorruptTraceError if a column that always has a value lacks one: that is damage.

        Args:
            column: The column.
            valid: True where there is a value; None if there is one in every row.
        """
        missing = 0 if valid is None or valid.all() else int((~valid).sum())
        if missing:
            what = f"has no number in {missing} rows" if self.has(column) else "is missing"
            where = f"{self.export.database.path}: table {self.name}: column {column}"
            raise CorruptTraceError(f"{where} {what}", hint=REEXPORT_HINT)

    def ints(self, column: str) -> Ints:
        """Return a column of integers, with no values if it is absent."""
        raw = self._raw(column, Kind.INT64)
        if raw is None:
            return Ints(np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_))
        assert isinstance(raw, RawColumn)
        ints = Ints(raw.values.astype(np.int64, copy=False), raw.valid)
        return ints if self._places is None else ints.take(self._places)

    def codes(self, column: str) -> RawCodes:
        """Return a column of integers as numbers of its distinct values, one per row."""
        raw = self._raw(column, Kind.INT64_CODES)
        if raw is None:
            return coded(RawColumn(np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_), 0))
        return self._taken(coded(raw))

    def text_codes(self, column: str) -> RawCodes:
        """Return a column of texts as numbers of its distinct values, -1 where there is none."""
        raw = self._raw(column, Kind.TEXT_CODES)
        if raw is None:
            none = np.full(len(self), -1, np.int32)
            return RawCodes(none, (), np.zeros(len(self), np.bool_), 0)
        return self._taken(coded(raw))

    def _taken(self, raw: RawCodes) -> RawCodes:
        """Return the selected rows, with only the keys that they have, in the same order."""
        rows = self._places
        if rows is None or len(rows) == len(raw.codes):
            return raw
        codes, valid = raw.codes[rows], None if raw.valid is None else raw.valid[rows]
        used = np.flatnonzero(np.bincount(codes + 1, minlength=len(raw.keys) + 1)[1:])
        if isinstance(raw.keys, tuple):  # in order of first appearance among these rows
            first = np.full(len(raw.keys), len(codes))
            first[codes[::-1]] = np.arange(len(codes))[::-1]
            used = used[np.argsort(first[used], kind="stable")]
        number = np.full(len(raw.keys) + 1, -1, np.int32)  # the last is that of -1
        number[used] = np.arange(len(used), dtype=np.int32)
        keys = tuple(raw.keys[place] for place in used.tolist())
        kept = keys if isinstance(raw.keys, tuple) else raw.keys[used]
        return RawCodes(number[codes], kept, valid, raw.mismatched)

    def floats(self, column: str) -> tuple[F64, BoolArray]:
        """Return a column of real numbers and its mask."""
        raw = self._raw(column, Kind.FLOAT64)
        if raw is None:
            return np.zeros(len(self), np.float64), np.zeros(len(self), np.bool_)
        assert isinstance(raw, RawColumn)
        values = raw.values.astype(np.float64, copy=False)
        valid = np.ones(len(values), np.bool_) if raw.valid is None else raw.valid
        rows = self._places
        return (values, valid) if rows is None else (values[rows], valid[rows])

    def texts(self, column: str, kind: Kind = Kind.TEXT) -> RawText:
        """Return a column of texts or, with ``Kind.BLOB``, of bytes."""
        raw = self._raw(column, kind)
        if raw is None:
            no_bytes, none_valid = np.zeros(0, np.uint8), np.zeros(len(self), np.bool_)
            return RawText(no_bytes, np.zeros(len(self) + 1, np.int64), none_valid, 0)
        assert isinstance(raw, RawText)
        return raw if self._places is None else _take_texts(raw, self._places)

    def strings(self, column: str) -> list[str | None]:
        """Return a column of texts as Python strings, None where there is none."""
        raw = self.texts(column)
        content, ends = raw.blob.tobytes(), raw.offsets.tolist()
        valid = [True] * (len(ends) - 1) if raw.valid is None else raw.valid.tolist()
        return [
            content[ends[row] : ends[row + 1]].decode("utf-8", "replace") if valid[row] else None
            for row in range(len(valid))
        ]

    def numbers(self, column: str) -> list[int | None]:
        """Return a column of integers as Python ints, None where there is none."""
        ints = self.ints(column)
        values: list[int | None] = ints.values.tolist()
        if ints.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, ints.valid.tolist(), strict=True)]

    def _raw(self, column: str, kind: Kind) -> Raw | None:
        if not self.has(column) or self.name in self.export.damaged or self._is_empty:
            return None
        if (column, kind) not in self._raws:
            self.fetch({column: kind})
        return self._raws[column, kind]


def _take_texts(raw: RawText, rows: I64) -> RawText:
    """Return the chosen rows, their bytes still one after another."""
    valid = None if raw.valid is None else raw.valid[rows]
    lengths = np.diff(raw.offsets)
    if len(rows) == len(lengths):
        return raw
    kept = np.zeros(len(lengths), np.bool_)
    kept[rows] = True
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths[rows], out=offsets[1:])
    return RawText(raw.blob[np.repeat(kept, lengths)], offsets, valid, raw.mismatched)
