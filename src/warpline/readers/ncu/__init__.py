"""Readers of Nsight Compute: reports, plain and compressed, and pages printed as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy
from warpline.trace.reading import READERS, Reader

# Not by the names of the modules, which importing them binds here.
if TYPE_CHECKING:
    from warpline.readers.ncu import report as reports
    from warpline.readers.ncu import source as sources
else:
    reports = lazy("warpline.readers.ncu.report")
    sources = lazy("warpline.readers.ncu.source")

_MAGIC = b"NVR\0"


def is_report(path: Path, head: bytes) -> bool:
    """Return whether a file is a report, by its first bytes."""
    return head.startswith(_MAGIC)


def read_report(path: Path) -> sources.NcuSource:
    """Open a report. Raises InputError when it cannot be used."""
    return sources.NcuSource(reports.open_report(path))


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
