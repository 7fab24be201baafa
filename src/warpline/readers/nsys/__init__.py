"""Readers of Nsight Systems: SQLite exports, and reports by conversion to one."""

from __future__ import annotations

from pathlib import Path

from warpline.errors import InputError
from warpline.readers.nsys.database import Database
from warpline.readers.nsys.meta import META_TABLES
from warpline.readers.nsys.source import SOURCES, NsysSource
from warpline.trace.reading import READERS, Reader

_SQLITE_MAGIC = b"SQLite format 3\0"


def is_export(path: Path, head: bytes) -> bool:
    """Return whether a file is a SQLite database with tables of Nsight Systems.

    A database whose schema cannot be read counts: opening it says what is wrong.
    """
    if not head.startswith(_SQLITE_MAGIC):
        return False
    try:
        database = Database.open(path)
    except InputError:
        return True
    tables = {name.lower() for name in database.tables}
    database.close()
    known = {source.lower() for sources in SOURCES.values() for source in sources}
    has_meta = any(name.lower() in tables for name in META_TABLES)
    return has_meta or ("stringids" in tables and bool(known & tables))


READERS.add(
    "nsys-sqlite",
    Reader(
        name="nsys-sqlite",
        doc="SQLite exports of Nsight Systems 2022.2 to 2026.2 and their schemas 2.9 to 3.25.",
        extensions=(".sqlite",),
        sniff=is_export,
        read=NsysSource.open,
    ),
)
