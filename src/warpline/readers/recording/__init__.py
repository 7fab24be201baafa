"""Reader of Warpline's own recording files."""

from __future__ import annotations

from warpline.container import is_container
from warpline.readers.recording.source import RecordingSource
from warpline.schema.recording import FORMAT
from warpline.trace.reading import READERS, Reader

__all__ = ["RecordingSource"]

READERS.add(
    FORMAT,
    Reader(
        name=FORMAT,
        doc="Warpline recordings. warpline export -t warpline converts other formats.",
        extensions=(".warpline",),
        sniff=lambda _, head: is_container(head),
        read=RecordingSource,
    ),
)
