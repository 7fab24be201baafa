"""The functions that the command line and notebooks call."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from warpline import plugins, progress
from warpline.errors import CorruptTraceError, InputError, MissingTableError, UsageError
from warpline.files import check_output
from warpline.result import (
    ANALYSES,
    Analysis,
    Diagnosis,
    Document,
    Field,
    Finding,
    Result,
    Skipped,
    column_of,
    cuda_unrecorded,
    describe_meta,
    source_name,
    warnings_of,
)
from warpline.result.display import DISPLAY
from warpline.schema import TABLES
from warpline.trace import READERS, Run, TableSource, Trace, read, selection
from warpline.trace.duplicates import refuse_same_files, refuse_same_runs
from warpline.trace.reading import files_of
from warpline.trace.selection import Words
from warpline.units import Unit

if TYPE_CHECKING:
    import polars as pl

    from warpline.sql import Answer
    from warpline.viewer.pack import TableOfStats
    from warpline.viewer.report import FirstPage, Inline, Report
    from warpline.viewer.server import PageServer

PathLike: TypeAlias = str | os.PathLike[str]
# The first argument of most functions below: an open trace, a file, or several files.
Recordings: TypeAlias = Trace | PathLike | Sequence[PathLike]

T = TypeVar("T")

FILTER_HINT = "widen or remove the filters"
_OF_CUDA = frozenset({"kernel", "memcpy", "memset", "graph_launch", "api_call"})


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
    files = [file for path in named for file in files_of(path)]
    refuse_same_files(files)
    sources = _read_all(files)
    if len(sources) == 1:
        return Trace(sources[0])
    refuse_same_runs(sources)
    from warpline.derived.ranks.clocks import aligned  # noqa: PLC0415 - start-up

    with progress.task("Aligning clocks"):
        return aligned(sources)


def _read_all(files: Sequence[Path]) -> list[TableSource]:
    if len(files) == 1:
        return [read(files[0])]
    sources = []
    with progress.task("Reading recordings", len(files)) as advance:
        for file in files:
            sources.append(read(file))
            advance(1)
    return sources


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


def split_name(text: str) -> tuple[Analysis, tuple[str, ...]]:
    """Parse ``NAME[:ARG]...`` into an analysis and its arguments.

    Raises:
        UsageError: There is no such table or argument.
    """
    plugins.load("analyses")
    name, *arguments = text.split(":")
    found = ANALYSES.get(name)
    for argument in arguments:
        if argument.split("=")[0] not in found.arguments:
            known = ", ".join(found.arguments) or "none"
            raise UsageError(
                f"unknown argument {argument!r} of table {found.name!r}",
                hint=f"arguments: {known}",
            )
    return found, tuple(arguments)


def stats(trace: Recordings, table: str) -> Result:
    """Compute one table.

    Args:
        trace: A trace, a path, or a list of paths. To compute several tables, open the trace once
            with `warpline.open`.
        table: Its name, as in `warpline stats -r`: ``cuda_gpu_kern_sum:base``.

    Raises:
        UsageError: There is no such table or argument.
        MissingTableError: The recording lacks the events that the table needs.
    """
    result = run(trace, table)
    if isinstance(result, Skipped):
        raise MissingTableError(f"{result.name}: {result.reason}", hint=result.hint)
    return result


def run(trace: Recordings, table: str) -> Result | Skipped:
    """Compute one table, or return why the trace has no data for it."""
    found, arguments = split_name(table)
    trace = opened(trace)
    if found.needs and not any(trace.has(need) and trace.row_count(need) for need in found.needs):
        return _skipped(trace, table, found)
    return found.compute(trace, arguments)


def _skipped(trace: Trace, table: str, found: Analysis) -> Skipped:
    if not any(trace.has(need) for need in found.needs) and _OF_CUDA.intersection(found.needs):
        for cause in cuda_unrecorded(trace):
            return Skipped(table, f"CUDA was not recorded: {cause.why}", cause.hint)
    hint = FILTER_HINT if _is_filtered_out(trace, found.needs) else found.missing_hint
    return Skipped(table, _reason(trace, found), hint)


def _is_filtered_out(trace: Trace, needs: Sequence[str]) -> bool:
    """Return whether the recording has rows of these tables, but a filter excludes them all."""
    whole = trace.unfiltered()
    return not trace.is_whole and any(whole.has(need) and whole.row_count(need) for need in needs)


def _reason(trace: Trace, found: Analysis) -> str:
    events = " or ".join(need.replace("_", " ") for need in found.needs)
    if _is_filtered_out(trace, found.needs):
        return f"the filters exclude all {events} events"
    recorded = any(trace.has(need) for need in found.needs)
    return f"no {events} events" + ("" if recorded else " were recorded")


def default_tables() -> list[str]:
    """Return the tables that `warpline stats` prints by default, in order."""
    plugins.load("analyses")
    ranked = [(item.default_rank, item.name) for item in ANALYSES if item.default_rank is not None]
    return [name for _, name in sorted(ranked)]


def document(trace: Recordings, tables: Sequence[str], *, keep_going: bool = False) -> Document:
    """Compute several tables for a renderer.

    Args:
        trace: A trace, a path, or a list of paths.
        tables: Names, with arguments.
        keep_going: If a table fails because of a defect or damaged data, mark it as failed and
            compute the others. Other errors of the file or the arguments are raised.
    """
    whole = opened(trace)
    compute = _run_or_mark if keep_going else run
    # Warnings come last: computing the tables reads the data that they are about.
    sections: list[Result | Skipped] = []
    with progress.task("Computing tables", len(tables)) as advance:
        for table in tables:
            sections.append(compute(whole, table))
            advance(1)
    return Document(
        source_name(whole.meta.paths), describe_meta(whole), tuple(sections), warnings_of(whole)
    )


def analyze(trace: Recordings, *, steps: str | None = None, keep_going: bool = False) -> Diagnosis:
    """Compute where the time of a run went, and find performance problems.

    Args:
        trace: A trace or a part of one, a path, or a list of paths. Several recordings, such as one
            per rank, are one run.
        steps: Name of the NVTX ranges that are steps, or a pattern such as ``epoch_*``. None
            detects steps.
        keep_going: If a rule fails because of a defect, list it among the rules without a result
            (`Diagnosis.not_judged`) instead of raising the error.

    Returns:
        The content of `warpline analyze`. `Diagnosis.to_dict` is its JSON.

    Raises:
        UsageError: There are no ranges of that name.
    """
    plugins.load("analyses")
    from warpline.diagnosis.diagnose import diagnose  # noqa: PLC0415 - after the plugins

    whole = opened(trace)
    with progress.task("Analyzing"):
        return diagnose(Run(whole, steps), _or_skip if keep_going else _or_raise)


# The tables of a report, in this order, where the recording has data for them.
_REPORT_TABLES = (
    *("cuda_gpu_kern_sum", "kernel_class_sum", "cuda_gpu_kern_gb_sum", "cuda_kern_exec_sum"),
    *("cuda_api_sum", "cuda_api_gpu_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
    *("copy_sum", "phases", "layers", "range_gpu_sum", "nvtx_sum", "op_sum", "op_kern_sum"),
    *("memory_peak", "collective_kern_sum", "collective_waits", "stragglers", "osrt_sum"),
    *("steps", "step_differences", "breakdown", "overlap", "device_sum", "process_sum"),
    *("recording", "profiling_cost"),
)


def report(
    trace: Recordings,
    path: PathLike,
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a report: one HTML file with verdict, findings, tables and the whole timeline.

    The file is self-contained. It opens offline and makes no network requests.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        path: Output file. It appears when it is complete. If the name ends in ``.zip``, the report
            is written into an archive, which passes mail filters that reject HTML.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        max_bytes: Size limit in bytes. A larger report omits short events and states which.
            Totals, tables and findings always cover the whole recording.
        overwrite: Whether to replace an existing file.

    Returns:
        The path of the report.

    Raises:
        UsageError: The file exists, or the report cannot be made that small.
        InputError: The file cannot be written.
    """
    from warpline.viewer.report import write  # noqa: PLC0415 - start-up

    target = Path(path)
    check_output(target, overwrite=overwrite)
    write(target, make_report(trace, steps=steps, max_bytes=max_bytes).pieces)
    return target


