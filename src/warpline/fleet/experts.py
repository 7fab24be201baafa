"""Experts with unequal work: GEMMs between two all-to-alls that take longer on some ranks.

An all-to-all brings each rank the tokens of its experts, the next one brings the results back. In
between, a rank computes as long as it has tokens, and the others wait for the longest. Of the two
kinds of intervals that alternate, the one whose GEMMs differ more among ranks is that of the
experts. The other one shows how fast each GPU is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.estimate import Estimate
from warpline.fleet.jobs import Job, steps_of
from warpline.fleet.matching import Group
from warpline.ops.arrays import F64, I64

EXPERTS_FIX = (
    "Balance the router: a larger auxiliary loss or a bias per expert, a capacity factor, experts"
    " of unequal load on one rank, or copies of the most used ones."
)
_HOT = 1.15  # times the mean of its group: a rank with that much work on average is named
_LEAST_NS = 1_000.0  # GEMMs: shorter intervals are no experts' work
_STAYS = 0.5  # at worst, of what uneven experts cost
_MODEL_ERROR = 0.02  # of the step


class Experts(NamedTuple):
    """The experts' work of a job.

    Attributes:
        groups: Ranks of each group, places in the job.
        ratio: The longest work of a group by the mean, mean over layers and steps.
        load: Shape (ranks,), float64, work of a rank by the mean of its group; NaN without experts.
        hot: Ranks whose work is longer on average.
        lost_ns: How much longer the longest work is than the mean, per step: of the worst group.
        saving_ns: What a step saves if experts are even, with bounds.
    """

    groups: tuple[tuple[int, ...], ...]
    ratio: float
    load: F64
    hot: tuple[int, ...]
    lost_ns: float
    saving_ns: Estimate


class _Work(NamedTuple):
    """The work of a group's ranks between all-to-alls.

    Attributes:
        gemm_ns: Shape (ranks, intervals), float64, of the kind of intervals with experts.
        other_ns: Shape (ranks, intervals), float64, of the other kind.
        lost_ns: Shape (intervals,), float64, what ranks wait for each other after the experts.
        step: Shape (intervals,), int64.
    """

    gemm_ns: F64
    other_ns: F64
    lost_ns: F64
    step: I64


def experts_of(job: Job, groups: Sequence[Group]) -> Experts | None:
    """Return the experts' work of a job; None without all-to-alls that have GEMMs in between."""
    every = [group for group in groups if group.operation == "AllToAll"]
    worked = [(group, work) for group in every if (work := _work(job, group)) is not None]
    if not worked:
        return None
    load, hot, ratios, lost = np.full(len(job), np.nan), list[int](), [], []
    count = max(len(job.step_index), 1)
    for group, work in worked:
        ranks = np.array([member.rank for member in group.members], np.int64)
        gemm_ns = work.gemm_ns / _slowness(work.other_ns)[:, None]
        mean = np.maximum(gemm_ns.mean(axis=0), 1.0)
        ratios.append(float((gemm_ns.max(axis=0) / mean).mean()))
        load[ranks] = gemm_ns.sum(axis=1) / max(float(mean.sum()), 1.0)
        hot += ranks[load[ranks] >= _HOT].tolist()
        # At most what the ranks did wait: work that something else hides costs nothing.
        more = np.minimum(gemm_ns.max(axis=0) - mean, work.lost_ns)
        lost.append(float(np.maximum(more, 0.0).sum()) / count)
    worst = max(lost)
    now_ns = job.usual_step_ns
    error_ns = _MODEL_ERROR * now_ns
    usual = float(np.median(lost))
    low = max((1 - _STAYS) * min(worst, usual) - error_ns, 0.0)
    saving = Estimate(low, worst, worst + error_ns)
    found = tuple(tuple(member.rank for member in group.members) for group, _ in worked)
    return Experts(found, float(np.mean(ratios)), load, tuple(sorted(hot)), worst, saving)


def _slowness(other_ns: F64) -> F64:
    """Return how many times as long each rank takes for work that all have, by their median."""
    total = other_ns.sum(axis=1)
    usual = float(np.median(total))
    slowness: F64 = total / usual if usual > _LEAST_NS else np.ones(len(total))
    return np.maximum(slowness, 1.0)


def _work(job: Job, group: Group) -> _Work | None:
    """Return the work of a group's ranks between its all-to-alls in the steps that count."""
    shape = (len(group.members), group.total)
    gemm, start, end = (np.full(shape, np.nan) for _ in range(3))
    step = np.full(group.total, -1, np.int64)
    for row, member in enumerate(group.members):
        rank = job.ranks[member.rank]
        places = _all_to_alls(job, member.rank)
        if not len(rank.gemm_ns) or len(places) != len(rank.gemm_ns):
            return None
        of_row = dict(zip(places.tolist(), rank.gemm_ns.tolist(), strict=True))
        gemm[row, member.place] = [of_row.get(at, 0) for at in member.rows.tolist()]
        times = rank.collectives.taken(member.rows)
        start[row, member.place] = member.on_common_time(times.start_ns)
        end[row, member.place] = member.on_common_time(times.end_ns)
        own = steps_of(job, member.rank, times.start_ns)
        step[member.place] = np.maximum(step[member.place], own)
    # The interval after each all-to-all, and how long ranks wait in the next one.
    wait = np.nanmean(np.nanmax(start, axis=0, keepdims=True) - start, axis=0)
    lost = np.append(wait[1:], 0.0)
    follows = np.append(step[1:] == step[:-1], False)
    kinds = []
    for parity in (0, 1):
        number = _number_in_step(step)
        chosen = (step >= 0) & follows & (number % 2 == parity) & np.isfinite(gemm).all(axis=0)
        kinds.append(np.flatnonzero(chosen))
    if not all(map(len, kinds)):
        return None
    spread = [_spread(gemm[:, rows]) for rows in kinds]
    expert, other = kinds if spread[0] >= spread[1] else kinds[::-1]
    if gemm[:, expert].mean() < _LEAST_NS:
        return None
    return _Work(gemm[:, expert], gemm[:, other], lost[expert], step[expert])


def _all_to_alls(job: Job, place: int) -> I64:
    """Return the all-to-alls of a rank, places among its collectives."""
    rank = job.ranks[place]
    is_all = np.array([kind.operation == "AllToAll" for kind in rank.kinds], np.bool_)
    return np.flatnonzero(is_all[rank.collectives.kind])


def _number_in_step(step: I64) -> I64:
    """Return the number of each collective among those of its step."""
    opens = np.flatnonzero(np.diff(step, prepend=step[0] - 1 if len(step) else 0))
    first = opens[np.searchsorted(opens, np.arange(len(step)), side="right") - 1]
    number: I64 = np.arange(len(step)) - first
    return number


def _spread(gemm_ns: F64) -> float:
    """Return by how much work differs among ranks, relative to its mean."""
    mean = gemm_ns.mean(axis=0)
    known = mean > _LEAST_NS
    if not known.any():
        return 0.0
    return float((gemm_ns[:, known].std(axis=0) / mean[known]).mean())
