"""Reader of the PyTorch profiler's (Kineto's) Chrome traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy
from warpline.readers.kineto.sniff import FORMAT, identify_json, is_trace
from warpline.trace.reading import READERS, Reader

# Not by the name of the module, which importing it binds here.
if TYPE_CHECKING:
    from warpline.readers.kineto import source as traces
else:
    traces = lazy("warpline.readers.kineto.source")


def read(path: Path) -> traces.KinetoSource:
    """Open a trace. Raises InputError when it cannot be used."""
    return traces.KinetoSource(path)


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
