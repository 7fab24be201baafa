"""Two jobs of many ranks compared, each one reduced to summaries before the next is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from warpline import progress
from warpline.api.fleet_reading import (
    Reader,
    is_pattern,
    matching,
    reader,
    summary_of,
    without_any,
)
from warpline.api.recordings import PathLike
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.result import source_name
from warpline.result.fleet import LeftOut
from warpline.result.fleet_comparison import FleetComparison
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.comparison import statistics
    from warpline.fleet import comparing, jobs, sides, summary, verdict
    from warpline.fleet.sides import JobSide
    from warpline.fleet.summary import RankSummary
else:
    statistics = lazy("warpline.comparison.statistics")
    comparing = lazy("warpline.fleet.comparing")
    jobs = lazy("warpline.fleet.jobs")
    sides = lazy("warpline.fleet.sides")
    summary = lazy("warpline.fleet.summary")
    verdict = lazy("warpline.fleet.verdict")

Side = PathLike | Sequence[PathLike]
_SHOWN = 2  # last parts of a pattern that name the job


@dataclass(frozen=True)
class _Named:
    """Recordings that were named together.

    Attributes:
        title: How they are called.
        paths: The recordings.
        is_one_job: Whether they are one job whatever their ranks are.
    """

    title: str
    paths: tuple[str, ...]
    is_one_job: bool


def compare_fleets(
    before: Side,
    after: Side,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    steps: str | None = None,
    tolerance: float | None = None,
    paired: bool = False,
) -> FleetComparison:
    """Compare two jobs of many ranks: what differs, whether it is noise, and why.

    Args:
        before: A pattern such as ``run1/*.warpline``, a directory, or a list. Each pattern and each
            directory is a job. Of files in a list, those with distinct ranks are one job.
        after: The other side.
        workers: As for `fleet`.
        scheduler: As for `fleet`.
        steps: As for `fleet`.
        tolerance: Relative difference of the step time that counts as the same: 0.02 is 2%. None
            takes the default.
        paired: Whether the jobs were run in turn, so that the first of each side belong together.

    Returns:
        The content of `warpline fleet compare`. `FleetComparison.to_dict` is its JSON.

    Raises:
        UsageError: As `fleet` does; the tolerance is not between 0 and 1; or paired sides have
            different numbers of jobs.
        InputError: No recording of a job could be used.
    """
    limit = statistics.DEFAULT_TOLERANCE if tolerance is None else tolerance
    if not 0 < limit < 1:
        raise UsageError(f"tolerance {limit:g} is not between 0 and 1", hint="0.02 stands for 2%")
    named = [_named(side) for side in (before, after)]
    every = [path for side in named for one in side for path in one.paths]
    with (
        progress.task("Summarizing ranks", len(every)) as advance,
        reader(every, workers, scheduler) as reading,
    ):
        old, new = (_jobs(side, reading, steps, advance) for side in named)
    if paired and len(old) != len(new):
        raise UsageError(
            f"{plural(len(old), 'job')} before cannot be paired with {len(new)} after",
            hint="name as many jobs on both sides, in the order in which they ran",
        )
    with progress.task("Comparing jobs"):
        found = comparing.compare_jobs(old, new, tolerance=limit, paired=paired)
    return replace(found, workers=reading.said)


def _named(side: Side) -> list[_Named]:
    """Return the patterns and directories of a side as jobs, and all its files together."""
    words = [side] if isinstance(side, str | os.PathLike) else list(side)
    found, files = [], []
    for word in [os.fspath(item) for item in words]:
        if is_pattern(word) or Path(word).is_dir():
            title = "/".join(PurePath(word).parts[-_SHOWN:])
            found.append(_Named(title, tuple(matching(word)), is_one_job=True))
        else:
            files.append(word)
    if files or not found:
        paths = tuple(matching(files))
        title = source_name([Path(path) for path in paths])
        found.append(_Named(title, paths, is_one_job=False))
    return found


def _jobs(
    named: Sequence[_Named], reading: Reader, steps: str | None, advance: progress.Advance
) -> list[JobSide]:
    """Return the jobs of a side; the summaries of one job at a time are in memory."""
    leaf = partial(summary_of, steps=steps, has_environment=True)
    seen: dict[object, str] = {}
    found = []
    for one in named:
        parts = reading.reduced(one.paths, leaf, advance, None)
        every, twice = verdict.once_each(summary.drained(parts.content), seen)
        if not every:
            raise without_any(one.paths, parts._replace(left_out=(*parts.left_out, *twice)))
        left_out: tuple[LeftOut, ...] = (*parts.left_out, *twice)
        for own in [every] if one.is_one_job else _by_ranks(every):
            title = one.title if len(own) == len(every) else _title(own)
            found.append(sides.side_of(title, own, left_out))
            left_out = ()  # counted once
    return found


def _title(own: Sequence[RankSummary]) -> str:
    return source_name([Path(path) for path in dict.fromkeys(one.identity.path for one in own)])


def _by_ranks(every: Sequence[RankSummary]) -> Iterator[list[RankSummary]]:
    """Yield jobs of files: as in `compare`, those with distinct ranks are one."""
    of_file: dict[str, list[RankSummary]] = {}
    for one in every:
        of_file.setdefault(one.identity.path, []).append(one)
    job: list[RankSummary] = []
    seen: set[int] = set()
    for own in of_file.values():
        ranks = jobs.known_numbers(own)
        if job and (not ranks or not seen or ranks & seen):
            yield job
            job, seen = [], set()
        job = [*job, *own]
        seen |= ranks
    if job:
        yield job
