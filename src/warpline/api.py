"""The functions that the command line and notebooks call."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from warpline import plugins, progress
from warpline.documents import summary as summaries
from warpline.documents import tables
from warpline.errors import MissingTableError, UsageError
from warpline.files import check_output, complete_file
from warpline.lazy import lazy
from warpline.result import Analysis, Document, Result, Skipped
from warpline.result.display import DISPLAY
from warpline.trace import READERS, Run, Trace, selection
from warpline.trace.reading import read_all
from warpline.trace.selection import Words

if TYPE_CHECKING:
    import polars as pl

    from warpline import exporters
    from warpline import sql as queries
    from warpline.comparison import gate as judging
    from warpline.comparison import statistics
    from warpline.comparison import summary as summaries_of_runs
    from warpline.comparison.limits import Limit
    from warpline.comparison.summary import Summary
    from warpline.derived.flame import weighted as stack_weights
    from warpline.derived.flame.weighted import Choice
    from warpline.derived.memory.labels import By
    from warpline.derived.ranks import clocks
    from warpline.documents import comparison, diagnosis
    from warpline.documents import flame as flame_tables
    from warpline.documents import flame_page as flame_pages
    from warpline.documents import gate as gates
    from warpline.documents import graphcheck as graph_checks
    from warpline.documents import kernel_comparison as of_kernels
    from warpline.documents import kernel_report as kernel_reports
    from warpline.documents import markdown_report as markdown_reports
    from warpline.documents import memory as memory_tables
    from warpline.documents import memory_page as memory_pages
    from warpline.documents import report as reports
    from warpline.documents import sides as two
    from warpline.documents.comparison import Measured
    from warpline.documents.kernel_comparison import Counted
    from warpline.documents.kernel_report import Shown
    from warpline.hardware.measured import MeasuredCeilings
    from warpline.presentation import flame as flame_blocks
    from warpline.presentation import memory as memory_blocks
    from warpline.render import display
    from warpline.render.diagnosis import markdown as diagnosis_markdown
    from warpline.result import Diagnosis, Finding, rules
    from warpline.result import kernel_comparison as counted
    from warpline.result.comparison import Comparison
    from warpline.result.gate import Gate
    from warpline.result.graphcheck import GraphCheck
    from warpline.result.kernel_comparison import KernelComparison
    from warpline.trace import framework_records
    from warpline.viewer import chosen as choosing
    from warpline.viewer import flame_report as flame_page
    from warpline.viewer import kernel_report as kernel_page
    from warpline.viewer import memory_report as memory_page
    from warpline.viewer import page as html
    from warpline.viewer import picture as pictures
    from warpline.viewer import report as pages
    from warpline.viewer import screenshot as screenshots
    from warpline.viewer import serving
    from warpline.viewer.report import FirstPage, Inline, Report
    from warpline.viewer.server import PageServer
else:
    exporters = lazy("warpline.exporters")
    queries = lazy("warpline.sql")
    judging = lazy("warpline.comparison.gate")
    statistics = lazy("warpline.comparison.statistics")
    summaries_of_runs = lazy("warpline.comparison.summary")
    stack_weights = lazy("warpline.derived.flame.weighted")
    clocks = lazy("warpline.derived.ranks.clocks")
    comparison = lazy("warpline.documents.comparison")
    gates = lazy("warpline.documents.gate")
    graph_checks = lazy("warpline.documents.graphcheck")
    of_kernels = lazy("warpline.documents.kernel_comparison")
    diagnosis = lazy("warpline.documents.diagnosis")
    flame_tables = lazy("warpline.documents.flame")
    flame_pages = lazy("warpline.documents.flame_page")
    memory_tables = lazy("warpline.documents.memory")
    memory_pages = lazy("warpline.documents.memory_page")
    reports = lazy("warpline.documents.report")
    kernel_reports = lazy("warpline.documents.kernel_report")
    markdown_reports = lazy("warpline.documents.markdown_report")
    two = lazy("warpline.documents.sides")
    counted = lazy("warpline.result.kernel_comparison")
    rules = lazy("warpline.result.rules")
    flame_blocks = lazy("warpline.presentation.flame")
    memory_blocks = lazy("warpline.presentation.memory")
    display = lazy("warpline.render.display")
    framework_records = lazy("warpline.trace.framework_records")
    diagnosis_markdown = lazy("warpline.render.diagnosis.markdown")
    flame_page = lazy("warpline.viewer.flame_report")
    choosing = lazy("warpline.viewer.chosen")
    pages = lazy("warpline.viewer.report")
    html = lazy("warpline.viewer.page")
    kernel_page = lazy("warpline.viewer.kernel_report")
    memory_page = lazy("warpline.viewer.memory_report")
    pictures = lazy("warpline.viewer.picture")
    screenshots = lazy("warpline.viewer.screenshot")
    serving = lazy("warpline.viewer.serving")

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
    return tables.split_name(text)


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
    tables.split_name(table)  # a mistyped name fails before a large file is read
    return tables.compute(opened(trace), table)


def default_tables() -> list[str]:
    """Return the tables that `warpline stats` prints by default, in order."""
    return tables.default_tables()


def document(trace: Recordings, names: Sequence[str], *, keep_going: bool = False) -> Document:
    """Compute several tables for a renderer.

    Args:
        trace: A trace, a path, or a list of paths.
        names: Tables, with arguments.
        keep_going: If a table fails because of a defect or damaged data, mark it as failed and
            compute the others. Other errors of the file or the arguments are raised.
    """
    return tables.document(opened(trace), names, keep_going=keep_going)


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
    return diagnosis.diagnosis(Run(opened(trace), steps), keep_going=keep_going)


def compare(
    before: Side,
    after: Side,
    *,
    steps: str | None = None,
    tolerance: float | None = None,
    paired: bool = False,
    tables: Sequence[str] = (),
    keep_going: bool = False,
) -> Comparison:
    """Compare two sides: what differs, whether it is noise, and why.

    Args:
        before: A trace, a path, or a list: several runs, or the ranks of one or several. Of
            a list of paths, recordings with distinct ranks are one run; each trace is a run.
        after: The other side. Any format on either side.
        steps: Name of the NVTX ranges that are steps, or a pattern such as ``epoch_*``. None
            detects steps.
        tolerance: Relative difference of the step time that counts as the same: 0.02 is 2%. None
            takes the default.
        paired: Whether runs were made in turn, so that the first of each side belong together.
        tables: Tables to compare by their keys, as in `stats`: ``cuda_api_sum``.
        keep_going: If a rule fails because of a defect, leave it out instead of raising the error.

    Returns:
        The content of `warpline compare`. `Comparison.to_dict` is its JSON.

    Raises:
        UsageError: There are no ranges or tables of that name, the tolerance is not between 0 and
            1, or paired sides have different numbers of runs.
    """
    found = compared(
        before,
        after,
        steps=steps,
        tolerance=tolerance,
        paired=paired,
        tables=tables,
        keep_going=keep_going,
    )
    if isinstance(found, counted.KernelComparison):
        raise UsageError(
            "these are counters of kernels, without a timeline", hint="use warpline.compare_kernels"
        )
    return found


def compare_kernels(
    before: Side,
    after: Side,
    *,
    tolerance: float | None = None,
    paired: bool = False,
    tables: Sequence[str] = (),
    keep_going: bool = False,
) -> KernelComparison:
    """Compare the profiled kernels of two sides: times of launches, metrics, findings.

    Args:
        before: A trace, a path, or a list: several runs. Recordings of counters, or reports of
            Nsight Compute.
        after: The other side.
        tolerance: As for `compare`.
        paired: As for `compare`.
        tables: As for `compare`.
        keep_going: As for `compare`.

    Returns:
        The content of `warpline compare` for counters. `KernelComparison.to_dict` is its JSON.

    Raises:
        UsageError: As `compare` does, or a side has a timeline.
    """
    found = compared(
        before, after, tolerance=tolerance, paired=paired, tables=tables, keep_going=keep_going
    )
    if not isinstance(found, counted.KernelComparison):
        raise UsageError("these are timelines, without counters", hint="use warpline.compare")
    return found


def compared(
    before: Side,
    after: Side,
    *,
    steps: str | None = None,
    tolerance: float | None = None,
    paired: bool = False,
    tables: Sequence[str] = (),
    keep_going: bool = False,
) -> Comparison | KernelComparison:
    """Compare two sides as `compare` or, of counters without a timeline, `compare_kernels` does."""
    limit = statistics.DEFAULT_TOLERANCE if tolerance is None else tolerance
    if not 0 < limit < 1:
        raise UsageError(f"tolerance {limit:g} is not between 0 and 1", hint="0.02 stands for 2%")
    for table in tables:
        split_name(table)  # a mistyped name fails before a large file is read
    timelines: tuple[list[Measured], ...] = ([], [])
    counters: tuple[list[Counted], ...] = ([], [])
    for place, side in enumerate((before, after)):
        for trace in _runs(side):
            is_first = not (timelines[place] or counters[place])
            names = tables if is_first else ()  # of several runs, the first one's
            if of_kernels.is_counted(trace):
                counters[place].append(of_kernels.counted(trace, names, keep_going=keep_going))
            else:
                run = Run(trace, steps)
                timelines[place].append(comparison.measured(run, names, keep_going=keep_going))
                del run
            del trace
            gc.collect()  # one recording at a time in memory: what is derived refers to its trace
            if any(timelines) and any(counters):
                raise UsageError(
                    "counters of kernels cannot be compared with a timeline",
                    hint="name two timelines, or two recordings or reports of counters",
                )
    if any(counters):
        return of_kernels.comparison(*counters, tolerance=limit, paired=paired)
    return comparison.comparison(*timelines, tolerance=limit, paired=paired)


def summarize(recordings: Side, *, steps: str | None = None, keep_going: bool = False) -> Summary:
    """Return what a baseline keeps of one or several runs.

    Args:
        recordings: A trace, a path, or a list of paths: several runs, or the ranks of one or
            several. Recordings with distinct ranks are one run.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        keep_going: If a rule fails because of a defect, leave it out instead of raising the error.

    Raises:
        UsageError: There are no ranges of that name, or a run has neither GPU work nor steps.
    """
    runs = []
    for trace in _runs(recordings):
        runs.append(gates.summary(Run(trace, steps), keep_going=keep_going))
        del trace
        gc.collect()  # one recording at a time in memory
    title = runs[0].title if len(runs) == 1 else f"{len(runs)} runs of {runs[0].title}"
    return summaries_of_runs.joined(title, runs)


def gate(before: Summary, after: Summary, limits: Sequence[Limit], *, paired: bool = False) -> Gate:
    """Return whether metrics of the second side stay within limits that the first one sets.

    Args:
        before: The side that the limits are relative to.
        after: The other side.
        limits: Of `warpline.comparison.limits.parse`.
        paired: Whether runs were made in turn, so that the first of each side belong together.

    Raises:
        UsageError: There is no rule of the name that a limit of findings has.
    """
    plugins.load("analyses")
    known = [
        item._replace(pattern=rules.RULES.get(item.pattern).name) if item.is_rule else item
        for item in limits
    ]
    return judging.judge(before, after, known, paired=paired)


def graphcheck(trace: Recordings, *, steps: str | None = None) -> GraphCheck:
    """Check whether the steps of a recording may be captured as a CUDA graph.

    Args:
        trace: A trace or a part of one, a path, or a list of paths. With lines if it was recorded
            with Python backtraces.
        steps: As for `analyze`.

    Returns:
        The content of `warpline graphcheck`. `GraphCheck.to_dict` is its JSON.

    Raises:
        UsageError: There are no ranges of that name.
    """
    with progress.task("Checking"):
        return graph_checks.graphcheck(Run(opened(trace), steps))


def _runs(side: Side) -> Iterator[Trace]:
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


def report(
    trace: Recordings,
    path: PathLike,
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    overwrite: bool = False,
    page: Shown | None = None,
) -> Path:
    """Write a report: one HTML file with verdict, findings, tables and the whole timeline.

    If the name ends in ``.md``, it is one page of Markdown to paste into an issue: environment,
    verdict, where the time goes, top kernels and operators, findings, and what was not recorded.

    Of counters per kernel, such as a report of Nsight Compute, it shows a summary of the kernels,
    the findings and sections of each, and their source.

    The file is self-contained. It opens offline and makes no network requests.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        path: Output file. It appears when it is complete. If the name ends in ``.zip``, the report
            is written into an archive, which passes mail filters that reject HTML.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        max_bytes: Size limit in bytes. A larger report omits short events and states which.
            Totals, tables and findings always cover the whole recording.
        overwrite: Whether to replace an existing file.
        page: ``timeline`` or ``kernels``. None takes the timeline if the recording has one.

    Returns:
        The path of the report.

    Raises:
        UsageError: The file exists, the report cannot be made that small, or the recording has no
            such page.
        InputError: The file cannot be written.
        MissingTableError: The recording has no timeline, for Markdown.
    """
    target = Path(path)
    check_output(target, overwrite=overwrite)
    if target.suffix.lower() == ".md":
        text = make_markdown_report(trace, steps=steps)
        with complete_file(target) as unfinished:
            unfinished.write_text(text, "utf-8")
        return target
    made = make_report(trace, steps=steps, max_bytes=max_bytes, page=page)
    pages.write(target, made.pieces)
    return target


def make_markdown_report(trace: Recordings, *, steps: str | None = None) -> str:
    """Return the report that `report` writes to a file whose name ends in ``.md``.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.

    Raises:
        MissingTableError: The recording has no timeline.
    """
    content = markdown_reports.content(Run(opened(trace), steps))
    return diagnosis_markdown.report_text(*content)


def make_picture(
    trace: Recordings, *, select: str | None = None, steps: str | None = None, is_png: bool = False
) -> bytes:
    """Return a part of the timeline as an SVG or PNG image.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        select: The part: ``step:3``, ``finding:1``, or ``10ms-20ms``. None takes all GPU work.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        is_png: Whether to draw a PNG with the report's page in a headless Chromium.

    Raises:
        UsageError: There is no such step, finding or time.
        WarplineError: Playwright or Chromium is missing.
    """
    if is_png:
        screenshots.require_playwright()
    run = Run(opened(trace), steps)
    diagnose = partial(diagnosis.diagnosis, run, keep_going=True)
    chosen = choosing.choose(run, select, diagnose)
    if not is_png:
        return pictures.picture(run, chosen).encode()
    report = pages.make_report(run, diagnose(), first_page="timeline")
    with progress.task("Drawing the timeline"):
        return screenshots.screenshot(report.pieces, chosen)


def make_report(
    trace: Recordings,
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    first_page: FirstPage = "overview",
    page: Shown | None = None,
    measured: Sequence[MeasuredCeilings] = (),
) -> Report:
    """Return the HTML that `report` writes, and its size.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        max_bytes: Size limit in bytes.
        first_page: The page of the timeline that opens first.
        page: As for `report`.
        measured: What `warpline bench` measured, for profiled kernels on these GPUs.

    Raises:
        UsageError: The report cannot be made that small, or the recording has no such page.
    """
    shown_trace = opened(trace)
    if kernel_reports.shown(shown_trace, page) == "kernels":
        content = kernel_reports.content(shown_trace, measured=measured)
        with progress.task("Writing the report"):
            return kernel_page.make_kernel_report(
                content, html.assets("kernels"), max_bytes=max_bytes
            )
    run = Run(shown_trace, steps)
    judged, shown = reports.content(run)
    with progress.task("Writing the report"):
        return pages.make_report(run, judged, shown, max_bytes=max_bytes, first_page=first_page)


def memory(trace: Recordings, *, by: By | None = None, steps: str | None = None) -> Document:
    """Return who holds the memory of GPUs: at the peak, by phase, from step to step; findings.

    Args:
        trace: A trace, a path, or a list of paths.
        by: What holders are named after: ``line``, ``module``, ``operator`` or ``kind``. None takes
            all of them.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.

    Raises:
        MissingTableError: No allocations were recorded.
    """
    return memory_tables.document(Run(opened(trace), steps), by)


def compare_memory(before: Document, after: Document) -> Document:
    """Return the differences of two documents of `memory`, the largest first."""
    return memory_tables.compared(before, after)


def make_memory_report(
    traces: Sequence[Trace], *, by: By | None = None, steps: str | None = None
) -> Report:
    """Return a page with all blocks at every moment, of one recording or of two.

    Args:
        traces: The recording, or those before and after.
        by: As for `memory`; also what the layers are named after at first.
        steps: As for `memory`.

    Raises:
        MissingTableError: No allocations were recorded.
    """
    found = [memory(trace, by=by, steps=steps) for trace in traces]
    if len(found) == 1:
        blocks = memory_blocks.on_page(found[0])
    else:
        blocks = memory_blocks.on_page_of_two(compare_memory(*found))
    runs = [Run(trace, steps) for trace in traces]
    content = memory_pages.content(runs, by, blocks)
    with progress.task("Writing the page"):
        return memory_page.make_memory_report(content, html.assets("memory"))


def stack_choice(
    trace: Recordings,
    of: str | None = None,
    *,
    python_only: bool = False,
    threads: Sequence[str] = (),
) -> Choice:
    """Return which stacks a flame graph or an export of stacks has.

    Args:
        trace: A trace, a path, or a list of paths.
        of: What stacks are weighted by: ``cpu``, ``python``, ``gpu``, ``offcpu`` or ``os``. None
            takes the first that was recorded.
        python_only: Whether to keep only Python frames, with the kernels and OS calls below.
        threads: Thread ids, or parts of thread names; none for all threads.

    Raises:
        UsageError: There is no such kind or thread.
        MissingTableError: The recording has no stacks of this kind.
    """
    return stack_weights.choose(opened(trace), of, python_only=python_only, threads=threads)


def flame(trace: Recordings, stacks: Choice | None = None) -> Document:
    """Return where the time of stacks goes, by function.

    Args:
        trace: A trace, a path, or a list of paths.
        stacks: From `stack_choice`; None takes the first kind that was recorded.

    Raises:
        MissingTableError: The recording has no stacks.
    """
    one = opened(trace)
    return flame_tables.document(one, stacks or stack_choice(one))


def make_flame_report(trace: Recordings, stacks: Choice | None = None) -> Report:
    """Return a page with the flame graphs of all kinds of stacks that were recorded.

    Args:
        trace: A trace, a path, or a list of paths.
        stacks: What is shown at first, from `stack_choice`. Its threads are the only ones.

    Raises:
        MissingTableError: The recording has no stacks.
    """
    one = opened(trace)
    choice = stacks or stack_choice(one)
    content = flame_pages.content(one, choice, flame_blocks.on_page(flame(one, choice)))
    with progress.task("Writing the page"):
        return flame_page.make_flame_report(content, html.assets("flame"))


def make_side_by_side(
    before: Side,
    after: Side,
    *,
    steps: str | None = None,
    paired: bool = False,
    max_bytes: int | None = None,
    keep_going: bool = False,
) -> list[str]:
    """Return one page with the comparison of two sides and both timelines, which move together.

    Args:
        before: As for `compare`. The timeline is of its first run.
        after: The other side.
        steps: As for `compare`.
        paired: As for `compare`.
        max_bytes: Size limit in bytes.
        keep_going: As for `compare`.

    Returns:
        The page, split at arbitrary positions.

    Raises:
        UsageError: As `compare` does, or the page cannot be made that small.
    """
    sides = ((Run(trace, steps) for trace in _runs(side)) for side in (before, after))
    return two.side_by_side(
        *sides,
        tolerance=statistics.DEFAULT_TOLERANCE,
        paired=paired,
        max_bytes=max_bytes,
        keep_going=keep_going,
    )


def serve(
    trace: Recordings,
    *,
    steps: str | None = None,
    port: int = 0,
    tile_from: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    page: Shown | None = None,
    measured: Sequence[MeasuredCeilings] = (),
) -> PageServer:
    """Return a server of the report for a browser on this machine. It is not running yet.

    A recording with too many events for one page is shown as tiles, which the page fetches while
    the user moves through it. Its diagnosis is computed while the server runs. The page shows when
    it is ready.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        steps: Name of the NVTX ranges that are steps, or a pattern. None detects steps.
        port: Port to listen on; 0 takes a free one.
        tile_from: Number of events from which tiles are used; None for a million.
        tell: Called with progress messages of long operations.
        page: As for `report`.
        measured: As for `make_report`.

    Raises:
        InputError: The port is in use, or there is no disk space for the tiles.
        UsageError: The recording has no such page.
    """
    shown_trace = opened(trace)
    if kernel_reports.shown(shown_trace, page) == "kernels":
        parts = html.assets("kernels")
        content = kernel_reports.content(shown_trace, measured=measured)
        made = kernel_page.make_kernel_report(content, parts)
        return serving.report_server(made.pieces, parts, port)
    run = Run(shown_trace, steps)
    return serving.page_server(
        run,
        partial(reports.content, run),
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
    made = make_report(
        trace, steps=steps, max_bytes=max_bytes, first_page="timeline", page="timeline"
    )
    return pages.Inline("".join(made.pieces), height)


def summary(trace: Recordings, *, with_layers: bool = False) -> Document:
    """Compute a summary of a trace that fits on one screen.

    Its sections are the first rows of the tables process_sum, device_sum, kernel_sum,
    nvtx_pushpop_sum (or nvtx_startend_sum), copy_sum, cuda_api_sum, for Warpline's own recordings
    profiling_cost, and if modules of PyTorch were recorded, step_phases, followed by the table
    recording. If rows are omitted, the title
    gives their total number.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        with_layers: Whether to add the first rows of the table layers, if it has any.
    """
    return summaries.summary(opened(trace), with_layers=with_layers)


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


def query(trace: Recordings, sql: str) -> pl.DataFrame:
    """Run a SQL query and return its result as a Polars DataFrame.

    Args:
        trace: A trace or a part of one, a path, or a list of paths.
        sql: One SELECT over nsys tables (``CUPTI_ACTIVITY_KIND_KERNEL``, ``StringIds``...), which
            SQLite runs, or over tables of the trace (``kernel``, ``range``...), which Polars runs.

    Raises:
        UsageError: The query fails. The message is that of the SQL engine.
    """
    return queries.frame(opened(trace), sql)


def query_document(trace: Recordings, sql: str) -> Document:
    """Run a SQL query, as `query` does, for a renderer."""
    return queries.document(opened(trace), sql)


def formats() -> list[dict[str, Any]]:
    """Return the supported input formats: name, doc and usual extensions."""
    plugins.load("readers")
    return [
        {"name": item.name, "doc": item.doc, "extensions": list(item.extensions)}
        for item in READERS
    ]


def _as_text(shown: Document | Finding | GraphCheck) -> str:
    plugins.load("renderers")
    return display.text(shown)


def _as_html(shown: Document | Finding | GraphCheck) -> str:
    return display.html(shown)


DISPLAY.text, DISPLAY.html = _as_text, _as_html
