"""Readers of Nsight Systems: SQLite exports, and reports by conversion to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy
from warpline.readers.nsys.sniff import (
    REPORT_EXTENSIONS,
    identify_database,
    is_export,
    is_report,
)
from warpline.trace.reading import READERS, Reader

# Not by the names of the modules, which importing them binds here.
if TYPE_CHECKING:
    from warpline.readers.nsys import convert as conversion
    from warpline.readers.nsys import source as exports
else:
    conversion = lazy("warpline.readers.nsys.convert")
    exports = lazy("warpline.readers.nsys.source")


def read(path: Path) -> exports.NsysSource:
    """Open an export. Raises InputError when it cannot be used."""
    return exports.NsysSource.open(path)


def read_report(path: Path) -> exports.NsysSource:
    """Convert a report and open it. Raises InputError when that is not possible."""
    return conversion.read_report(path)


READERS.add(
    "nsys-sqlite",
    Reader(
        name="nsys-sqlite",
        doc="SQLite exports of Nsight Systems 2022.2 to 2026.2 (schemas 2.9 to 3.25).",
        extensions=(".sqlite",),
        sniff=is_export,
        read=read,
        identify=identify_database,
    ),
)
READERS.add(
    "nsys-rep",
    Reader(
        name="nsys-rep",
        doc="Nsight Systems reports, converted by an installed nsys.",
        extensions=REPORT_EXTENSIONS,
        sniff=is_report,
        read=read_report,
    ),
)
