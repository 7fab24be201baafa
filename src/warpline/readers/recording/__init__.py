"""Reader of Warpline's own recording files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy, lazy_names
from warpline.schema.recording import FORMAT
from warpline.trace.reading import READERS, Reader

# Not by the name of the module, which importing it binds here.
if TYPE_CHECKING:
    from warpline import container
    from warpline.readers.recording import source as recordings
    from warpline.readers.recording.source import RecordingSource
else:
    container = lazy("warpline.container")
    recordings = lazy("warpline.readers.recording.source")
    __getattr__ = lazy_names(__name__, {"source": ("RecordingSource",)})

__all__ = ["RecordingSource"]

_ZIP_MAGIC = b"PK\x03\x04"


def is_recording(path: Path, head: bytes) -> bool:
    """Return whether the first bytes of a file are those of a recording."""
    return head.startswith(_ZIP_MAGIC) and container.is_container(head)


def read(path: Path) -> RecordingSource:
    """Open a recording. Raises InputError when it cannot be used."""
    return recordings.RecordingSource(path)


READERS.add(
    FORMAT,
    Reader(
        name=FORMAT,
        doc="Warpline recordings. warpline export -t warpline converts other formats.",
        extensions=(".warpline",),
        sniff=is_recording,
        read=read,
    ),
)
