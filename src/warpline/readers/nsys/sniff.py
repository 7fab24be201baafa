"""Detection of exports and reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.errors import InputError
from warpline.lazy import lazy

if TYPE_CHECKING:
    from warpline.readers.nsys import database, meta, source
else:
    database = lazy("warpline.readers.nsys.database")
    meta = lazy("warpline.readers.nsys.meta")
    source = lazy("warpline.readers.nsys.source")

REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
REPORT_EXTENSIONS = (".nsys-rep", ".qdrep")
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
    known = {name.lower() for names in source.SOURCES.values() for name in names}
    has_meta = any(name.lower() in tables for name in meta.META_TABLES)
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


def is_report(path: Path, head: bytes) -> bool:
    """Return whether a file is a report, by its first bytes or its name."""
    # Not every version's first bytes are known. The name decides for the others.
    is_other = head.startswith(_SQLITE_MAGIC)
    is_named = path.suffix.lower() in REPORT_EXTENSIONS
    return head.startswith(REPORT_MAGIC) or (is_named and not is_other)


def _tables(path: Path) -> list[str]:
    opened = database.Database.open(path)
    opened.close()
    return list(opened.tables)
