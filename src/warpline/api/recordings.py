"""Recordings: opened, chosen, merged, and written to files of other formats."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from warpline import plugins, progress
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.trace import READERS, Trace, selection
from warpline.trace.reading import read_all
from warpline.trace.selection import Words

if TYPE_CHECKING:
    from warpline import exporters
    from warpline.derived.flame.weighted import Choice
    from warpline.derived.ranks import clocks
    from warpline.documents import comparison
    from warpline.trace import framework_records
else:
    clocks = lazy("warpline.derived.ranks.clocks")
    comparison = lazy("warpline.documents.comparison")
    exporters = lazy("warpline.exporters")
    framework_records = lazy("warpline.trace.framework_records")

PathLike: TypeAlias = str | os.PathLike[str]
# The first argument of most functions below: an open trace, a file, or several files.
Recordings: TypeAlias = Trace | PathLike | Sequence[PathLike]
Side: TypeAlias = Recordings | Sequence[Trace]  # of a comparison


def open(*paths: PathLike | Sequence[PathLike]) -> Trace:  # noqa: A001 - the name users expect
    """Open one or several recordings as one trace.

    Args:
        paths: Files in any supported format, or directories that the PyTorch profiler wrote; also
            lists of them. Several files, such as one per rank, are merged. Devices are matched by
            UUID. Clocks are aligned by UTC anchors and by collectives that all ranks end together.
            Processes of different files stay separate.

    Raises:
        UsageError: No file is given, or two files hold the same run.
        InputError: A file is missing, damaged beyond use, or has an unsupported format.
    """
    named = [Path(path) for item in paths for path in _listed(item)]
    if not named:
        raise UsageError("no recording given", hint='pass a file: warpline.open("run.sqlite")')
    plugins.load("readers")
    sources = read_all(named)
    if len(sources) == 1:
        return Trace(sources[0])
    with progress.task("Aligning clocks"):
        return clocks.aligned(sources)


def _listed(paths: PathLike | Sequence[PathLike]) -> Sequence[PathLike]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths


def opened(trace: Recordings) -> Trace:
    """Return an open trace as it is, and open the file or files that a path or a list names.

    Raises:
        TypeError: It is none of these.
        UsageError, InputError: As `open` does.
    """
    if isinstance(trace, Trace):
        return trace
    if _names_files(trace):
        return open(trace)
    raise TypeError(f"expected a Trace, a path, or a list of paths, not {type(trace).__name__}")


def _names_files(value: object) -> bool:
    if isinstance(value, str | os.PathLike):
        return True
    return isinstance(value, Sequence) and all(isinstance(x, str | os.PathLike) for x in value)


def runs_of_side(side: Side) -> Iterator[Trace]:
    """Yield the trace of each run of a side, opened when it is needed."""
    listed = list(side) if isinstance(side, Sequence) and not isinstance(side, str) else [side]
    traces = [item for item in listed if isinstance(item, Trace)]
    paths = [item for item in listed if isinstance(item, str | os.PathLike)]
    if traces and len(traces) == len(listed):
        yield from traces
    elif len(paths) == len(listed) > 1:
        for places in comparison.runs_of([open(path) for path in paths]):
            yield open(*(paths[place] for place in places))
    else:
        yield opened(cast("Recordings", side))


def select(
    trace: Recordings,
    *,
    filter_time: str | None = None,
    filter_nvtx: str | None = None,
    exclude: str | Sequence[str] = (),
    process: Words = (),
    device: Words = (),
    stream: Words = (),
) -> Trace:
    """Return the part of a trace that the arguments describe. It shares memory with the whole.

    Args:
        trace: A trace, a path, or a list of paths.
        filter_time: Time range ``START/END``, such as ``1.5s/2s`` or ``200ms/``. Keeps events that
            overlap it. Ignored if `filter_nvtx` is given.
        filter_nvtx: ``RANGE[@DOMAIN][/INDEX]``. Keeps events that overlap this instance of an NVTX
            range. Instances count from 0, in order of their starts.
        exclude: One or several ``RANGE[@DOMAIN]``. Drops every instance, and the GPU operations
            launched from it.
        process: Process ids or names, as numbers, as text, or as comma-separated text. A name is
            the path of the executable or its last component.
        device: GPU indices, or prefixes of UUIDs.
        stream: CUDA stream ids.

    Raises:
        UsageError: There is no range, process, device or stream of that name, or a time is invalid.
        MissingTableError: A range is given, but no ranges were recorded.
    """
    return selection.select(
        opened(trace),
        filter_time=filter_time,
        filter_nvtx=filter_nvtx,
        exclude=exclude,
        process=process,
        device=device,
        stream=stream,
    )


def merge(recording: Recordings, *traces: PathLike) -> Trace:
    """Return a recording with the operators of PyTorch profiler traces of the same run.

    Added are operators, Python functions, allocations, annotations that the recording does not have
    as ranges, and collectives where it has none. Everything that the recording has stays as it is.
    Write the result with `export`.

    Args:
        recording: A trace, a path, or a list of paths.
        traces: Files that torch.profiler wrote in that run.

    Raises:
        UsageError: No trace is given.
        InputError: A file cannot be read, is of another run, or the recording has operators.
    """
    if not traces:
        raise UsageError("no trace to merge", hint="pass a file that torch.profiler wrote")
    ours = opened(recording)
    return framework_records.with_framework_records(ours, [open(path) for path in traces])


def export(
    trace: Recordings,
    path: PathLike,
    format: str = "warpline",  # noqa: A002 - the word users know
    *,
    tables: Sequence[str] | None = None,
    stacks: Choice | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a trace, or a part of one, to a file or directory.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        path: Output file or directory. It appears when it is complete.
        format: Name of an export format: warpline, sqlite, parquet, arrow, json or perfetto; or
            collapsed, speedscope, firefox or pprof, which have weighted stacks only.
        tables: Names of the tables to write. Tables that they refer to, and dimension tables, are
            always included. None writes all recorded tables.
        stacks: Which stacks a format of stacks has, from `stack_choice`. None takes the first kind
            that was recorded.
        overwrite: Whether to replace an existing file; in a directory, files of the same name.

    Returns:
        The path of the file or directory.

    Raises:
        UsageError: There is no such format or table, or the output exists.
        MissingTableError: A table was not recorded.
        InputError: The output cannot be written.
    """
    plugins.load("exporters")
    exporter, target = exporters.EXPORTERS.get(format), Path(path)
    exporters.export(opened(trace), target, exporter, tables, stacks=stacks, overwrite=overwrite)
    return target


def formats() -> list[dict[str, Any]]:
    """Return the supported input formats: name, doc and usual extensions."""
    plugins.load("readers")
    return [
        {"name": item.name, "doc": item.doc, "extensions": list(item.extensions)}
        for item in READERS
    ]
