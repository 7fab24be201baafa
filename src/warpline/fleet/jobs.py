"""A job: the summaries of its ranks, their numbers, and the steps that count on all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.derived.steps.exclusion import StepFacts, exclude
from warpline.derived.time_parts import OF_KERNELS, TimePart
from warpline.derived.work.ranks import UNKNOWN, rank_in_name
from warpline.fleet.summary import RankSummary
from warpline.ops.arrays import F64, I64, BoolArray

Steps = npt.NDArray[np.signedinteger[Any]]  # places of steps, -1 for none


@dataclass(frozen=True)
class Job:
    """The ranks of a job, by number.

    Attributes:
        ranks: Their summaries.
        numbers: Their numbers; None where unknown.
        included: Which windows of each rank count, shape (windows,) each.
        step_index: Shape (steps,), int64, the numbers of the steps that count, ascending; one
            entry, -1, without steps.
        window_step: The place of each window's step in `step_index`, -1 if it does not count.
    """

    ranks: tuple[RankSummary, ...]
    numbers: tuple[int | None, ...]
    included: tuple[BoolArray, ...]
    step_index: I64
    window_step: tuple[I64, ...]

    def __len__(self) -> int:
        return len(self.ranks)

    def name(self, place: int) -> str:
        """Return how a rank is called: ``rank 3``, or its file and GPU."""
        number, identity = self.numbers[place], self.ranks[place].identity
        if number is not None:
            return f"rank {number}"
        gpu = f"GPU {identity.gpu_index}"
        return f"{Path(identity.path).name}, {gpu}"

    @cached_property
    def counts(self) -> I64:
        """Shape (ranks,), int64, the number of windows of each rank that count."""
        return np.array([np.count_nonzero(chosen) for chosen in self.included], np.int64)

    @cached_property
    def parts_ns(self) -> I64:
        """Shape (ranks, `TimePart`), int64, sums over the windows that count."""
        sums = [
            rank.windows.parts_ns[chosen].sum(axis=0)
            for rank, chosen in zip(self.ranks, self.included, strict=True)
        ]
        return np.array(sums, np.int64).reshape(-1, len(TimePart))

    @cached_property
    def parts_per_step_ns(self) -> F64:
        """Shape (ranks, `TimePart`), float64, means over the windows that count."""
        means: F64 = self.parts_ns / np.maximum(self.counts, 1)[:, None]
        return means

    @cached_property
    def step_ns(self) -> F64:
        """Shape (ranks,), float64, the mean length of the windows that count."""
        means: F64 = self.parts_per_step_ns.sum(axis=1)
        return means

    @property
    def usual_step_ns(self) -> float:
        """The median over the ranks with windows that count of their mean lengths."""
        known = self.step_ns[self.counts > 0]
        return float(np.median(known)) if len(known) else 0.0

    @property
    def has_steps(self) -> bool:
        """Whether the windows are steps."""
        return bool(len(self.step_index)) and int(self.step_index[0]) >= 0

    @cached_property
    def kernels_per_step(self) -> F64:
        """Shape (ranks, kernel categories), float64: kernels per step, without collectives."""
        kernels = [int(part) for part in OF_KERNELS if part != TimePart.COLLECTIVE]
        rows = [
            rank.windows.number[chosen][:, kernels].mean(axis=0)
            if chosen.any()
            else np.zeros(len(kernels))
            for rank, chosen in zip(self.ranks, self.included, strict=True)
        ]
        return np.array(rows)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The names of the machines, ascending; none if one is unknown."""
        names = {rank.identity.host for rank in self.ranks}
        return () if None in names else tuple(sorted(filter(None, names)))


def job_of(summaries: Sequence[RankSummary]) -> Job:
    """Return the job of some ranks, in any order.

    Which steps count is decided for all ranks together, as in a trace of all of them. So a step
    that is slow on one rank only counts on all or on none.
    """
    numbers = _numbers(summaries)
    order = sorted(
        range(len(summaries)),
        key=lambda at: (
            numbers[at] is None,
            numbers[at] or 0,
            summaries[at].identity.path,
            summaries[at].identity.gpu_index,
        ),
    )
    ranks = tuple(summaries[at] for at in order)
    included = _included(ranks)
    steps = [
        np.where(rank.windows.step >= 0, _index_of(rank), UNKNOWN)[chosen]
        for rank, chosen in zip(ranks, included, strict=True)
    ]
    step_index = np.unique(np.concatenate([np.zeros(0, np.int64), *steps]))
    window_step = []
    for rank, chosen in zip(ranks, included, strict=True):
        index = np.where(rank.windows.step >= 0, _index_of(rank), UNKNOWN)
        window_step.append(np.where(chosen, np.searchsorted(step_index, index), -1))
    return Job(ranks, tuple(numbers[at] for at in order), included, step_index, tuple(window_step))


