"""Pages and pictures: reports, timelines, side by side, as files or from a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpline import progress
from warpline.api.answers import compare_memory, flame, memory, stack_choice
from warpline.api.recordings import PathLike, Recordings, Side, opened, runs_of_side
from warpline.files import check_output, complete_file
from warpline.lazy import lazy
from warpline.trace import Run, Trace

if TYPE_CHECKING:
    from warpline.comparison import statistics
    from warpline.derived.flame.weighted import Choice
    from warpline.derived.memory.labels import By
    from warpline.documents import diagnosis
    from warpline.documents import flame_page as flame_pages
    from warpline.documents import kernel_report as kernel_reports
    from warpline.documents import markdown_report as markdown_reports
    from warpline.documents import memory_page as memory_pages
    from warpline.documents import report as reports
    from warpline.documents import sides as two
    from warpline.documents.kernel_report import Shown
    from warpline.hardware.measured import MeasuredCeilings
    from warpline.presentation import flame as flame_blocks
    from warpline.presentation import memory as memory_blocks
    from warpline.render.diagnosis import markdown as diagnosis_markdown
    from warpline.result import fleet as fleets
    from warpline.result.fleet import Fleet
    from warpline.result.fleet_comparison import FleetComparison
    from warpline.viewer import chosen as choosing
    from warpline.viewer import flame_report as flame_page
    from warpline.viewer import fleet_comparison_report as fleet_comparison_page
    from warpline.viewer import fleet_report as fleet_page
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
    statistics = lazy("warpline.comparison.statistics")
    diagnosis = lazy("warpline.documents.diagnosis")
    flame_pages = lazy("warpline.documents.flame_page")
    kernel_reports = lazy("warpline.documents.kernel_report")
    markdown_reports = lazy("warpline.documents.markdown_report")
    memory_pages = lazy("warpline.documents.memory_page")
    reports = lazy("warpline.documents.report")
    two = lazy("warpline.documents.sides")
    flame_blocks = lazy("warpline.presentation.flame")
    memory_blocks = lazy("warpline.presentation.memory")
    diagnosis_markdown = lazy("warpline.render.diagnosis.markdown")
    fleets = lazy("warpline.result.fleet")
    choosing = lazy("warpline.viewer.chosen")
    flame_page = lazy("warpline.viewer.flame_report")
    fleet_comparison_page = lazy("warpline.viewer.fleet_comparison_report")
    fleet_page = lazy("warpline.viewer.fleet_report")
    kernel_page = lazy("warpline.viewer.kernel_report")
    memory_page = lazy("warpline.viewer.memory_report")
    html = lazy("warpline.viewer.page")
    pictures = lazy("warpline.viewer.picture")
    pages = lazy("warpline.viewer.report")
    screenshots = lazy("warpline.viewer.screenshot")
    serving = lazy("warpline.viewer.serving")


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


def make_fleet_report(found: Fleet | FleetComparison, folder: PathLike = ".") -> Report:
    """Return a page of a job of many ranks, or of two compared: maps of ranks, and tables.

    Args:
        found: From `fleet` or `compare_fleets`.
        folder: The directory of the page: reports of single ranks in it are linked.
    """
    parts = html.assets("fleet")
    with progress.task("Writing the page"):
        if isinstance(found, fleets.Fleet):
            return fleet_page.make_fleet_report(found, Path(folder), parts)
        return fleet_comparison_page.make_comparison_report(found, Path(folder), parts)


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
    sides = ((Run(trace, steps) for trace in runs_of_side(side)) for side in (before, after))
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
