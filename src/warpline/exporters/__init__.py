"""Exporters: write a whole trace to a file or directory, one module per format.

An exporter sees the trace: the recorded tables. A renderer sees a Document: computed tables.
Importing a module registers its exporter.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpline import progress
from warpline.derived.flame.weighted import Choice, choose
from warpline.errors import UsageError
from warpline.files import check_output
from warpline.registry import Registry
from warpline.schema import TABLES
from warpline.trace.recording import written_tables
from warpline.trace.trace import Trace

Write = Callable[[Trace, Path, Collection[str]], None]
WriteStacks = Callable[[Trace, Path, Choice], None]


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


@dataclass(frozen=True)
class StackExporter(Exporter):
    """A format of other profilers for weighted stacks, such as CPU samples.

    Attributes:
        write_stacks: ``(trace, path, choice)``: as `write`, for these stacks. `write` takes the
            first kind that was recorded.
    """

    write_stacks: WriteStacks = field(kw_only=True)


def stack_exporter(name: str, doc: str, ending: str, write: WriteStacks) -> StackExporter:
    """Return the exporter of a format for weighted stacks."""

    def write_default(trace: Trace, path: Path, _tables: Collection[str]) -> None:
        write(trace, path, choose(trace))

    return StackExporter(name, doc, ending, write_default, write_stacks=write)


EXPORTERS: Registry[Exporter] = Registry("export format")


def export(
    trace: Trace,
    path: Path,
    exporter: Exporter,
    tables: Sequence[str] | None = None,
    *,
    stacks: Choice | None = None,
    overwrite: bool = False,
) -> None:
    """Write a trace in a format, if the output may be written.

    Args:
        trace: The trace, or a part of one.
        path: Output file or directory.
        exporter: The format.
        tables: Names of the tables to write, with those that they refer to; None writes all.
        stacks: Which stacks a `StackExporter` writes; None takes the first kind that was recorded.
        overwrite: Whether to replace existing output.

    Raises:
        UsageError: There is no such table, the output exists, or the format has no tables, or no
            stacks.
        MissingTableError: A table was not recorded.
        InputError: The output cannot be written.
    """
    if tables is not None and isinstance(exporter, StackExporter):
        raise UsageError(f"{exporter.name} has no tables", hint="remove --tables")
    if stacks is not None and not isinstance(exporter, StackExporter):
        known = ", ".join(each.name for each in EXPORTERS if isinstance(each, StackExporter))
        raise UsageError(
            f"{exporter.name} has all tables, not chosen stacks", hint=f"use a type of: {known}"
        )
    for name in tables or ():
        if name not in TABLES:
            near = difflib.get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]}?" if near else "tables: " + ", ".join(TABLES)
            raise UsageError(f"unknown table {name!r}", hint=hint)
        trace.table(name)
    check_output(path, is_folder=exporter.is_folder, overwrite=overwrite)
    with progress.task(f"Writing {path.name}"):
        if isinstance(exporter, StackExporter):
            exporter.write_stacks(trace, path, stacks or choose(trace))
        else:
            exporter.write(trace, path, written_tables(trace, tables))