def steps_of(job: Job, place: int, start_ns: I64) -> Steps:
    """Return the step of moments of a rank, a place in the job's steps; -1 for none that counts.

    Integers of as few bytes as there are steps: a job has tens of millions of collectives.
    """
    windows = job.ranks[place].windows
    if not len(windows.start_ns):
        return np.full(len(start_ns), -1, np.int8)
    row = np.searchsorted(windows.start_ns, start_ns, side="right") - 1
    inside = (row >= 0) & (start_ns < windows.end_ns[np.maximum(row, 0)])
    step: Steps = np.where(inside, job.window_step[place][np.maximum(row, 0)], -1)
    return step.astype(np.min_scalar_type(-max(len(job.step_index), 1)))


def _index_of(rank: RankSummary) -> I64:
    if not len(rank.steps.number):
        return np.full(len(rank.windows.step), UNKNOWN, np.int64)
    return rank.steps.number[np.maximum(rank.windows.step, 0)]


def _numbers(summaries: Sequence[RankSummary]) -> list[int | None]:
    """Return the number of each rank: as recorded, else that in its file's name, if distinct."""
    recorded = [summary.identity.rank for summary in summaries]
    paths = [summary.identity.path for summary in summaries]
    times = Counter(paths)
    named = [
        number if times[path] == 1 and number != UNKNOWN else None
        for path, number in ((path, rank_in_name(Path(path))) for path in paths)
    ]
    numbers: list[int | None] = [None] * len(summaries)
    for source in (recorded, named):
        both = [own if own is not None else new for own, new in zip(numbers, source, strict=True)]
        known = [number for number in both if number is not None]
        if len(set(known)) == len(known):
            numbers = both
    return numbers


def known_numbers(summaries: Sequence[RankSummary]) -> set[int]:
    """Return the numbers of the ranks of one recording, as recorded or in the file's name."""
    return {number for number in _numbers(summaries) if number is not None}


def _included(ranks: Sequence[RankSummary]) -> tuple[BoolArray, ...]:
    """Return which windows of each rank count."""
    of_process: dict[tuple[str, int | None], int] = {}
    for place, rank in enumerate(ranks):
        if len(rank.steps.number):
            of_process.setdefault((rank.identity.path, rank.identity.pid), place)
    steps_included = dict(zip(of_process, _decided(ranks, of_process.values()), strict=True))
    found = []
    for rank in ranks:
        chosen = steps_included.get((rank.identity.path, rank.identity.pid))
        own = np.ones(len(rank.windows.step), np.bool_)
        if chosen is not None:
            own = (rank.windows.step >= 0) & chosen[np.maximum(rank.windows.step, 0)]
        found.append(own)
    # Where some ranks have steps, the whole recordings of others cannot be compared with them.
    has_steps = any(
        (own & (rank.windows.step >= 0)).any() for own, rank in zip(found, ranks, strict=True)
    )
    if has_steps:
        return tuple(own & (rank.windows.step >= 0) for own, rank in zip(found, ranks, strict=True))
    return tuple(np.ones(len(rank.windows.step), np.bool_) for rank in ranks)


def _decided(ranks: Sequence[RankSummary], places: Iterable[int]) -> list[BoolArray]:
    """Return which steps of some ranks' processes are included, decided together."""
    chosen = [ranks[place] for place in places]
    if not chosen:
        return []
    loops, lowest = [], 0
    for rank in chosen:
        loop = rank.steps.loop - int(rank.steps.loop.min()) + lowest
        loops.append(loop)
        lowest = int(loop.max()) + 1
    columns = {
        name: np.concatenate([getattr(rank.steps, name) for rank in chosen])
        for name in ("number", "period_ns", "setup_calls", "is_last", "has_work", "is_cut")
    }
    flags = {name: columns.pop(name) != 0 for name in ("is_last", "has_work", "is_cut")}
    index = columns.pop("number")
    facts = StepFacts(loop=np.concatenate(loops), index=index, **columns, **flags)
    included = np.ones(len(facts.loop), np.bool_)
    included[[step for step, _ in exclude(facts)]] = False
    bounds = np.cumsum([len(rank.steps.number) for rank in chosen])[:-1]
    return np.split(included, bounds)
