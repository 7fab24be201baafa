"""Readers of Nsight Systems: SQLite exports, and reports by conversion to one."""

from __future__ import annotations

from pathlib import Path

from warpline.errors import InputError
from warpline.readers.nsys.convert import EXTENSIONS, is_report, read_report
from warpline.readers.nsys.database import Database
from warpline.readers.nsys.meta import META_TABLES
from warpline.readers.nsys.source import SOURCES, NsysSource
from warpline.trace.reading import READERS, Reader

_SQLITE_MAGIC = b"SQLite format 3\0"
_NAMED_TABLES = 3


def is_export(path: Path, head: bytes) -> bool:
    """Return whether a file is a SQLite database with tables of Nsight Systems.

    A database with an unreadable schema counts: opening it reports the problem.
    """
    if not head.startswith(_SQLITE_MAGIC):
        return False
    try:
        tables = {name.lower() for name in _tables(path)}
    except InputError:
        return True
    known = {source.lower() for sources in SOURCES.values() for source in sources}
    has_meta = any(name.lower() in tables for name in META_TABLES)
    return has_meta or ("stringids" in tables and bool(known & tables))


def identify_database(path: Path, head: bytes) -> str | None:
    """Describe a SQLite database that is not an export, by its tables."""
    if not head.startswith(_SQLITE_MAGIC):
        return None
    tables = _tables(path)
    if not tables:
        return "a SQLite database without tables"
    more = ", ..." if len(tables) > _NAMED_TABLES else ""
    return f"a SQLite database with other tables ({', '.join(tables[:_NAMED_TABLES])}{more})"


def _tables(path: Path) -> list[str]:
    database = Database.open(path)
    database.close()
    return list(database.tables)


READERS.add(
    "nsys-sqlite",
    Reader(
        name="nsys-sqlite",
        doc="SQLite exports of Nsight Systems 2022.2 to 2026.2 (schemas 2.9 to 3.25).",
        extensions=(".sqlite",),
        sniff=is_export,
        read=NsysSource.open,
        identify=identify_database,
    ),
)
READERS.add(
    "nsys-rep",
    Reader(
        name="nsys-rep",
        doc="Nsight Systems reports, converted by an installed nsys.",
        extensions=EXTENSIONS,
        sniff=is_report,
        read=read_report,
    ),
)
