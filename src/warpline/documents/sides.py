"""One page for two sides: the comparison, and a timeline of each."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from warpline import progress
from warpline.documents.comparison import Measured, comparison, measured
from warpline.documents.report import content
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.result.comparison import Side
from warpline.trace import Run
from warpline.units import format_bytes

if TYPE_CHECKING:
    from warpline.viewer import page, report, sides
else:
    page = lazy("warpline.viewer.page")
    report = lazy("warpline.viewer.report")
    sides = lazy("warpline.viewer.sides")

_PER_TIMELINE = 45  # percent of the size limit of the page


def side_by_side(
    before: Iterable[Run],
    after: Iterable[Run],
    *,
    tolerance: float,
    paired: bool,
    max_bytes: int | None,
    keep_going: bool,
) -> list[str]:
    """Return the page, split at arbitrary positions.

    Args:
        before: The runs of the side, at least one; opened one at a time. The timeline is of
            the first.
        after: The other side.
        tolerance: As for `comparison`.
        paired: As for `comparison`.
        max_bytes: Size limit of the page; None for no limit.
        keep_going: As for `measured`.

    Raises:
        UsageError: As `comparison` does, or the page is larger than its limit.
    """
    most = None if max_bytes is None else max_bytes * _PER_TIMELINE // 100
    measured_sides, reports = [], []
    for side in (before, after):
        runs: list[Measured] = []
        for run in side:
            runs.append(measured(run, (), keep_going=keep_going))
            if len(runs) == 1:
                reports.append(_timeline(run, most))
            del run
            gc.collect()  # one recording at a time in memory: what is derived refers to its trace
        measured_sides.append(runs)
    found = comparison(*measured_sides, tolerance=tolerance, paired=paired)
    old, new = (
        sides.Shown(_title(side), drawn, _step_ns(runs))
        for side, drawn, runs in zip(
            (found.before, found.after), reports, measured_sides, strict=True
        )
    )
    pieces = [*sides.side_by_side(found, old, new, page.assets())]
    size = report.size_of(pieces)
    if max_bytes is not None and size > max_bytes:
        raise UsageError(
            f"the page needs {format_bytes(size)}, but the limit is {format_bytes(max_bytes)}",
            hint="raise the limit",
        )
    return pieces


def _timeline(run: Run, max_bytes: int | None) -> report.Report:
    judged, tables = content(run)
    with progress.task("Drawing the timeline"):
        return report.make_report(run, judged, tables, max_bytes=max_bytes, first_page="timeline")


def _title(side: Side) -> str:
    """Return what the timeline of a side is of."""
    name = side.paths[0].rpartition("/")[2] if side.paths else side.title
    return f"{name} (the first of {side.runs} runs)" if side.runs > 1 else side.title


def _step_ns(runs: Sequence[Measured]) -> list[float]:
    return [float(ns) for run in runs if run.profile.has_steps for ns in run.profile.step_ns]
