"""Exporters: a trace written in a format of its own or of others, one module per format.

An exporter sees the trace, where a renderer sees a Document: tables of a recording rather than
what was computed from them. Importing a module registers its exporter.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from warpline.errors import InputError
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


@contextlib.contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a name beside `path` to write to; the file moves to `path` when the block ends well.

    Raises InputError if the system refuses to write it.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
