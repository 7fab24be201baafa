"""The tables of a recording file: their columns are mapped, not read."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from warpline import progress
from warpline.container import ARRAY_ENDING, ArrayPlace, Container
from warpline.errors import CorruptTraceError, InputError, SchemaError, UnsupportedVersionError
from warpline.ops.stacks import check
from warpline.readers.recording.meta import HINT, read_meta
from warpline.schema import TABLES, Column
from warpline.schema.former import CALL_FRAME, CHAIN_ID, FORMER
from warpline.schema.recording import (
    BLOB,
    FORMAT,
    MASK_ENDING,
    NPY_TYPES,
    OFFSETS,
    RAW_FORMAT,
    VERSION,
)
from warpline.trace.backtraces import Backtraces, DerivedTable, FrameRows
from warpline.trace.collectives import RangeCollectives
from warpline.trace.column import Array, ColumnData, make_column, null_column
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
_NATIVE = 1  # of schema.labels.CODE_KINDS


class RecordingSource:
    """A TableSource over a recording file.

    Opening checks that every column has the type and length of its table. Loading one verifies
    its checksum and that its references point to existing rows. Loading a damaged column is an
    error, but the others stay readable. Columns are views of the mapped file, except those with
    values that this version maps to "Unknown". Several threads may load columns.

    Args:
        path: The file.

    Raises:
        UnsupportedVersionError: It was written with another major schema version.
        CorruptTraceError: It is truncated or inconsistent.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._container = Container.open(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
        self._path = path
        self.strings = StringPool()
        self._strings_lock = threading.Lock()
        self._check_version()
        self._rows = self._read_row_counts()
        self._check_columns()
        facts = self._container.meta.get("recording")
        self._meta = read_meta(facts, path, self._container.meta["version"])
        self._derived: dict[str, RangeCollectives | DerivedTable] = {}
        # Finishing writes only recorded facts. Collectives are derived here.
        is_raw = isinstance(facts, dict) and facts.get("source_format") == RAW_FORMAT
        if is_raw and "range" in self._rows and "collective" not in self._rows:
            self._derived["collective"] = RangeCollectives(self)
        self._backtraces: Backtraces | None = None
        if CALL_FRAME.name in self._rows and "stack" not in self._rows:
            self._backtraces = Backtraces(self._frame_rows)
            self._derived |= {"stack": self._backtraces.stack, "frame": self._backtraces.frame}

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording, as written."""
        return self._meta

    @cached_property
    def foreign(self) -> Mapping[str, memoryview]:
        """Members unknown to this version, by name. A newer version may have added them."""
        known = {f"{BLOB}{ARRAY_ENDING}", f"{OFFSETS}{ARRAY_ENDING}"}
        for table in self._rows:
            for column in _declared(table):
                name = f"{table}/{column.name}"
                known |= {f"{name}{ARRAY_ENDING}", f"{name}{MASK_ENDING}{ARRAY_ENDING}"}
        names = [name for name in self._container.members if name not in known]
        return {name: self._container.member_bytes(name) for name in names}

    @property
    def foreign_rows(self) -> Mapping[str, int]:
        """Number of rows of tables unknown to this version, by name."""
        rows: Mapping[str, int] = self._container.meta["rows"]
        return {name: count for name, count in rows.items() if name not in self._rows}

    def tables(self) -> Sequence[str]:
        """Return the tables that were recorded, empty ones included."""
        return [name for name in TABLES if name in self._rows or name in self._derived]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        return len(self._derived[table]) if table in self._derived else self._rows[table]

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns. Raises CorruptTraceError for dangling references and false trees."""
        if table in self._derived:
            return self._derived[table].load(columns)
        if table == "stack" and {"parent_id", "depth"} & {*columns}:
            self._check_stacks()
        loaded = {}
        for name in columns:
            column = TABLES[table].column(name)
            place = f"{table}/{name}"
            if self._has(place):
                loaded[name] = self._column(place, column)
            elif column.ref == "stack" and self._has(f"{table}/{CHAIN_ID.name}"):
                loaded[name] = self._stacks_of_chains(table)
        return loaded

    def _stacks_of_chains(self, table: str) -> ColumnData:
        """Return the column stack_id of a recording that has a row per frame."""
        chains = self._column(f"{table}/{CHAIN_ID.name}", CHAIN_ID)
        if self._backtraces is None:
            return null_column(TABLES[table].column("stack_id"), len(chains))
        return self._backtraces.stack_of(0, chains)

    def _frame_rows(self) -> list[FrameRows]:
        columns = {
            column.name: self._column(f"{CALL_FRAME.name}/{column.name}", column)
            for column in CALL_FRAME.columns
            if self._has(f"{CALL_FRAME.name}/{column.name}")
        }
        chain, depth = columns.pop("chain_id").values, columns.pop("depth").values
        columns["kind"] = make_column(TABLES["frame"].column("kind"), np.full(len(chain), _NATIVE))
        return [FrameRows(chain, depth, columns)]

    def _check_stacks(self) -> None:
        """Raise CorruptTraceError unless stacks are a tree: without cycles, and of stated depth."""
        parent_id, depth = (TABLES["stack"].column(name) for name in ("parent_id", "depth"))
        parent = null_column(parent_id, self._rows["stack"])
        if self._has("stack/parent_id"):
            parent = self._column("stack/parent_id", parent_id)
        try:
            check(parent.values, parent.is_valid(), self._column("stack/depth", depth).values)
        except SchemaError as error:
            raise self._corrupt(f"stack: {error.message}") from None

    def _column(self, place: str, column: Column) -> ColumnData:
        values = self._array(place)
        valid = self._flags(place + MASK_ENDING) if self._has(place + MASK_ENDING) else None
        if column.dtype.value == "bool":
            values = self._flags(place)
        data = make_column(column, values, valid)
        if column.ref is not None:
            self._check_reference(place, column.ref, data)
        if column.labels is not None:
            return self._known_labels(place, column, data)
        return data

    def _check_reference(self, place: str, ref: str, data: ColumnData) -> None:
        if ref == "string":
            with self._strings_lock:  # no thread may see a part of the texts
                self._read_texts()
        rows = len(self.strings) if ref == "string" else self._rows.get(ref, 0)
        values = data.values if data.valid is None else data.values[data.valid]
        if len(values) and (int(values.min()) < 0 or int(values.max()) >= rows):
            raise self._corrupt(f"{place} refers to a {ref} row that does not exist")

    def _known_labels(self, place: str, column: Column, data: ColumnData) -> ColumnData:
        """Return the column with numbers without a label in this version as "Unknown"."""
        assert column.labels is not None
        if _is_between(data.values, column.labels):
            return data
        is_known = np.isin(data.values, [*column.labels])
        if data.valid is not None:
            is_known |= ~data.valid
        if bool(is_known.all()):
            return data
        unknown = [number for number, label in column.labels.items() if label == "Unknown"]
        if not unknown:
            raise self._corrupt(f"{place} holds an undefined number")
        return make_column(column, np.where(is_known, data.values, unknown[0]), data.valid)

    def _read_texts(self) -> None:
        if len(self.strings) or not self._has(OFFSETS):
            return
        offsets, blob = self._array(OFFSETS, "<i8"), self._array(BLOB, "|u1").tobytes()
        is_whole = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(blob)
        if not is_whole or bool((np.diff(offsets) < 0).any()):
            raise self._corrupt(f"{OFFSETS} does not fit {BLOB}")
        ends = offsets.tolist()
        with progress.task(f"Reading {self._path.name}: names"):
            texts = [blob[a:b] for a, b in pairwise(ends)]
            self.strings.intern_all(texts)
        if len(self.strings) != len(texts):
            raise self._corrupt(f"{BLOB} holds a duplicate text")

    def _array(self, place: str, dtype: str | None = None) -> Array:
        """Return a view of an intact array in the file; `dtype` is its required type."""
        array = self._array_place(place, dtype)
        return np.frombuffer(self._container.elements(place + ARRAY_ENDING, array), array.dtype)

    def _array_place(self, place: str, dtype: str | None) -> ArrayPlace:
        """Return where an array lies. Damage is reported first, as it may hide the array."""
        member = self._container.members.get(place + ARRAY_ENDING)
        array = member.array if member else None
        if array is None or (dtype is not None and array.dtype != dtype):
            if member is not None:
                self._container.member_bytes(place + ARRAY_ENDING)
            raise self._corrupt(f"{place} is not an array of {dtype or 'numbers'}")
        return array

    def _flags(self, place: str) -> Array:
        values = self._array(place, "|b1")
        if len(values) and int(values.view(np.uint8).max()) > 1:
            raise self._corrupt(f"{place} holds values other than true and false")
        return values

    def _has(self, place: str) -> bool:
        return place + ARRAY_ENDING in self._container.members

    def _check_version(self) -> None:
        meta = self._container.meta
        found = _VERSION.fullmatch(str(meta.get("version")))
        if meta.get("format") != FORMAT or found is None:
            raise self._corrupt("meta.json lacks format and version")
        if int(found[1]) != VERSION[0]:
            raise UnsupportedVersionError(
                f"{self._path}: unsupported format version {found[0]} (supported: {VERSION[0]}.x)",
                hint="update Warpline, or export the original recording again",
            )

    def _read_row_counts(self) -> dict[str, int]:
        rows = self._container.meta.get("rows")
        if not isinstance(rows, dict) or not all(type(count) is int for count in rows.values()):
            raise self._corrupt("meta.json lacks row counts")
        return {name: rows[name] for name in (*TABLES, CALL_FRAME.name) if name in rows}

    def _check_columns(self) -> None:
        for table, count in self._rows.items():
            for column in _declared(table):
                place = f"{table}/{column.name}"
                if self._has(place):
                    self._check_array(place, NPY_TYPES[column.dtype], count)
                    if self._has(place + MASK_ENDING):
                        self._check_mask(place, column, count)
                elif not column.nullable:
                    raise self._corrupt(f"{place} is missing")

    def _check_mask(self, place: str, column: Column, count: int) -> None:
        if not column.nullable:
            raise self._corrupt(f"{place} must not be null")
        self._check_array(place + MASK_ENDING, "|b1", count)

    def _check_array(self, place: str, dtype: str, count: int) -> None:
        """Raise CorruptTraceError unless a column fits its table or is damaged."""
        member = self._container.members[place + ARRAY_ENDING]
        array = member.array
        if array is not None and (array.dtype, array.count) == (dtype, count):
            return
        if not self._container.is_whole(place + ARRAY_ENDING):
            return  # reported when it is loaded
        rows = self._array_place(place, dtype).count
        raise self._corrupt(f"{place} has {rows:,} rows, not {count:,}")

    def _corrupt(self, what: str) -> CorruptTraceError:
        return CorruptTraceError(f"{self._path}: {what}", hint=HINT)


def _declared(table: str) -> tuple[Column, ...]:
    """Return the columns that a table may have in a file of any version."""
    return tuple(
        column for tables in (TABLES, FORMER) if table in tables for column in tables[table].columns
    )


def _is_between(values: Array, labels: Mapping[int, str]) -> bool:
    """Return whether every number between the smallest and the largest has a label."""
    if not len(values):
        return True
    low, high = int(values.min()), int(values.max())
    return high - low < len(labels) and all(number in labels for number in range(low, high + 1))
