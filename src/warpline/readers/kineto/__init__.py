"""Reader of the PyTorch profiler's (Kineto's) Chrome traces."""

from __future__ import annotations

from pathlib import Path

from warpline.readers.kineto.meta import FORMAT
from warpline.readers.kineto.sniff import identify_json, is_trace
from warpline.readers.kineto.source import KinetoSource
from warpline.trace.reading import READERS, Reader


def read(path: Path) -> KinetoSource:
    """Open a trace. Raises InputError when it cannot be used."""
    return KinetoSource(path)


READERS.add(
    FORMAT,
    Reader(
        name=FORMAT,
        doc="PyTorch profiler (Kineto) traces since 2020, or a directory with one per rank.",
        extensions=(".json", ".json.gz"),
        sniff=is_trace,
        read=read,
        identify=identify_json,
        folder_endings=(".pt.trace.json", ".pt.trace.json.gz"),
    ),
)
