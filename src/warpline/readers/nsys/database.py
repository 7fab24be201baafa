"""A SQLite file as tables of columns, read by the native core where it can be."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from warpline import progress
from warpline.readers.nsys import sqlite_connection as opening
from warpline.readers.nsys.sqlite_rows import RowReader
from warpline.readers.nsys.sqlite_scan import Scanner
from warpline.readers.nsys.sqlite_values import (
    Kind,
    Raw,
    RawCodes,
    RawColumn,
    RawText,
    SourceColumn,
    coded,
)

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

__all__ = ["Database", "Kind", "Raw", "RawCodes", "RawColumn", "RawText", "SourceColumn", "coded"]

T = TypeVar("T")

_COLUMNS_QUERY = """
    SELECT t.name, t.rootpage, c.name, c.type, c.dflt_value, c.pk, c.hidden
    FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c
    WHERE t.type = 'table' AND t.rootpage > 0 AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    ORDER BY t.rowid, c.cid"""
# An INTEGER PRIMARY KEY needs no index; a primary key that has one is not the rowid. The schema
# lists that index too, unless the index is the table itself: then the table is WITHOUT ROWID.
_INDEXED_KEYS_QUERY = """
    SELECT t.name, m.name IS NULL
    FROM sqlite_master AS t, pragma_index_list(t.name) AS i
    LEFT JOIN sqlite_master AS m ON m.name = i.name
    WHERE t.type = 'table' AND t.rootpage > 0 AND i.origin = 'pk'"""
_VIRTUAL_COLUMN = 2  # the value of `hidden` for a column that is computed when read


class _Table(NamedTuple):
    root_page: int
    columns: tuple[SourceColumn, ...]
    order: tuple[str, ...]  # the primary key of a table WITHOUT ROWID, else empty


class Database:
    """A SQLite database file, open for reading. Nothing is written to it or next to it.

    Views and virtual tables are ignored: in a hostile file they can run forever.
    Usable from several threads. Closed by `close`, or when no reference is left.

    Attributes:
        path: The file as the user named it.
        tables: Columns of each table, as stored, without sqlite3's internal tables.
        missing_bytes: How much shorter the file is than its header states. Tables in the remaining
            part can still be read.
    """

    def __init__(
        self, path: Path, state: opening.FileState, folder: TemporaryDirectory[str] | None
    ) -> None:
        self.path = path
        self.missing_bytes = state.missing_bytes
        self._state = state
        self._lock = threading.Lock()
        self._reader: RowReader | None = None
        self._finalizers: list[Callable[[], object]] = []
        if folder is not None:  # first, as any of what follows may fail
            self._finalizers.append(weakref.finalize(self, folder.cleanup))
        # Before sqlite3 opens the file: closing any descriptor of it drops the process's locks.
        live = state.has_log or state.has_journal
        self._scanner = None if live else Scanner.open(state.path, path)
        if self._scanner is not None:
            self._finalizers.append(self._scanner.close)
        self._tables = self._read_schema()
        self.tables: Mapping[str, tuple[SourceColumn, ...]] = {
            name: table.columns for name, table in self._tables.items()
        }

    @classmethod
    def open(cls, path: Path) -> Database:
        """Open a file and read its schema.

        Raises InputError, CorruptTraceError or UnknownFormatError: for a file that is missing,
        unreadable, empty, locked, not SQLite, encrypted, or truncated within its schema.
        """
        state = opening.inspect(path)
        try:
            if state.cut_page_bytes:
                return cls(path, *opening.whole_pages_copy(state))
            if not opening.must_recover(state):
                try:
                    return cls(path, state, None)
                except sqlite3.Error as error:
                    if not opening.can_recover(state, error):
                        raise
            return cls(path, *opening.recovered_copy(state))
        except (sqlite3.Error, UnicodeError) as error:
            raise opening.sqlite_failure(error, str(path)) from error

    @property
    def is_scanned(self) -> bool:
        """Whether the native core reads the file, not sqlite3 row by row."""
        return self._scanner is not None

    def close(self) -> None:
        """Close the file. Columns already read stay valid."""
        for finalize in reversed(self._finalizers):
            finalize()

    def row_count(self, table: str) -> int:
        """Count the rows of a table. Raises KeyError, or CorruptTraceError if it is damaged."""
        name = _find(table, self._tables, "table")
        rows = None
        if self._scanner is not None:
            rows = self._scanner.row_count(name, self._tables[name].root_page)
        if rows is None:
            rows = self._by_rows(name, lambda reader: reader.row_count(name))
        return rows

    def borders(self, table: str, rows: int) -> list[int] | None:
        """Return where parts of a table begin and end that have about as many rows.

        The first is 0, the last the number of rows. None if the native core does not read the
        table. Raises as `row_count`.
        """
        name = _find(table, self._tables, "table")
        if self._scanner is None:
            return None
        return self._scanner.borders(name, self._tables[name].root_page, rows)

    def read(
        self, table: str, columns: Mapping[str, Kind], rows: tuple[int, int] | None = None
    ) -> dict[str, Raw]:
        """Read columns of a table, rows in rowid order, under the requested names.

        Names match exactly, otherwise ignoring case. Raises KeyError for a missing table or
        column, CorruptTraceError if any row of the table is damaged, InputError if another
        program changes the file during reading.

        Args:
            table: The table.
            columns: What to read.
            rows: Two of its `borders`, for the rows between them; None for all rows.
        """
        name = _find(table, self._tables, "table")
        root_page, known, order = self._tables[name]
        by_name = {column.name: column for column in known}
        wanted = [(by_name[_find(column, by_name, name)], kind) for column, kind in columns.items()]
        raws = None
        with progress.task(f"Reading {self.path.name}: {name}"):
            if self._scanner is not None:
                raws = self._scanner.read(name, root_page, wanted, rows)
            if raws is None:
                plain = [(column, kind.uncoded) for column, kind in wanted]
                raws = self._by_rows(name, lambda reader: reader.read(name, plain, order))
                raws = [
                    raw if kind is kind.uncoded else coded(raw)
                    for raw, (_, kind) in zip(raws, wanted, strict=True)
                ]
                if rows is not None:
                    raws = [raw.between(*rows) for raw in raws]
        return dict(zip(columns, raws, strict=True))

    def _by_rows(self, table: str, read: Callable[[RowReader], T]) -> T:
        try:
            with self._lock:
                if self._reader is None:
                    connection = opening.connect(self._state)
                    self._reader = RowReader(
                        connection, self.path, self._state.bytes, snapshot=self._state.has_log
                    )
                    self._finalizers.append(self._reader.close)
            return read(self._reader)
        except (sqlite3.Error, UnicodeError) as error:
            raise opening.sqlite_failure(error, f"{self.path}: table {table}") from error

    def _read_schema(self) -> dict[str, _Table]:
        connection = opening.connect(self._state)
        connection.text_factory = lambda name: name.decode(errors="replace")
        try:
            rows = connection.execute(_COLUMNS_QUERY).fetchall()
            indexed: dict[str, int] = dict(connection.execute(_INDEXED_KEYS_QUERY).fetchall())
        finally:
            connection.close()
        return {
            name: _make_table(root_page, [row[2:] for row in group], indexed.get(name))
            for (name, root_page), group in groupby(rows, key=itemgetter(0, 1))
        }


_Declared = tuple[str, str, str | None, int, int]  # name, type, default, key, hidden


def _make_table(root_page: int, declared: list[_Declared], indexed: int | None) -> _Table:
    """Describe a table; `indexed` is None if its key has no index, 1 if the table is the index."""
    keys = {key: name for name, *_, key, _ in declared if key}
    position = 0
    columns = []
    for name, declared_type, default, key, hidden in declared:
        is_stored = hidden != _VIRTUAL_COLUMN
        is_integer_key = bool(key) and len(keys) == 1 and declared_type.upper() == "INTEGER"
        columns.append(
            SourceColumn(
                name=name,
                type=declared_type,
                is_rowid=is_integer_key and indexed is None,
                default=default,
                position=position if is_stored else None,
            )
        )
        position += is_stored
    order = tuple(keys[number] for number in sorted(keys)) if indexed else ()
    return _Table(root_page, tuple(columns), order)


def _find(name: str, known: Iterable[str], where: str) -> str:
    names = list(known)
    if name in names:
        return name
    for candidate in names:
        if candidate.lower() == name.lower():
            return candidate
    raise KeyError(f"{where}: no {name!r}")
