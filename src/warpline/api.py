"""What the command line and notebooks call."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpline import plugins
from warpline.errors import CorruptTraceError, InputError, UsageError
from warpline.result import (
    ANALYSES,
    Analysis,
    Diagnosis,
    Document,
    Field,
    Result,
    Skipped,
    column_of,
    cuda_unrecorded,
    describe_meta,
    source_name,
    warnings_of,
)
from warpline.schema import TABLES
from warpline.trace import READERS, Trace, read
from warpline.trace.reading import files_of
from warpline.units import Unit

if TYPE_CHECKING:
    import polars as pl

    from warpline.sql import Answer
    from warpline.viewer.pack import TableOfStats
    from warpline.viewer.report import FirstPage, Inline, Report
    from warpline.viewer.server import PageServer

    PathLike = str | os.PathLike[str]

T = TypeVar("T")

FILTER_HINT = "widen or remove the filters"
_OF_CUDA = frozenset({"kernel", "memcpy", "memset", "graph_launch", "api_call"})


def open(*paths: PathLike) -> Trace:  # noqa: A001 - the name users expect: warpline.open(path)
    """Open one or several recordings as one trace.

    Args:
        paths: Files in any format that a reader knows, or folders that the PyTorch profiler
            wrote. Several files, such as one per rank, are merged: devices match by UUID, clocks
            by their UTC anchors and by collectives that all ranks end together, and processes
            of different files stay apart.

    Raises:
        InputError: A file is missing, damaged beyond use, or of an unknown format.
    """
    if not paths:
        raise UsageError("no file given")
    plugins.load("readers")
    files = [file for path in paths for file in files_of(Path(path))]
    sources = [read(file) for file in files]
    if len(sources) == 1:
        return Trace(sources[0])
    from warpline.derived.ranks.clocks import aligned  # noqa: PLC0415 - start-up

    return aligned(sources)


def split_name(text: str) -> tuple[Analysis, tuple[str, ...]]:
    """Return the analysis and the arguments that ``NAME[:ARG]...`` names; else UsageError."""
    plugins.load("analyses")
    name, *arguments = text.split(":")
    found = ANALYSES.get(name)
    for argument in arguments:
        if argument.split("=")[0] not in found.arguments:
            known = ", ".join(found.arguments) or "none"
            raise UsageError(
                f"table {found.name!r} has no argument {argument!r}", hint=f"arguments: {known}"
            )
    return found, tuple(arguments)


def stats(trace: Trace, table: str) -> Result:
    """Compute one table.

    Args:
        trace: From `warpline.open`.
        table: Its name as `warpline stats -r` takes it: ``cuda_gpu_kern_sum:base``.

    Raises:
        UsageError: There is no such table or argument.
        MissingTableError: The recording does not hold what the table needs.
    """
    from warpline.errors import MissingTableError  # noqa: PLC0415

    result = run(trace, table)
    if isinstance(result, Skipped):
        raise MissingTableError(f"{result.name}: {result.reason}", hint=result.hint)
    return result


def run(trace: Trace, table: str) -> Result | Skipped:
    """Compute one table, or say why the trace has nothing for it."""
    found, arguments = split_name(table)
    if found.needs and not any(trace.has(need) and trace.row_count(need) for need in found.needs):
        return _skipped(trace, table, found)
    return found.compute(trace, arguments)


def _skipped(trace: Trace, table: str, found: Analysis) -> Skipped:
    if not any(trace.has(need) for need in found.needs) and _OF_CUDA.intersection(found.needs):
        for told in cuda_unrecorded(trace):
            return Skipped(table, f"CUDA was not recorded: {told.why}", told.hint)
    hint = FILTER_HINT if _is_filtered_out(trace, found.needs) else found.missing_hint
    return Skipped(table, _reason(trace, found), hint)


def _is_filtered_out(trace: Trace, needs: Sequence[str]) -> bool:
    """Return whether the recording has rows of these tables, but a filter excludes them all."""
    whole = trace.unfiltered()
    return not trace.is_whole and any(whole.has(need) and whole.row_count(need) for need in needs)


def _reason(trace: Trace, found: Analysis) -> str:
    wanted = " or ".join(need.replace("_", " ") for need in found.needs)
    if _is_filtered_out(trace, found.needs):
        return f"the filters exclude all {wanted} rows"
    recorded = any(trace.has(need) for need in found.needs)
    where = "here" if recorded else "were recorded"
    return f"no {wanted} rows {where}"


def default_tables() -> list[str]:
    """Return the names of the tables that `stats` prints when none is named, in its order."""
    plugins.load("analyses")
    ranked = [(item.default_rank, item.name) for item in ANALYSES if item.default_rank is not None]
    return [name for _, name in sorted(ranked)]


def document(trace: Trace, tables: Sequence[str], *, keep_going: bool = False) -> Document:
    """Compute several tables for a renderer.

    Args:
        trace: From `warpline.open`.
        tables: Names, with arguments.
        keep_going: Whether the other tables are computed when one fails by a defect, or needs what
            is damaged in the file; it is then skipped, marked as a failure. Other errors that are
            the file's or the user's end the call.
    """
    compute = _run_or_mark if keep_going else run
    # Warnings come last: computing the tables reads what they are about.
    sections = tuple(compute(trace, table) for table in tables)
    return Document(
        source_name(trace.meta.paths), describe_meta(trace), sections, warnings_of(trace)
    )


def analyze(trace: Trace, *, steps: str | None = None, keep_going: bool = False) -> Diagnosis:
    """Compute where the time of a run went, and what stands out.

    Args:
        trace: From `warpline.open`, or a part of such a trace. Several recordings opened together,
            such as one per rank, are one run.
        steps: The name of the ranges that are steps, or a pattern such as ``epoch_*``; None finds
            the steps by themselves.
        keep_going: Whether a rule that fails by a defect is left out and named among those that
            could not judge, instead of ending the call.

    Returns:
        What `warpline analyze` shows; `Diagnosis.to_dict` is the content of its JSON.

    Raises:
        UsageError: There are no ranges of that name.
    """
    plugins.load("analyses")
    from warpline.analyses.diagnosis.diagnose import diagnose  # noqa: PLC0415 - after the plugins

    return diagnose(trace, steps, _or_skip if keep_going else _or_raise)


# What a report shows beside the diagnosis, in this order, where the recording has it.
_REPORT_TABLES = (
    *("cuda_gpu_kern_sum", "kernel_class_sum", "cuda_gpu_kern_gb_sum", "cuda_kern_exec_sum"),
    *("cuda_api_sum", "cuda_api_gpu_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
    *("copy_sum", "phases", "layers", "range_gpu_sum", "nvtx_sum", "op_sum", "op_kern_sum"),
    *("memory_peak", "collective_kern_sum", "collective_waits", "stragglers", "osrt_sum"),
    *("steps", "step_differences", "breakdown", "overlap", "device_sum", "process_sum"),
    *("recording", "profiling_cost"),
)


def report(
    trace: Trace,
    path: PathLike,
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a report: one HTML file with verdict, findings, tables and the whole timeline.

    The file needs nothing else, opens without a network, and cannot reach one.

    Args:
        trace: From `warpline.open`, or a part of such a trace.
        path: Where to write. It is complete when it appears. A name that ends in ``.zip`` gets
            an archive with the page in it, which passes mail filters that refuse HTML.
        steps: The name of the ranges that are steps, or a pattern; None finds the steps.
        max_bytes: How large the file may be. Where it would be larger, short events are left out,
            and the page says which; totals, tables and findings are of the whole recording.
        overwrite: Whether a file that exists may be replaced.

    Raises:
        UsageError: The path is taken, or the file cannot be so small.
        InputError: The file cannot be written.
    """
    from warpline.viewer.report import write  # noqa: PLC0415 - start-up

    target = Path(path)
    check_output(target, overwrite=overwrite)
    write(target, make_report(trace, steps=steps, max_bytes=max_bytes).pieces)
    return target


