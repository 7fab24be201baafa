"""Exporters: a trace written in a format of its own or of others, one module per format.

An exporter sees the trace, where a renderer sees a Document: tables of a recording rather than
what was computed from them. Importing a module registers its exporter.
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
        ending: Usual ending of the file's name, with the dot.
        write: ``(trace, path, tables)``: writes these recorded tables. What appears at the path
            is complete; what stood there before is replaced. Raises InputError if it cannot.
        is_folder: Whether it writes a folder with a file for each table.
    """

    name: str
    doc: str
    ending: str
    write: Write
    is_folder: bool = False


EXPORTERS: Registry[Exporter] = Registry("export format")
