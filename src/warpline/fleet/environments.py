"""The environment of a job: the facts that its ranks have in common, or how they differ."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.comparison.environment import CLOCK, DRAM_ACTIVE, GPUS, RANKS, SM_ACTIVE
from warpline.fleet.jobs import Job

WORLD = "ranks of the job"
_HOST = "host"  # hosts are compared by name, each
_OF_ONE = {RANKS, GPUS, _HOST}  # facts about a recording that say nothing about the job
_MEASURED = (CLOCK, SM_ACTIVE, DRAM_ACTIVE)  # numbers with a unit: the median stands for the job
_MOST = 3  # values that are shown


def environment_of_job(job: Job) -> Mapping[str, str | None]:
    """Return the facts about a job by name; None if no rank has a value."""
    of_ranks = [rank.identity.environment for rank in job.ranks]
    names = dict.fromkeys(name for facts in of_ranks for name in facts if name not in _OF_ONE)
    found: dict[str, str | None] = {}
    for name in names:
        values = [value for facts in of_ranks if (value := facts.get(name)) is not None]
        found[name] = _median(values) if name in _MEASURED else _joined(values)
    return {**found, WORLD: str(len(job))}


def _joined(values: list[str]) -> str | None:
    distinct = sorted(set(values))
    if len(distinct) <= _MOST:
        return ", ".join(distinct) or None
    return f"{', '.join(distinct[:_MOST])} and {len(distinct) - _MOST} more"


def _median(values: list[str]) -> str | None:
    """Return the value in the middle, as the ranks have it: ``1980 MHz``, ``83%``."""
    numbers = [(float(value.rstrip("% MHz")), value) for value in values]
    if not numbers:
        return None
    numbers.sort()
    return numbers[(len(numbers) - 1) // 2][1]
