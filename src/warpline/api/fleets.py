"""Many ranks of one job: recordings reduced to summaries by workers, and one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpline import progress
from warpline.api.fleet_reading import matching, reader, summary_of, without_any
from warpline.api.recordings import PathLike
from warpline.lazy import lazy
from warpline.result import source_name
from warpline.result.fleet import Fleet

if TYPE_CHECKING:
    from warpline.fleet import answer, summary, verdict
    from warpline.fleet.reducing import Reduced
else:
    answer = lazy("warpline.fleet.answer")
    summary = lazy("warpline.fleet.summary")
    verdict = lazy("warpline.fleet.verdict")

_LARGE = 64  # recordings from which on the first ranks are reported


def fleet(
    recordings: PathLike | Sequence[PathLike],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    steps: str | None = None,
    early: Callable[[Fleet], None] | None = None,
    dashboard: Callable[[str], None] | None = None,
) -> Fleet:
    """Find out where the time of a job of many ranks went, and which ranks delay the others.

    Each recording is reduced to a summary by a worker. Nothing holds the events of two ranks.

    Args:
        recordings: Files, patterns such as ``run/*.warpline``, and directories. Dumps of PyTorch's
            flight recorder may be among them.
        workers: Number of processes on this machine. 1 reads the recordings in this process,
            without dask. None takes one per CPU core; few recordings, or all if dask.distributed
            is not installed, are read in this process.
        scheduler: Address of the scheduler of a running dask cluster, whose workers see the
            recordings under the same paths.
        steps: Name of the NVTX ranges that are steps, or a pattern such as ``epoch_*``. None
            detects steps.
        early: Called with the answer about the first few ranks of a large job.
        dashboard: Called with the address of dask's dashboard, which is served only if this is
            given.

    Returns:
        The content of `warpline fleet analyze`. `Fleet.to_dict` is its JSON.

    Raises:
        UsageError: No recording matches, or dask.distributed is missing, or there is no scheduler.
        InputError: No recording could be used.
    """
    paths = matching(recordings)
    leaf = partial(summary_of, steps=steps)
    first = None if early is None or len(paths) < _LARGE else partial(_early, paths, early)
    with (
        progress.task("Summarizing ranks", len(paths)) as advance,
        reader(paths, workers, scheduler, dashboard) as found,
    ):
        parts = found.reduced(paths, leaf, advance, first)
    return _answer(paths, parts, found.said)


def _early(paths: Sequence[str], report: Callable[[Fleet], None], parts: Reduced) -> None:
    """Report the answer about the first ranks, if there are any."""
    summaries = summary.drained(parts.content)
    if summaries:
        title = source_name([Path(path) for path in paths])
        # Of some ranks, dumps would say that the others are missing.
        report(verdict.verdict_of(title, summaries, parts.left_out))


def _answer(paths: Sequence[str], parts: Reduced, workers: str) -> Fleet:
    with progress.task("Comparing ranks"):
        summaries, twice = verdict.once_each(summary.drained(parts.content))
        dumps, more = answer.one_of_each_rank(parts.dumps)
        if not summaries and not dumps:
            raise without_any(paths, parts)
        title = source_name([Path(path) for path in paths])
        left_out = (*parts.left_out, *twice, *more)
        found = answer.answer_of(title, summaries, dumps, left_out)
    return found.with_workers(workers)
