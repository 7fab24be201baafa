"""Reading tables with the native core, which decodes the file's pages itself."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.errors import CorruptTraceError, InputError
from warpline.readers.nsys.sqlite_values import Kind, Raw, RawColumn, RawText, SourceColumn

DAMAGED_HINT = (
    "export the recording again (nsys export --type sqlite), or recover the rest: "
    "sqlite3 FILE .recover | sqlite3 NEW_FILE"
)
CHANGED_HINT = "wait until the program that writes it ends"
_MESSAGE_BYTES = 256


class _Table(NamedTuple):
    handle: ctypes.c_void_p
    rows: int


class _Buffers(NamedTuple):
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]


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

    def read(
        self, name: str, root_page: int, columns: Sequence[tuple[SourceColumn, Kind]]
    ) -> list[Raw] | None:
        """Read columns of a table; None if only sqlite3 can read it."""
        table = self._table(name, root_page)
        if table is None or any(column.position is None for column, _ in columns):
            return None
        buffers = [_allocate(kind, table.rows) for _, kind in columns]
        requests = (native.SqliteColumn * len(columns))()
        for request, (column, kind), buffer in zip(requests, columns, buffers, strict=True):
            request.values = buffer.values.ctypes.data
            request.valid = buffer.valid.ctypes.data
            request.position = native.ROWID if column.is_rowid else column.position
            request.kind = kind.value
            request.is_real = column.is_real
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        status = self._core.wl_sqlite_table_read(
            table.handle, requests, len(columns), 0, message, _MESSAGE_BYTES
        )
        _check(status, message, f"{self._named}: table {name}")
        for request, (column, _) in zip(requests, columns, strict=True):
            if request.short_rows and column.default is not None:
                return None  # rows older than the column: sqlite3 fills in the default
        return [
            self._finish(name, table, request, buffer, kind)
            for request, buffer, (_, kind) in zip(requests, buffers, columns, strict=True)
        ]

    def _finish(
        self, name: str, table: _Table, request: native.SqliteColumn, buffer: _Buffers, kind: Kind
    ) -> Raw:
        valid = buffer.valid if request.invalid else None
        if kind in (Kind.INT64, Kind.FLOAT64):
            return RawColumn(buffer.values, valid, request.mismatched)
        offsets = buffer.values.view(np.int64)
        blob = np.empty(int(offsets[-1]), np.uint8)
        if blob.size:
            message = ctypes.create_string_buffer(_MESSAGE_BYTES)
            status = self._core.wl_sqlite_table_bytes(
                table.handle,
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


def _allocate(kind: Kind, rows: int) -> _Buffers:
    valid = np.empty(rows, np.bool_)
    if kind is Kind.FLOAT64:
        return _Buffers(np.empty(rows, np.float64), valid)
    is_number = kind is Kind.INT64
    return _Buffers(np.empty(rows if is_number else rows + 1, np.int64), valid)


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
