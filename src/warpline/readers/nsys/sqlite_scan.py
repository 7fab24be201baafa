"""Reading tables with the native core, which decodes the file's pages itself."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.errors import CorruptTraceError, InputError
from warpline.readers.nsys.sqlite_values import (
    Kind,
    Raw,
    RawCodes,
    RawColumn,
    RawText,
    SourceColumn,
    coded,
)

DAMAGED_HINT = (
    "export the recording again (nsys export --type sqlite), or recover the rest: "
    "sqlite3 FILE .recover | sqlite3 NEW_FILE"
)
CHANGED_HINT = "wait until the program that writes it ends"
_MESSAGE_BYTES = 256
_DISTINCT_BYTES = 2**22  # of texts; only what they take is touched


class _Table(NamedTuple):
    handle: ctypes.c_void_p
    rows: int


class _Buffers(NamedTuple):
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.int32]
    valid: npt.NDArray[np.bool_]
    distinct: npt.NDArray[np.int64]
    distinct_bytes: npt.NDArray[np.uint8]


class Scanner:
    """A database file that the native core has open.

    Usable from several threads. It takes no lock: a file that another program changes during
    reading gives an InputError.
    """

    def __init__(self, core: native.Core, database: ctypes.c_void_p, named: Path) -> None:
        self._core = core
        self._database = database
        self._named = named
        self._tables: dict[int, _Table] = {}
        self._opening = threading.Lock()
        self.close = weakref.finalize(self, _close, core, database, self._tables)

    @classmethod
    def open(cls, path: Path, named: Path) -> Scanner | None:
        """Open a file; None if there is no native core, or if only sqlite3 can read the file.

        Args:
            path: The file to read.
            named: Name for messages: `path` may be a temporary copy.
        """
        core = native.core()
        if core is None:
            return None
        database = ctypes.c_void_p()
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        status = core.wl_sqlite_open(
            os.fsencode(path), ctypes.byref(database), message, _MESSAGE_BYTES
        )
        if status == native.UNSUPPORTED:
            return None
        _check(status, message, str(named))
        return cls(core, database, named)

    def row_count(self, name: str, root_page: int) -> int | None:
        """Count the rows of a table; None if only sqlite3 can read it."""
        table = self._table(name, root_page)
        return None if table is None else table.rows

    def borders(self, name: str, root_page: int, rows: int) -> list[int] | None:
        """Return where parts of a table begin and end that have about as many rows.

        The first is 0, the last the number of rows. None if only sqlite3 can read the table.
        """
        table = self._table(name, root_page)
        if table is None:
            return None
        borders = [0]
        while borders[-1] < table.rows:
            borders.append(self._core.wl_sqlite_table_border(table.handle, borders[-1] + rows))
        return borders

    def read(
        self,
        name: str,
        root_page: int,
        columns: Sequence[tuple[SourceColumn, Kind]],
        rows: tuple[int, int] | None = None,
    ) -> list[Raw] | None:
        """Read columns of a table, or of the rows between two borders.

        Returns None if only sqlite3 can read it.
        """
        table = self._table(name, root_page)
        if table is None or any(column.position is None for column, _ in columns):
            return None
        first, last = (0, table.rows) if rows is None else rows
        asked, columns = (
            columns,
            [(column, kind.uncoded if column.is_rowid else kind) for column, kind in columns],
        )
        buffers = [_allocate(kind, last - first) for _, kind in columns]
        requests = (native.SqliteColumn * len(columns))()
        for request, (column, kind), buffer in zip(requests, columns, buffers, strict=True):
            request.values = buffer.values.ctypes.data
            request.valid = buffer.valid.ctypes.data
            request.position = native.ROWID if column.is_rowid else column.position
            request.kind = kind.value
            request.is_real = column.is_real
            request.distinct = buffer.distinct.ctypes.data
            request.distinct_bytes = buffer.distinct_bytes.ctypes.data
            request.distinct_bytes_room = len(buffer.distinct_bytes)
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        status = self._core.wl_sqlite_table_read(
            table.handle, first, last, requests, len(columns), 0, message, _MESSAGE_BYTES
        )
        _check(status, message, f"{self._named}: table {name}")
        for request, (column, _) in zip(requests, columns, strict=True):
            if request.short_rows and column.default is not None:
                return None  # rows older than the column: sqlite3 fills in the default
        raws = [
            self._finish(name, table, (first, last), request, buffer, kind)
            for request, buffer, (_, kind) in zip(requests, buffers, columns, strict=True)
        ]
        crowded = [place for place, raw in enumerate(raws) if raw is None]
        if crowded:  # too many distinct values to number them while reading
            plain = [(columns[place][0], columns[place][1].uncoded) for place in crowded]
            again = self.read(name, root_page, plain, (first, last))
            assert again is not None, "these columns have just been read"
            for place, raw in zip(crowded, again, strict=True):
                raws[place] = coded(raw)
        return [
            raw if kind is kind.uncoded else coded(raw)
            for raw, (_, kind) in zip(raws, asked, strict=True)
            if raw is not None
        ]

    def _finish(
        self,
        name: str,
        table: _Table,
        rows: tuple[int, int],
        request: native.SqliteColumn,
        buffer: _Buffers,
        kind: Kind,
    ) -> Raw | None:
        valid = buffer.valid if request.invalid else None
        if kind is not kind.uncoded:
            return _coded(request, buffer, valid, kind)
        if kind in (Kind.INT64, Kind.FLOAT64):
            return RawColumn(_numbers(buffer), valid, request.mismatched)
        offsets = buffer.values.view(np.int64)
        blob = np.empty(int(offsets[-1]), np.uint8)
        if blob.size:
            message = ctypes.create_string_buffer(_MESSAGE_BYTES)
            status = self._core.wl_sqlite_table_bytes(
                table.handle,
                *rows,
                ctypes.byref(request),
                blob.ctypes.data,
                blob.size,
                0,
                message,
                _MESSAGE_BYTES,
            )
            _check(status, message, f"{self._named}: table {name}")
        return RawText(blob, offsets, valid, request.mismatched)

    def _table(self, name: str, root_page: int) -> _Table | None:
        with self._opening:
            if root_page in self._tables:
                return self._tables[root_page]
            handle, rows = ctypes.c_void_p(), ctypes.c_int64()
            message = ctypes.create_string_buffer(_MESSAGE_BYTES)
            status = self._core.wl_sqlite_table_open(
                self._database,
                root_page,
                0,
                ctypes.byref(handle),
                ctypes.byref(rows),
                message,
                _MESSAGE_BYTES,
            )
            if status == native.UNSUPPORTED:
                return None
            _check(status, message, f"{self._named}: table {name}")
            return self._tables.setdefault(root_page, _Table(handle, rows.value))


def _close(core: native.Core, database: ctypes.c_void_p, tables: dict[int, _Table]) -> None:
    for table in tables.values():
        core.wl_sqlite_table_close(table.handle)
    tables.clear()
    core.wl_sqlite_close(database)


def _numbers(buffer: _Buffers) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    values = buffer.values
    return values.view(np.float64) if values.dtype == np.float64 else values.view(np.int64)


def _coded(
    request: native.SqliteColumn, buffer: _Buffers, valid: npt.NDArray[np.bool_] | None, kind: Kind
) -> RawCodes | None:
    """Return a column of codes, None if it has too many distinct values."""
    count = request.distinct_count
    if count < 0:
        return None
    keys: npt.NDArray[np.int64] | tuple[bytes, ...] = buffer.distinct[:count].copy()
    if kind is Kind.TEXT_CODES:
        offsets = buffer.distinct[: count + 1].tolist()
        content = buffer.distinct_bytes[: offsets[-1]].tobytes()
        keys = tuple(content[a:b] for a, b in pairwise(offsets))
    codes = buffer.values.view(np.int32)
    if len(codes) and request.invalid == len(codes):
        valid = np.broadcast_to(np.False_, codes.shape)
    # A constant column, such as that of the only thread, takes no memory.
    if count == 1 and (valid is None or kind is Kind.INT64_CODES):
        codes = np.broadcast_to(np.int32(0), codes.shape)
    elif count == 0:
        codes = np.broadcast_to(np.int32(-1), codes.shape)
    return RawCodes(codes, keys, valid, request.mismatched)


def _allocate(kind: Kind, rows: int) -> _Buffers:
    valid, is_coded = np.empty(rows, np.bool_), kind is not kind.uncoded
    distinct = np.empty(native.MOST_DISTINCT + 1 if is_coded else 0, np.int64)
    text = np.empty(_DISTINCT_BYTES if kind is Kind.TEXT_CODES else 0, np.uint8)
    if is_coded:
        return _Buffers(np.zeros(rows, np.int32), valid, distinct, text)
    if kind is Kind.FLOAT64:
        return _Buffers(np.empty(rows, np.float64), valid, distinct, text)
    is_number = kind is Kind.INT64
    return _Buffers(np.empty(rows if is_number else rows + 1, np.int64), valid, distinct, text)


def _check(status: int, message: ctypes.Array[ctypes.c_char], what: str) -> None:
    """Raise the error for a status of the native core."""
    if status == native.OK:
        return
    text = message.value.decode(errors="replace")
    if status == native.CORRUPT:
        raise CorruptTraceError(f"{what} is damaged: {text}", hint=DAMAGED_HINT)
    if status == native.CHANGED:
        raise InputError(f"{what}: changed during reading: {text}", hint=CHANGED_HINT)
    if status == native.BAD_ARGUMENT:
        raise ValueError(f"{what}: {text}")
    raise InputError(f"{what} cannot be read: {text}")