def make_report(
    trace: Trace,
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    first_page: FirstPage = "overview",
) -> Report:
    """Return what `report` would write, with its size.

    Args:
        trace: From `warpline.open`, or a part of such a trace.
        steps: The name of the ranges that are steps, or a pattern; None finds the steps.
        max_bytes: How large the page may be.
        first_page: What it shows first.

    Raises:
        UsageError: It cannot be so small.
    """
    from warpline.viewer import report as made  # noqa: PLC0415 - start-up

    diagnosis, tables = _to_view(trace, steps)
    return made.make_report(
        trace, diagnosis, tables, steps=steps, max_bytes=max_bytes, first_page=first_page
    )


def serve(
    trace: Trace,
    *,
    steps: str | None = None,
    port: int = 0,
    tile_from: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> PageServer:
    """Return a server of the same page for a browser on this machine; it does not run yet.

    A recording with more events than a page holds is shown by tiles, which the page fetches as
    it moves; its diagnosis is computed while the server runs, and the page says when it is there.

    Args:
        trace: From `warpline.open`, or a part of such a trace.
        steps: The name of the ranges that are steps, or a pattern; None finds the steps.
        port: Where to listen; 0 takes a free one.
        tile_from: How many events are shown by tiles; None for some millions.
        tell: Takes a sentence about what goes on, where that takes long.

    Raises:
        InputError: The port is taken, or there is no room to lay out the events.
    """
    from warpline.viewer import serving  # noqa: PLC0415 - start-up

    return serving.page_server(
        trace,
        partial(_to_view, trace, steps),
        steps=steps,
        port=port,
        tile_from=serving.TILE_FROM if tile_from is None else tile_from,
        tell=tell,
    )


def timeline(
    trace: Trace,
    *,
    steps: str | None = None,
    height: int = 720,
    max_bytes: int | None = 10_000_000,
) -> Inline:
    """Return the report for a notebook, which shows it below the cell, its timeline first.

    Args:
        trace: From `warpline.open`, or a part of such a trace.
        steps: The name of the ranges that are steps, or a pattern; None finds the steps.
        height: Of the frame, in pixels.
        max_bytes: How much it may add to the notebook, which saves it. Where it would be more,
            short events are left out, and the page says which; None keeps all.

    Raises:
        UsageError: It cannot be so small.
    """
    from warpline.viewer.report import Inline  # noqa: PLC0415 - start-up

    made = make_report(trace, steps=steps, max_bytes=max_bytes, first_page="timeline")
    return Inline("".join(made.pieces), height)


def _to_view(trace: Trace, steps: str | None) -> tuple[Diagnosis, list[TableOfStats]]:
    """Return the diagnosis and the tables of a report; a table's defect does not cost the rest."""
    from warpline.viewer.pack import TableOfStats  # noqa: PLC0415 - start-up

    diagnosis = analyze(trace, steps=steps, keep_going=True)
    recordings = shlex.join(path.name for path in trace.meta.paths)
    found = [_run_or_skip(trace, name) for name in _REPORT_TABLES]
    tables = [
        TableOfStats(item, f"warpline stats -r {item.name} {recordings}")
        for item in found
        if isinstance(item, Result) and len(item)
    ]
    return diagnosis, tables


def _run_or_mark(trace: Trace, table: str) -> Result | Skipped:
    """Return a table, or that it failed by a defect, or needs what is damaged in the file."""
    try:
        return _run_or_skip(trace, table)
    except CorruptTraceError as error:
        return Skipped(table, error.message, error.hint, is_failure=True)


def _run_or_skip(trace: Trace, table: str) -> Result | Skipped:
    return _or_skip(table, partial(run, trace, table))


def _or_skip(name: str, compute: Callable[[], T]) -> T | Skipped:
    """Return what is computed, or that the table or rule of this name failed by a defect."""
    try:
        return compute()
    except (InputError, UsageError):
        raise
    except Exception as error:  # noqa: BLE001 - one table's defect must not cost the others
        reason = f"internal error: {type(error).__name__}: {error}"
        hint = "please report it; --debug shows where it happened"
        return Skipped(name, reason, hint, is_failure=True)


def _or_raise(name: str, compute: Callable[[], T]) -> T | Skipped:
    return compute()


@dataclass(frozen=True)
class _Extract:
    """The part of a table that `summary` shows: its first rows, and some of its columns."""

    tables: tuple[str, ...]  # the first that has rows
    title: str
    fields: tuple[str, ...]
    rows: int | None = None
    is_told_if_missing: bool = True
    is_about_cuda: bool = False
    label: str | None = None  # the field that says what a row is about; None: the table's key


_FIRST_ABOUT_CUDA = ("device_sum",)
_DEVICE = ("gpu_index", "name", "busy_ratio", "busy_ns", "idle_ns")
_DEVICE_COUNTS = ("kernels", "copies", "memsets", "graphs")
_DURATIONS = ("name", "instances", "total_ns", "median_ns", "max_ns")
_SUMMARY = (
    _Extract(("process_sum",), "Processes", ("pid", "name", "calls", "kernels", "ranges"), 5),
    _Extract(_FIRST_ABOUT_CUDA, "Devices", (*_DEVICE, *_DEVICE_COUNTS), 4, is_about_cuda=True),
    _Extract(
        ("kernel_sum",),
        "Kernels",
        ("name", "busy_ratio", "busy_ns", "instances", "mean_ns", "max_ns"),
        5,
        is_about_cuda=True,
    ),
    _Extract(("nvtx_pushpop_sum", "nvtx_startend_sum"), "Ranges", _DURATIONS, 5),
    _Extract(
        ("copy_sum",),
        "Copies",
        ("direction", "memory", "busy_ns", "instances", "total_bytes", "bandwidth_bytes_per_s"),
        3,
        is_about_cuda=True,
    ),
    _Extract(("cuda_api_sum",), "CUDA calls", _DURATIONS, 3, is_about_cuda=True),
    _Extract(
        ("profiling_cost",),
        "Profiling cost",
        ("kind", "records", "mean_ns", "total_ns", "span_ratio", "step_ns"),
        4,
        is_told_if_missing=False,
    ),
    _Extract(("recording",), "What the recording holds", ("state", "table", "rows")),
)


_LAYERS = _Extract(
    ("layers",),
    "Layers",
    ("name", "calls", "host_median_ns", "device_median_ns", "kernels_per_call", "total_ratio"),
    8,
    is_told_if_missing=False,
    label="name",
)


def summary(trace: Trace, *, with_layers: bool = False) -> Document:
    """Compute what one screen can say about a trace.

    Its sections are the beginnings of the tables process_sum, device_sum, kernel_sum,
    nvtx_pushpop_sum (or nvtx_startend_sum), copy_sum, cuda_api_sum and, for a recording of ours,
    profiling_cost, and the table recording.
    A title says how many rows there are if some are left out. `with_layers` puts the beginning of
    the table layers, where there is one, before the last.
    """
    whole = document(trace, ())
    parts = (*_SUMMARY[:-1], _LAYERS, _SUMMARY[-1]) if with_layers else _SUMMARY
    sections = [(part, _extract(trace, part)) for part in parts]
    has_cuda = any(isinstance(item, Result) for part, item in sections if part.is_about_cuda)

    def is_told(part: _Extract) -> bool:
        # Without any CUDA, the first of its tables says so for all.
        is_repeated = part.is_about_cuda and not has_cuda and part.tables != _FIRST_ABOUT_CUDA
        return part.is_told_if_missing and not is_repeated

    shown = [
        section
        for part, section in sections
        if (isinstance(section, Result) and len(section)) or is_told(part)
    ]
    return replace(whole, sections=tuple(shown))


def _extract(trace: Trace, part: _Extract) -> Result | Skipped:
    found = [run(trace, table) for table in part.tables]
    full = next((item for item in found if isinstance(item, Result) and len(item)), found[0])
    if isinstance(full, Skipped):
        return full
    fields = {field.name: field for field in full.fields}
    title = part.title
    if part.rows is not None and len(full) > part.rows:
        title = f"{title}, {part.rows} of {len(full):,}"
    chosen = replace(
        full,
        title=title,
        fields=tuple(fields[name] for name in part.fields),
        columns={name: full.columns[name] for name in part.fields},
        key=(part.label,) if part.label else tuple(n for n in full.key if n in part.fields),
    )
    return chosen if part.rows is None else chosen.head(part.rows)


def export(
    trace: Trace,
    path: PathLike,
    format: str = "warpline",  # noqa: A002 - the word users know
    *,
    tables: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a trace, or a part of one, to a file or folder and return its path.

    Args:
        trace: From `warpline.open`, or a part of such a trace.
        path: Where to write. It is complete when it appears.
        format: Name of an exporter: warpline, sqlite, parquet, arrow, json or perfetto.
        tables: Names of the tables to write, which brings those that they refer to and the
            dimensions; None writes all that were recorded.
        overwrite: Whether a file that exists may be replaced; in a folder, files of the same name.

    Raises:
        UsageError: There is no such format or table, or the path is taken.
        MissingTableError: A table was never recorded.
        InputError: The file cannot be written.
    """
    from warpline.exporters import EXPORTERS  # noqa: PLC0415 - start-up: only exports need it
    from warpline.trace.recording import written_tables  # noqa: PLC0415 - likewise

    plugins.load("exporters")
    exporter = EXPORTERS.get(format)
    target = Path(path)
    for name in tables or ():
        if name not in TABLES:
            near = difflib.get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]}?" if near else "tables: " + ", ".join(TABLES)
            raise UsageError(f"there is no table {name!r}", hint=hint)
        trace.table(name)
    check_output(target, is_folder=exporter.is_folder, overwrite=overwrite)
    exporter.write(trace, target, written_tables(trace, tables))
    return target


def check_output(path: Path, *, is_folder: bool = False, overwrite: bool = False) -> None:
    """Refuse a place that cannot be written to: InputError, or that is taken: UsageError."""
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.exists() and path.is_dir() != is_folder:
        is_what, wanted = ("a file", "a folder") if is_folder else ("a folder", "a file")
        raise UsageError(f"{path} is {is_what}", hint=f"name {wanted}; this format writes one")
    if path.exists() and not path.is_dir() and not path.is_file():
        # To replace it, as a file is, would take a device from the whole system.
        raise UsageError(f"{path} is a device or a pipe", hint="name a file")
    is_taken = any(path.iterdir()) if path.is_dir() else path.exists()
    if is_taken and not overwrite:
        raise UsageError(f"{path} exists", hint="--force-overwrite replaces it")


def query(trace: Trace, sql: str) -> pl.DataFrame:
    """Return the answer to a SQL statement as a Polars DataFrame.

    Args:
        trace: From `warpline.open`, or a part of such a trace.
        sql: One SELECT over nsys's tables (``CUPTI_ACTIVITY_KIND_KERNEL``, ``StringIds``...), which
            SQLite runs, or over tables of the trace (``kernel``, ``range``...), which Polars runs.

    Raises:
        UsageError: The statement cannot be run; the message is that of the SQL engine.
    """
    import polars as pl  # noqa: PLC0415 - slow to import

    answer = _answer(trace, sql)
    names = _distinct(answer.names)
    return pl.DataFrame(answer.rows, schema=names, orient="row", infer_schema_length=None)


def query_document(trace: Trace, sql: str) -> Document:
    """Compute the answer to a SQL statement, as `query` does, for a renderer."""
    answer = _answer(trace, sql)
    names = _distinct(answer.names)
    columns = zip(*answer.rows, strict=True) if answer.rows else [() for _ in names]
    values = {name: column_of(column) for name, column in zip(names, columns, strict=True)}
    fields = tuple(Field(name, Unit.NONE, "A column of the statement.") for name in names)
    result = Result("query", "Answer", fields, values)
    return replace(document(trace, ()), sections=(result,), warnings=warnings_of(trace))


def _answer(trace: Trace, sql: str) -> Answer:
    from warpline.sql import run as run_sql  # noqa: PLC0415 - start-up: only queries need it

    return run_sql(trace, sql)


def _distinct(names: Sequence[str]) -> list[str]:
    """Number the names that repeat: SQL lets columns share one, a table does not."""
    found: list[str] = []
    for name in names:
        count, wanted = 1, name
        while wanted in found:
            count += 1
            wanted = f"{name}_{count}"
        found.append(wanted)
    return found


def formats() -> list[dict[str, Any]]:
    """Return the file formats that can be read: name, doc and usual extensions."""
    plugins.load("readers")
    return [
        {"name": item.name, "doc": item.doc, "extensions": list(item.extensions)}
        for item in READERS
    ]