def make_report(
    trace: Recordings,
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    first_page: FirstPage = "overview",
) -> Report:
    """Return the HTML that `report` writes, and its size.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        max_bytes: Size limit in bytes.
        first_page: The page that opens first.

    Raises:
        UsageError: The report cannot be made that small.
    """
    from warpline.viewer import report as made  # noqa: PLC0415 - start-up

    whole = opened(trace)
    diagnosis, tables = _to_view(whole, steps)
    with progress.task("Writing the report"):
        return made.make_report(
            Run(whole, steps), diagnosis, tables, max_bytes=max_bytes, first_page=first_page
        )


def serve(
    trace: Recordings,
    *,
    steps: str | None = None,
    port: int = 0,
    tile_from: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> PageServer:
    """Return a server of the report for a browser on this machine. It is not running yet.

    A recording with too many events for one page is shown as tiles, which the page fetches while
    the user moves through it. Its diagnosis is computed while the server runs. The page shows when
    it is ready.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        port: Port to listen on; 0 takes a free one.
        tile_from: Number of events from which tiles are used; None for several million.
        tell: Called with progress messages of long operations.

    Raises:
        InputError: The port is in use, or there is no disk space for the tiles.
    """
    from warpline.viewer import serving  # noqa: PLC0415 - start-up

    whole = opened(trace)
    return serving.page_server(
        Run(whole, steps),
        partial(_to_view, whole, steps),
        port=port,
        tile_from=serving.TILE_FROM if tile_from is None else tile_from,
        tell=tell,
    )


def timeline(
    trace: Recordings,
    *,
    steps: str | None = None,
    height: int = 720,
    max_bytes: int | None = 10_000_000,
) -> Inline:
    """Return the report for a notebook, opened at its timeline. It is displayed below the cell.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        height: Height of the frame in pixels.
        max_bytes: Limit on the growth of the saved notebook. A larger report omits short events and
            states which. None keeps all events.

    Raises:
        UsageError: The report cannot be made that small.
    """
    from warpline.viewer.report import Inline  # noqa: PLC0415 - start-up

    made = make_report(trace, steps=steps, max_bytes=max_bytes, first_page="timeline")
    return Inline("".join(made.pieces), height)


def _to_view(trace: Trace, steps: str | None) -> tuple[Diagnosis, list[TableOfStats]]:
    """Return the diagnosis and the tables of a report, without tables that fail."""
    from warpline.viewer.pack import TableOfStats  # noqa: PLC0415 - start-up

    diagnosis = analyze(trace, steps=steps, keep_going=True)
    recordings = shlex.join(path.name for path in trace.meta.paths)
    found = []
    with progress.task("Computing tables", len(_REPORT_TABLES)) as advance:
        for name in _REPORT_TABLES:
            found.append(_run_or_skip(trace, name))
            advance(1)
    tables = [
        TableOfStats(item, f"warpline stats -r {item.name} {recordings}")
        for item in found
        if isinstance(item, Result) and len(item)
    ]
    return diagnosis, tables


def _run_or_mark(trace: Trace, table: str) -> Result | Skipped:
    """Compute a table. A defect, or damaged data, becomes a Skipped that is marked as failed."""
    try:
        return _run_or_skip(trace, table)
    except CorruptTraceError as error:
        return Skipped(table, error.message, error.hint, is_failure=True)


def _run_or_skip(trace: Trace, table: str) -> Result | Skipped:
    return _or_skip(table, partial(run, trace, table))


def _or_skip(name: str, compute: Callable[[], T]) -> T | Skipped:
    """Compute a table or a rule. A defect becomes a Skipped that is marked as failed."""
    try:
        return compute()
    except (InputError, UsageError):
        raise
    except Exception as error:  # noqa: BLE001 - one failing table must not prevent the others
        reason = f"internal error: {type(error).__name__}: {error}"
        hint = "report this bug; --debug shows the traceback"
        return Skipped(name, reason, hint, is_failure=True)


def _or_raise(name: str, compute: Callable[[], T]) -> T | Skipped:
    return compute()


@dataclass(frozen=True)
class _Extract:
    """The part of a table that `summary` shows: its first rows and some columns."""

    tables: tuple[str, ...]  # the first one with rows is used
    title: str
    fields: tuple[str, ...]
    rows: int | None = None
    is_shown_if_missing: bool = True
    is_about_cuda: bool = False
    label: str | None = None  # the field that labels a row; None: the table's key


_FIRST_ABOUT_CUDA = ("device_sum",)
_DEVICE = ("gpu_index", "name", "busy_ratio", "busy_ns", "idle_ns")
_DEVICE_COUNTS = ("kernels", "copies", "memsets", "graphs")
_DURATIONS = ("name", "instances", "total_ns", "median_ns", "max_ns")
_SUMMARY = (
    _Extract(("process_sum",), "Processes", ("pid", "name", "calls", "kernels", "ranges"), 5),
    _Extract(_FIRST_ABOUT_CUDA, "GPUs", (*_DEVICE, *_DEVICE_COUNTS), 4, is_about_cuda=True),
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
    _Extract(("cuda_api_sum",), "CUDA API calls", _DURATIONS, 3, is_about_cuda=True),
    _Extract(
        ("profiling_cost",),
        "Profiling overhead",
        ("kind", "records", "mean_ns", "total_ns", "span_ratio", "step_ns"),
        4,
        is_shown_if_missing=False,
    ),
    _Extract(("recording",), "Recording content", ("state", "table", "rows")),
)


_LAYERS = _Extract(
    ("layers",),
    "Layers",
    ("name", "calls", "host_median_ns", "device_median_ns", "kernels_per_call", "total_ratio"),
    8,
    is_shown_if_missing=False,
    label="name",
)


def summary(trace: Recordings, *, with_layers: bool = False) -> Document:
    """Compute a summary of a trace that fits on one screen.

    Its sections are the first rows of the tables process_sum, device_sum, kernel_sum,
    nvtx_pushpop_sum (or nvtx_startend_sum), copy_sum, cuda_api_sum and, for Warpline's own
    recordings, profiling_cost, followed by the table recording. If rows are omitted, the title
    gives their total number.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        with_layers: Whether to add the first rows of the table layers, if it has any.
    """
    trace = opened(trace)
    whole = document(trace, ())
    parts = (*_SUMMARY[:-1], _LAYERS, _SUMMARY[-1]) if with_layers else _SUMMARY
    sections = []
    with progress.task("Computing the summary", len(parts)) as advance:
        for part in parts:
            sections.append((part, _extract(trace, part)))
            advance(1)
    has_cuda = any(isinstance(item, Result) for part, item in sections if part.is_about_cuda)

    def is_shown(part: _Extract) -> bool:
        # Without any CUDA events, the first CUDA table states that for all.
        is_repeated = part.is_about_cuda and not has_cuda and part.tables != _FIRST_ABOUT_CUDA
        return part.is_shown_if_missing and not is_repeated

    shown = [
        section
        for part, section in sections
        if (isinstance(section, Result) and len(section)) or is_shown(part)
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
    trace: Recordings,
    path: PathLike,
    format: str = "warpline",  # noqa: A002 - the word users know
    *,
    tables: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a trace, or a part of one, to a file or directory.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        path: Output file or directory. It appears when it is complete.
        format: Name of an export format: warpline, sqlite, parquet, arrow, json or perfetto.
        tables: Names of the tables to write. Tables that they refer to, and dimension tables, are
            always included. None writes all recorded tables.
        overwrite: Whether to replace an existing file; in a directory, files of the same name.

    Returns:
        The path of the file or directory.

    Raises:
        UsageError: There is no such format or table, or the output exists.
        MissingTableError: A table was not recorded.
        InputError: The output cannot be written.
    """
    from warpline.exporters import EXPORTERS  # noqa: PLC0415 - start-up: only exports need it
    from warpline.trace.recording import written_tables  # noqa: PLC0415 - likewise

    plugins.load("exporters")
    exporter = EXPORTERS.get(format)
    target, whole = Path(path), opened(trace)
    for name in tables or ():
        if name not in TABLES:
            near = difflib.get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]}?" if near else "tables: " + ", ".join(TABLES)
            raise UsageError(f"unknown table {name!r}", hint=hint)
        whole.table(name)
    check_output(target, is_folder=exporter.is_folder, overwrite=overwrite)
    with progress.task(f"Writing {target.name}"):
        exporter.write(whole, target, written_tables(whole, tables))
    return target


def query(trace: Recordings, sql: str) -> pl.DataFrame:
    """Run a SQL query and return its result as a Polars DataFrame.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        sql: One SELECT over nsys tables (``CUPTI_ACTIVITY_KIND_KERNEL``, ``StringIds``...), which
            SQLite runs, or over tables of the trace (``kernel``, ``range``...), which Polars runs.

    Raises:
        UsageError: The query fails. The message is that of the SQL engine.
    """
    import polars as pl  # noqa: PLC0415 - slow to import

    answer = _answer(opened(trace), sql)
    names = _distinct(answer.names)
    return pl.DataFrame(answer.rows, schema=names, orient="row", infer_schema_length=None)


def query_document(trace: Recordings, sql: str) -> Document:
    """Run a SQL query, as `query` does, for a renderer."""
    trace = opened(trace)
    answer = _answer(trace, sql)
    names = _distinct(answer.names)
    columns = zip(*answer.rows, strict=True) if answer.rows else [() for _ in names]
    values = {name: column_of(column) for name, column in zip(names, columns, strict=True)}
    fields = tuple(Field(name, Unit.NONE, "A column of the query.") for name in names)
    result = Result("query", "Query result", fields, values)
    return replace(document(trace, ()), sections=(result,), warnings=warnings_of(trace))


def _answer(trace: Trace, sql: str) -> Answer:
    from warpline.sql import run as run_sql  # noqa: PLC0415 - start-up: only queries need it

    with progress.task("Running the query"):
        return run_sql(trace, sql)


def _distinct(names: Sequence[str]) -> list[str]:
    """Number repeated names: SQL allows columns of the same name, a table does not."""
    found: list[str] = []
    for name in names:
        count, wanted = 1, name
        while wanted in found:
            count += 1
            wanted = f"{name}_{count}"
        found.append(wanted)
    return found


def formats() -> list[dict[str, Any]]:
    """Return the supported input formats: name, doc and usual extensions."""
    plugins.load("readers")
    return [
        {"name": item.name, "doc": item.doc, "extensions": list(item.extensions)}
        for item in READERS
    ]


def _as_text(shown: Document | Finding) -> str:
    from warpline.render import display  # noqa: PLC0415 - start-up: only shells need it

    plugins.load("renderers")
    return display.text(shown)


def _as_html(shown: Document | Finding) -> str:
    from warpline.render import display  # noqa: PLC0415 - likewise

    return display.html(shown)


DISPLAY.text, DISPLAY.html = _as_text, _as_html
