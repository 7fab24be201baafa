"""Two sides compared, and limits on what may differ between them."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline import plugins
from warpline.api.answers import split_name
from warpline.api.recordings import Side, runs_of_side
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.trace import Run

if TYPE_CHECKING:
    from warpline.comparison import gate as judging
    from warpline.comparison import statistics
    from warpline.comparison import summary as summaries_of_runs
    from warpline.comparison.limits import Limit
    from warpline.comparison.summary import Summary
    from warpline.documents import comparison
    from warpline.documents import gate as gates
    from warpline.documents import kernel_comparison as of_kernels
    from warpline.documents.comparison import Measured
    from warpline.documents.kernel_comparison import Counted
    from warpline.result import kernel_comparison as counted
    from warpline.result import rules
    from warpline.result.comparison import Comparison
    from warpline.result.gate import Gate
    from warpline.result.kernel_comparison import KernelComparison
else:
    judging = lazy("warpline.comparison.gate")
    statistics = lazy("warpline.comparison.statistics")
    summaries_of_runs = lazy("warpline.comparison.summary")
    comparison = lazy("warpline.documents.comparison")
    gates = lazy("warpline.documents.gate")
    of_kernels = lazy("warpline.documents.kernel_comparison")
    counted = lazy("warpline.result.kernel_comparison")
    rules = lazy("warpline.result.rules")


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
        for trace in runs_of_side(side):
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
    for trace in runs_of_side(recordings):
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
