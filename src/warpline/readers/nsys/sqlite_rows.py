"""Reading tables row by row with the standard library's sqlite3: slow, and always right."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Sequence
from types import NoneType

import numpy as np
import numpy.typing as npt

from warpline.readers.nsys.sqlite_values import Kind, Raw, RawColumn, RawText, SourceColumn

_CHUNK_ROWS = 4096
_EXACT_REALS = 2.0**53

_Value = int | float | bytes | bytearray | None


def read_rows(
    connection: sqlite3.Connection,
    lock: threading.Lock,
    table: str,
    columns: Sequence[tuple[SourceColumn, Kind]],
) -> list[Raw]:
    """Read columns of a table, rows in the order in which they are stored.

    The connection's `text_factory` must be bytearray, which tells text from blobs.
    Raises sqlite3.Error; ValueError for a name that cannot be written in SQL.
    """
    names = ", ".join(f"t.{quote(column.name)}" for column, _ in columns) or "NULL"
    # NOT INDEXED: a covering index would give the rows in its own order. The names are qualified
    # because sqlite3 takes an unknown name in double quotes for a string.
    query = f"SELECT {names} FROM {quote(table)} AS t NOT INDEXED"  # noqa: S608 - quoted names
    builders = [
        _TextBuilder(kind) if _is_bytes(kind) else _NumberBuilder(kind) for _, kind in columns
    ]
    with lock:
        cursor = connection.execute(query)
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            for builder, values in zip(builders, zip(*rows, strict=True), strict=False):
                builder.append(values)
    return [builder.finish() for builder in builders]


def count_rows(connection: sqlite3.Connection, lock: threading.Lock, table: str) -> int:
    """Count the rows of a table. Raises as `read_rows` does."""
    query = f"SELECT count(*) FROM {quote(table)} NOT INDEXED"  # noqa: S608 - quoted name
    with lock:
        return int(connection.execute(query).fetchone()[0])


def quote(name: str) -> str:
    """Write a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _is_bytes(kind: Kind) -> bool:
    return kind in (Kind.TEXT, Kind.BLOB)


class _NumberBuilder:
    def __init__(self, kind: Kind) -> None:
        self._is_int = kind is Kind.INT64
        self._dtype: type[np.int64 | np.float64] = np.int64 if self._is_int else np.float64
        self._values: list[npt.NDArray[np.int64 | np.float64]] = []
        self._valid: list[npt.NDArray[np.bool_]] = []
        self._mismatched = 0

    def append(self, values: Sequence[_Value]) -> None:
        if set(map(type, values)) <= {int if self._is_int else float, NoneType}:
            fitted: Sequence[_Value] = values
        else:
            fitted = [_fit_int(value) if self._is_int else _fit_float(value) for value in values]
        valid = np.array([fit is not None for fit in fitted], np.bool_)
        self._values.append(np.array([0 if fit is None else fit for fit in fitted], self._dtype))
        self._valid.append(valid)
        absent = sum(value is None for value in values)
        self._mismatched += len(values) - int(valid.sum()) - absent

    def finish(self) -> RawColumn:
        values = np.concatenate([np.empty(0, self._dtype), *self._values])
        return RawColumn(values, _mask(self._valid), self._mismatched)


class _TextBuilder:
    def __init__(self, kind: Kind) -> None:
        self._types = (bytearray,) if kind is Kind.TEXT else (bytearray, bytes)
        self._blob = bytearray()
        self._lengths: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._valid: list[npt.NDArray[np.bool_]] = []
        self._mismatched = 0

    def append(self, values: Sequence[_Value]) -> None:
        texts = [value if isinstance(value, self._types) else None for value in values]
        self._blob += b"".join(text for text in texts if text is not None)
        lengths = [0 if text is None else len(text) for text in texts]
        self._lengths.append(np.array(lengths, np.int64))
        self._valid.append(np.array([text is not None for text in texts], np.bool_))
        absent = sum(value is None for value in values)
        self._mismatched += sum(text is None for text in texts) - absent

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
