"""Warpline's recording file, which opens without parsing: see `warpline.trace.recording`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from warpline.exporters import EXPORTERS, Exporter
from warpline.schema.recording import FORMAT
from warpline.trace.recording import write_recording
from warpline.trace.trace import Trace


def write(trace: Trace, path: Path, tables: Collection[str]) -> None:
    """Write a recording file; writing all tables also keeps members unknown to this version."""
    write_recording(trace, path, None if {*tables} == {*trace.tables} else tables)


EXPORTERS.add(
    FORMAT,
    Exporter(
        name=FORMAT,
        doc="A recording that Warpline maps into memory and numpy alone can read.",
        ending=".warpline",
        write=write,
    ),
)
