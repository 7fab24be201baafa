"""A job as one side of a comparison: its steps, and what its ranks and groups did in them.

The ranks of a job share its steps: the slowest one makes all others wait in the next collective. So
the steps of its ranks are not independent, and 64 ranks say no more about the length of a step than
one does. What counts is one number per step of the job, the mean over its ranks, as in `compare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from warpline.derived.time_parts import BUSY, OF_KERNELS, TimePart
from warpline.fleet.environments import environment_of_job
from warpline.fleet.jobs import Job
from warpline.fleet.summary import RankSummary
from warpline.fleet.verdict import answer_of, known_of
from warpline.fleet.waiting import GroupSums, Waits
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.result.diagnosis import Severity
from warpline.result.fleet import Fleet, FleetCollective, FleetFinding, LeftOut
from warpline.result.profile import ItemName, Items, PartName, Problem, Profile

# Rules whose findings come from waits.
_OF_WAITS = {"straggler", "slow-host-of-ranks", "ranks-in-turn", "slow-communicator"}
ALL_RANKS = 0  # in a `CollectiveKey`: the collective is one of all ranks, however many there are


class CollectiveKey(NamedTuple):
    """Which collectives of two jobs are compared with each other.

    Attributes:
        operation: Such as AllReduce.
        bytes: Message size; -1 if unknown.
        ranks: Ranks in a group; `ALL_RANKS` if these are all ranks of the job.
    """

    operation: str
    bytes: int
    ranks: int


class CollectiveTimes(NamedTuple):
    """The collectives of one kind in a job.

    Attributes:
        total: Their sums.
        per_step: Number of collectives of a rank per step.
        wait_ns: Shape (steps,), float64, how long a rank waited in them for others, mean.
        transfer_ns: Shape (steps,), float64, the time from the last arrival to the end.
    """

    total: FleetCollective
    per_step: float
    wait_ns: F64
    transfer_ns: F64


@dataclass(frozen=True)
class JobSide:
    """One job, as a side of a comparison or one run of it.

    Attributes:
        profile: Its steps, their parts, and its operations by category.
        fleet: The answer about it, without the columns by rank and step.
        own_ns: Shape (ranks of `fleet`, steps), float64, how long each rank took by itself, without
            exposed waits for others; NaN where it lacks a step.
        wait_ns: Shape (steps,), float64, how long a rank waited for others, mean over ranks.
        exposed_ns: Shape (steps,), float64, the part of it without computing.
        transfer_ns: Shape (steps,), float64, the rest of the collectives' time.
        collectives: Its collectives by kind.
    """

    profile: Profile
    fleet: Fleet
    own_ns: F64
    wait_ns: F64
    exposed_ns: F64
    transfer_ns: F64
    collectives: Mapping[CollectiveKey, CollectiveTimes]


def side_of(
    title: str, summaries: Sequence[RankSummary], left_out: Sequence[LeftOut] = ()
) -> JobSide:
    """Return a job as a side of a comparison.

    Args:
        title: Names the job.
        summaries: Of its ranks, at least one, in any order; with their environment.
        left_out: Recordings without a summary.
    """
    known = known_of(summaries)
    job, waits = known.job, known.waits
    fleet = answer_of(title, known, left_out)
    assert fleet.grid is not None
    has_step = fleet.grid.step_ns > 0
    return JobSide(
        profile=_profile(job, fleet),
        fleet=replace(fleet, grid=None),
        own_ns=np.where(has_step, fleet.grid.step_ns - waits.all_exposed_ns, np.nan),
        wait_ns=_mean(waits.all_wait_ns, has_step),
        exposed_ns=_mean(waits.all_exposed_ns, has_step),
        transfer_ns=_mean(waits.transfer_ns, has_step),
        collectives=_collectives(job, waits, fleet.collectives),
    )


def without_waits(side: JobSide) -> JobSide:
    """Return a side as it is without collectives that are matched: nothing about waits is known."""
    kept = tuple(item for item in side.profile.findings if item.rule not in _OF_WAITS)
    return replace(
        side,
        profile=replace(side.profile, findings=kept),
        fleet=replace(side.fleet, stragglers=(), collectives=()),
        own_ns=np.full_like(side.own_ns, np.nan),
        collectives={},
    )


def _mean(values: F64, has_step: BoolArray) -> F64:
    """Return the mean of each step over the ranks that have it, shape (steps,)."""
    count = has_step.sum(axis=0)
    mean: F64 = np.where(has_step, values, 0.0).sum(axis=0)[count > 0] / count[count > 0]
    return mean


def _profile(job: Job, fleet: Fleet) -> Profile:
    sums = _sums(job)
    sources = Counter(rank.identity.step_source for rank in job.ranks)
    return Profile(
        title=fleet.title,
        paths=tuple(dict.fromkeys(rank.identity.path for rank in job.ranks)),
        source=sources.most_common(1)[0][0] if job.has_steps else "none",
        step_ns=sums.parts_ns.sum(axis=1) / sums.ranks,
        parts=_parts(sums),
        items=_items(sums),
        findings=tuple(map(_problem, fleet.findings)),
        environment=environment_of_job(job),
        ranks=len(job),
        recorder=", ".join(sorted({rank.identity.format for rank in job.ranks})),
    )


class _Sums(NamedTuple):
    """Sums over the ranks, by step of the job.

    Attributes:
        ranks: Shape (steps,), int64, how many ranks have it, at least 1.
        parts_ns: Shape (steps, `TimePart`), int64.
        number: Shape (steps, busy parts), int64, operations.
        work_ns: Shape (steps, busy parts), int64, the sum of their durations.
    """

    ranks: I64
    parts_ns: I64
    number: I64
    work_ns: I64


def _sums(job: Job) -> _Sums:
    count = max(len(job.step_index), 1)
    ranks = np.zeros(count, np.int64)
    parts = np.zeros((count, len(TimePart)), np.int64)
    number, work = (np.zeros((count, len(BUSY)), np.int64) for _ in range(2))
    for rank, step in zip(job.ranks, job.window_step, strict=True):
        own = np.flatnonzero(step >= 0)
        ranks[np.unique(step[own])] += 1
        np.add.at(parts, step[own], rank.windows.parts_ns[own])
        np.add.at(number, step[own], rank.windows.number[own])
        np.add.at(work, step[own], rank.windows.work_ns[own])
    known = ranks > 0
    return _Sums(ranks[known], parts[known], number[known], work[known])


def _parts(sums: _Sums) -> Mapping[PartName, Fraction]:
    """Return the exact mean over the steps of the means over their ranks, by part."""
    total = [Fraction(0)] * len(TimePart)
    for ranks in np.unique(sums.ranks).tolist():
        own = sums.parts_ns[sums.ranks == ranks].sum(axis=0).tolist()
        weight = ranks * len(sums.ranks)
        total = [old + Fraction(ns, weight) for old, ns in zip(total, own, strict=True)]
    return {
        PartName(part.label, "busy" if part.is_busy else "idle", part.meaning): ns
        for part, ns in zip(TimePart, total, strict=True)
    }


def _items(sums: _Sums) -> Items:
    """Return the GPU operations by category: summaries do not have their names."""
    weight = sums.ranks[:, None] * max(len(sums.ranks), 1)
    executions = (sums.number / weight).sum(axis=0)
    parts = sums.parts_ns[:, : len(BUSY)]
    category, step = np.nonzero(parts.T)
    return Items(
        names=tuple(ItemName(_kind(part), part.label, part.label, "", part.label) for part in BUSY),
        executions=executions,
        ns=(parts / weight).sum(axis=0),
        duration_ns=sums.work_ns.sum(axis=0) / np.maximum(sums.number.sum(axis=0), 1),
        bytes=np.zeros(len(BUSY)),
        position_ns=np.zeros(len(BUSY)),
        cell_item=category,
        cell_place=step,
        cell_ns=parts[step, category] / sums.ranks[step],
    )


def _kind(part: TimePart) -> str:
    if part == TimePart.COLLECTIVE:
        return "collective"
    if part in OF_KERNELS:
        return "kernel"
    return {TimePart.GRAPH: "graph", TimePart.MEMSET: "memset"}.get(part, "copy")


class _Problem(NamedTuple):
    """A finding of a job, as findings of runs are compared."""

    rule: str
    title: str
    severity: Severity
    saving_ns: int | None


def _problem(item: FleetFinding) -> Problem:
    saving = None if item.saving_ns is None else round(item.saving_ns.central)
    return _Problem(item.rule, item.title, item.severity, saving)


def _collectives(
    job: Job, waits: Waits, totals: Sequence[FleetCollective]
) -> Mapping[CollectiveKey, CollectiveTimes]:
    kinds: dict[tuple[str, int, int], list[GroupSums]] = {}
    for item in waits.sums:
        kinds.setdefault((item.operation, item.bytes, len(item.ranks)), []).append(item)
    steps = max(len(job.step_index), 1)
    found = {}
    for total in totals:
        size = -1 if total.bytes is None else total.bytes
        groups = kinds[total.operation, size, total.ranks]
        ranks = ALL_RANKS if total.ranks == len(job) else total.ranks
        found[CollectiveKey(total.operation, size, ranks)] = CollectiveTimes(
            total,
            total.count / len(groups) / steps,
            np.mean([group.step_wait_ns for group in groups], axis=0),
            np.mean([group.step_transfer_ns for group in groups], axis=0),
        )
    return found
