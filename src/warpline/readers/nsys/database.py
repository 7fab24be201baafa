"""A SQLite file as tables of columns, read by the native core where it can be."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from warpline.readers.nsys import sqlite_connection as opening
from warpline.readers.nsys.sqlite_rows import count_rows, read_rows
from warpline.readers.nsys.sqlite_scan import Scanner
from warpline.readers.nsys.sqlite_values import Kind, Raw, RawColumn, RawText, SourceColumn

__all__ = ["Database", "Kind", "Raw", "RawColumn", "RawText", "SourceColumn"]

T = TypeVar("T")

_COLUMNS_QUERY = """
    SELECT t.name, t.rootpage, c.name, c.type, c.dflt_value, c.pk, c.hidden
    FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c
    WHERE t.type = 'table' AND t.rootpage > 0 AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    ORDER BY t.rowid, c.cid"""
# An INTEGER PRIMARY KEY needs no index; a primary key that has one is not the rowid.
_INDEXED_KEYS_QUERY = """
    SELECT DISTINCT t.name FROM sqlite_master AS t, pragma_index_list(t.name) AS i
    WHERE t.type = 'table' AND t.rootpage > 0 AND i.origin = 'pk'"""
_VIRTUAL_COLUMN = 2  # the value of `hidden` for a column that is computed when read


class _Table(NamedTuple):
    root_page: int
    columns: tuple[SourceColumn, ...]


class Database:
    """A SQLite database file, open for reading. Nothing is written to it or beside it.

    Views and virtual tables are left out: in a hostile file they can run for ever.
    Usable from several threads. Closed by `close`, or when it is no longer referred to.

    Attributes:
        path: The file as it was named.
        tables: Columns of each table, as stored, sqlite3's internal tables left out.
        missing_bytes: How much shorter the file is than its header says. Tables that lie in the
            part that is left can still be read.
    """

    def __init__(self, path: Path, state: opening.FileState, folder: _Folder) -> None:
        self.path = path
        self.missing_bytes = state.missing_bytes
        self._state = state
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        # Before sqlite3 opens the file: closing any descriptor of it drops the process's locks.
        live = state.has_log or state.has_journal
        self._scanner = None if live else Scanner.open(state.path)
        self._finalizers: list[Callable[[], object]] = (
            [self._scanner.close] if self._scanner else []
        )
        if folder is not None:
            self._finalizers.append(weakref.finalize(self, folder.cleanup))
        self._tables = self._read_schema()
        self.tables: Mapping[str, tuple[SourceColumn, ...]] = {
            name: table.columns for name, table in self._tables.items()
        }

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open a file and read its schema.

        Raises InputError, CorruptTraceError or UnknownFormatError: for a file that is missing,
        forbidden, empty, locked, not SQLite, encrypted, or cut within its schema.
        """
        state = opening.inspect(path)
        try:
            if not opening.must_recover(state):
                try:
                    return cls(path, state, None)
                except sqlite3.Error as error:
                    if not opening.can_recover(state, error):
                        raise
            return cls(path, *opening.recovered_copy(state))
        except sqlite3.Error as error:
            raise opening.sqlite_failure(error, str(path)) from error

    def close(self) -> None:
        """Let go of the file. What was read stays."""
        for finalize in reversed(self._finalizers):
            finalize()

    def row_count(self, table: str) -> int:
        """Count the rows of a table. Raises KeyError, or CorruptTraceError if it is damaged."""
        name = _find(table, self._tables, "table")
        rows = None
        if self._scanner is not None:
            rows = self._scanner.row_count(name, self._tables[name].root_page)
        if rows is not None:
            return rows
        return self._by_rows(name, lambda connection: count_rows(connection, self._lock, name))

    def read(self, table: str, columns: Mapping[str, Kind]) -> dict[str, Raw]:
        """Read columns of a table, rows in rowid order, under the names that were asked for.

        Names are matched exactly, else without regard to case. Raises KeyError for a table or
        column that is not there, CorruptTraceError if any row of the table is damaged, InputError
        if another program changes the file meanwhile.
        """
        name = _find(table, self._tables, "table")
        by_name = {column.name: column for column in self._tables[name].columns}
        wanted = [(by_name[_find(column, by_name, name)], kind) for column, kind in columns.items()]
        found = None
        if self._scanner is not None:
            found = self._scanner.read(name, self._tables[name].root_page, wanted)
        if found is None:
            found = self._by_rows(
                name, lambda connection: read_rows(connection, self._lock, name, wanted)
            )
        return dict(zip(columns, found, strict=True))

    def _by_rows(self, table: str, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return read(self._rows_connection())
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise opening.sqlite_failure(error, f"{self.path}: table {table}") from error

    def _rows_connection(self) -> sqlite3.Connection:
        with self._lock:
            if self._connection is None:
                self._connection = opening.connect(self._state)
                self._connection.text_factory = bytearray
                self._finalizers.append(weakref.finalize(self, self._connection.close))
            return self._connection

    def _read_schema(self) -> dict[str, _Table]:
        connection = opening.connect(self._state)
        connection.text_factory = lambda name: name.decode(errors="replace")
        try:
            rows = connection.execute(_COLUMNS_QUERY).fetchall()
            indexed = {name for (name,) in connection.execute(_INDEXED_KEYS_QUERY)}
        finally:
            connection.close()
        return {
            name: _Table(
                root_page, tuple(_source_columns(columns, has_rowid_key=name not in indexed))
            )
            for (name, root_page), columns in groupby(rows, key=itemgetter(0, 1))
        }


_Folder = tempfile.TemporaryDirectory[str] | None


def _source_columns(
    rows: Iterable[tuple[str, int, str, str, str | None, int, int]], *, has_rowid_key: bool
) -> Iterable[SourceColumn]:
    declared = [row[2:] for row in rows]
    key_columns = sum(key > 0 for *_, key, _ in declared)
    position = 0
    for name, declared_type, default, key, hidden in declared:
        is_rowid = bool(has_rowid_key and key and key_columns == 1)
        is_stored = hidden != _VIRTUAL_COLUMN
        yield SourceColumn(
            name=name,
            type=declared_type,
            is_rowid=is_rowid and declared_type.upper() == "INTEGER",
            default=default,
            position=position if is_stored else None,
        )
        position += is_stored


def _find(name: str, known: Iterable[str], where: str) -> str:
    names = list(known)
    if name in names:
        return name
    for candidate in names:
        if candidate.lower() == name.lower():
            return candidate
    raise KeyError(f"{where}: no {name!r}")
