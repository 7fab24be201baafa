"""Reading tables row by row with the standard library's sqlite3: slow, but always correct."""

from __future__ import annotations

import math
import sqlite3
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import NoneType

import numpy as np
import numpy.typing as npt

from warpline.errors import CorruptTraceError, InputError
from warpline.readers.nsys.sqlite_scan import CHANGED_HINT, DAMAGED_HINT
from warpline.readers.nsys.sqlite_values import Kind, Raw, RawColumn, RawText, SourceColumn

_CHUNK_ROWS = 4096
_CHUNK_TEXT_ROWS = 64  # each may be large
_EXACT_REALS = 2.0**53
# Rows of a hostile file may share bytes and so exceed its size without bound. Valid ones do so only
# by UTF-16 (1.5 times) and by the default values of added columns.
_MOST_GROWTH = 16
_MIN_LIMIT_BYTES = 2**26

_Value = int | float | bytes | bytearray | None


class RowReader:
    """A connection that reads columns. Usable from several threads, one at a time.

    Args:
        connection: Becomes this reader's own.
        path: The file as it was named, for messages.
        file_bytes: The file's size.
        snapshot: Whether to keep reading the current state of a log that its writer extends. A file
            without a log that changes between two reads gives an InputError.

    Methods raise sqlite3.Error; ValueError for a name that cannot be written in SQL.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, file_bytes: int, *, snapshot: bool
    ) -> None:
        self._connection = connection
        self._path = path
        self._limit_bytes = max(_MOST_GROWTH * file_bytes, _MIN_LIMIT_BYTES)
        self._lock = threading.Lock()
        self._row_counts: dict[str, int] = {}
        self.close = weakref.finalize(self, connection.close)
        connection.text_factory = bytearray  # distinguishes text from blobs, which arrive as bytes
        if snapshot:
            connection.execute("BEGIN")
        self._version = self._data_version()

    def row_count(self, table: str) -> int:
        """Count the rows of a table."""
        query = f"SELECT count(*) FROM {quote(table)} NOT INDEXED"  # noqa: S608 - quoted name
        with self._lock:
            if table not in self._row_counts:
                self._row_counts[table] = int(self._connection.execute(query).fetchone()[0])
            self._check_unchanged()
        return self._row_counts[table]

    def read(
        self,
        table: str,
        columns: Sequence[tuple[SourceColumn, Kind]],
        order: Sequence[str],
    ) -> list[Raw]:
        """Read columns of a table, rows in rowid order, or in that of the columns in `order`."""
        names = ", ".join(f"t.{quote(column.name)}" for column, _ in columns) or "NULL"
        # NOT INDEXED: a covering index would give the rows in its own order. The names are
        # qualified because sqlite3 takes an unknown name in double quotes for a string.
        query = f"SELECT {names} FROM {quote(table)} AS t NOT INDEXED"  # noqa: S608 - quoted names
        if order:
            query += " ORDER BY " + ", ".join(f"t.{quote(name)}" for name in order)
        builders = [
            _TextBuilder(kind) if _is_bytes(kind) else _NumberBuilder(kind) for _, kind in columns
        ]
        chunk = _CHUNK_TEXT_ROWS if any(_is_bytes(kind) for _, kind in columns) else _CHUNK_ROWS
        with self._lock:
            cursor = self._connection.execute(query)
            while rows := cursor.fetchmany(chunk):
                for builder, values in zip(builders, zip(*rows, strict=True), strict=False):
                    builder.append(values)
                if sum(builder.bytes for builder in builders) > self._limit_bytes:
                    message = f"{self._path}: table {table} is damaged: larger than the file"
                    raise CorruptTraceError(message, hint=DAMAGED_HINT)
            self._check_unchanged()
        return [builder.finish() for builder in builders]

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _check_unchanged(self) -> None:
        if self._data_version() != self._version:
            raise InputError(f"{self._path}: changed during reading", hint=CHANGED_HINT)


def quote(name: str) -> str:
    """Write a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _is_bytes(kind: Kind) -> bool:
    return kind in (Kind.TEXT, Kind.BLOB)


class _NumberBuilder:
    bytes = 0  # numbers are counted by the row

    def __init__(self, kind: Kind) -> None:
        self._is_int = kind is Kind.INT64
        self._dtype: type[np.int64 | np.float64] = np.int64 if self._is_int else np.float64
        self._values: list[npt.NDArray[np.int64 | np.float64]] = []
        self._valid: list[npt.NDArray[np.bool_]] = []
        self._mismatched = 0

    def append(self, values: Sequence[_Value]) -> None:
        own = int if self._is_int else float
        types = set(map(type, values))
        if types == {own}:  # nearly always
            self._values.append(np.array(values, self._dtype))
            self._valid.append(np.ones(len(values), np.bool_))
            return
        fitted = list(values)
        if not types <= {own, NoneType}:
            fitted = [_fit_int(value) if self._is_int else _fit_float(value) for value in values]
        self._values.append(np.array([0 if fit is None else fit for fit in fitted], self._dtype))
        self._valid.append(np.array([fit is not None for fit in fitted], np.bool_))
        self._mismatched += fitted.count(None) - values.count(None)

    def finish(self) -> RawColumn:
        values = np.concatenate([np.empty(0, self._dtype), *self._values])
        return RawColumn(values, _mask(self._valid), self._mismatched)


class _TextBuilder:
    def __init__(self, kind: Kind) -> None:
        self.bytes = 0
        self._types = (bytearray,) if kind is Kind.TEXT else (bytearray, bytes)
        self._blob = bytearray()
        self._lengths: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._valid: list[npt.NDArray[np.bool_]] = []
        self._mismatched = 0

    def append(self, values: Sequence[_Value]) -> None:
        texts = [value if isinstance(value, self._types) else None for value in values]
        self._blob += b"".join(text for text in texts if text is not None)
        self.bytes = len(self._blob)
        self._lengths.append(np.array([len(text or b"") for text in texts], np.int64))
        self._valid.append(np.array([text is not None for text in texts], np.bool_))
        self._mismatched += texts.count(None) - values.count(None)

    def finish(self) -> RawText:
        offsets = np.cumsum(np.concatenate(self._lengths), dtype=np.int64)
        blob = np.frombuffer(self._blob, np.uint8)
        return RawText(blob, offsets, _mask(self._valid), self._mismatched)


def _fit_int(value: _Value) -> int | None:
    if isinstance(value, int):
        return value
    if isinstance(value, float) and abs(value) <= _EXACT_REALS and value.is_integer():
        return int(value)
    return None


def _fit_float(value: _Value) -> float | None:
    if isinstance(value, int | float) and not math.isnan(value):
        return float(value)
    return None


def _mask(parts: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_] | None:
    mask = np.concatenate([np.empty(0, np.bool_), *parts])
    return None if mask.all() else mask
