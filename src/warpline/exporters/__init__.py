"""Exporters: write a whole trace to a file or directory, one module per format.

An exporter sees the trace: the recorded tables. A renderer sees a Document: computed tables.
Importing a module registers its exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from warpline.registry import Registry
from warpline.trace.trace import Trace

Write = Callable[[Trace, Path, Collection[str]], None]


@dataclass(frozen=True)
class Exporter:
    """A format that a trace can be written in.

    Attributes:
        name: What users type: ``sqlite``.
        doc: One sentence.
        ending: Default suffix of the output, with the dot.
        write: ``(trace, path, tables)``: writes these recorded tables. The output appears at the
            path when it is complete, and replaces an existing file. Raises InputError if it
            cannot be written.
        is_folder: Whether the output is a directory with one file per table.
    """

    name: str
    doc: str
    ending: str
    write: Write
    is_folder: bool = False


EXPORTERS: Registry[Exporter] = Registry("export format")
