"""Readers of Nsight Compute: reports, plain and compressed, and pages printed as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy
from warpline.trace.reading import READERS, Reader

# Not by the names of the modules, which importing them binds here.
if TYPE_CHECKING:
    from warpline.readers.ncu import compressed
    from warpline.readers.ncu import csv_pages as pages
    from warpline.readers.ncu import report as reports
    from warpline.readers.ncu import source as sources
    from warpline.trace import MemorySource
else:
    compressed = lazy("warpline.readers.ncu.compressed")
    pages = lazy("warpline.readers.ncu.csv_pages")
    reports = lazy("warpline.readers.ncu.report")
    sources = lazy("warpline.readers.ncu.source")

_MAGIC = b"NVR\0"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_HEADINGS = b'"ID","Process ID","Process Name"'


def is_report(path: Path, head: bytes) -> bool:
    """Return whether a file is a report, by its first bytes."""
    return head.startswith(_MAGIC)


def read_report(path: Path) -> sources.NcuSource:
    """Open a report. Raises InputError when it cannot be used."""
    return sources.NcuSource(reports.open_report(path))


def is_compressed(path: Path, head: bytes) -> bool:
    """Return whether a file is a compressed report; without a decompressor, by its name."""
    if not head.startswith(_ZSTD_MAGIC):
        return False
    if compressed.is_available():
        return compressed.begins_with(path, _MAGIC)
    return path.suffix.lower() == compressed.SUFFIX


def read_compressed(path: Path) -> sources.NcuSource:
    """Decompress a report and open it. Raises InputError when that is not possible."""
    return sources.NcuSource(reports.Report(path, compressed.decompressed(path)))


def is_page(path: Path, head: bytes) -> bool:
    """Return whether a file is a page printed as CSV, by its headings."""
    return any(line.startswith(_HEADINGS) for line in head.splitlines())


def read_page(path: Path) -> MemorySource:
    """Read a page. Raises InputError when it cannot be used."""
    return pages.read(path)


READERS.add(
    "ncu-rep",
    Reader(
        name="ncu-rep",
        doc="Nsight Compute reports of format version 7.",
        extensions=(".ncu-rep",),
        sniff=is_report,
        read=read_report,
    ),
)
READERS.add(
    "ncu-repz",
    Reader(
        name="ncu-repz",
        doc="Compressed Nsight Compute reports; untested, for want of a sample.",
        extensions=(".ncu-repz",),
        sniff=is_compressed,
        read=read_compressed,
    ),
)
READERS.add(
    "ncu-csv",
    Reader(
        name="ncu-csv",
        doc="The pages raw and details of Nsight Compute, printed as CSV.",
        extensions=(".csv",),
        sniff=is_page,
        read=read_page,
    ),
)
