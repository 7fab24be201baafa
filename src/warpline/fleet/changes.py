"""What became of each rank, kind of collective and machine of two jobs, tested for chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.comparison.items import RATE
from warpline.comparison.statistics import difference_p, false_discovery
from warpline.fleet.sides import CollectiveKey, CollectiveTimes, JobSide
from warpline.ops.arrays import F64
from warpline.result.fleet import FleetRank
from warpline.result.fleet_comparison import (
    CollectiveChange,
    CollectiveSide,
    HostChange,
    Presence,
    RankChange,
    RankSide,
    TimeChange,
)

_LEAST_STEPS = 2  # fewer have no spread
_MOST_TESTS = 200  # kinds of collectives, those with the longest times


class Sampled(NamedTuple):
    """A time of both sides.

    Attributes:
        before: For each job, the time in each step; none if the side has none of it.
        after: The same of the other side.
        cpu_share: What share of it the CPU determines, which differs more from job to job.
    """

    before: Sequence[F64]
    after: Sequence[F64]
    cpu_share: float


def tested(samples: Sequence[Sampled], pairs: int) -> list[TimeChange]:
    """Return means of both sides, and which differences are significant among all of these.

    Args:
        samples: The times.
        pairs: Number of pairs of jobs that were run in turn; 0 if they were not.
    """
    p_values = [_p(sample, pairs) for sample in samples]
    known = [place for place, p in enumerate(p_values) if p is not None]
    mask = false_discovery(np.array([p_values[place] for place in known], np.float64), RATE)
    shown = {place for place, is_shown in zip(known, mask.tolist(), strict=True) if is_shown}
    return [
        TimeChange(_mean(sample.before), _mean(sample.after), p_values[place], place in shown)
        for place, sample in enumerate(samples)
    ]


def _p(sample: Sampled, pairs: int) -> float | None:
    series = (*sample.before, *sample.after)
    if not sample.before or not sample.after or min(map(len, series)) < _LEAST_STEPS:
        return None
    if not any(steps.any() for steps in series):
        return None
    shares = sample.cpu_share, sample.cpu_share
    is_paired = pairs > 0 and len(sample.before) == len(sample.after) == pairs
    return difference_p(sample.before, sample.after, paired=is_paired, cpu_shares=shares)


def _mean(jobs: Sequence[F64]) -> float | None:
    return float(np.mean([steps.mean() for steps in jobs])) if jobs else None


def _presence(*, is_before: bool, is_after: bool) -> Presence:
    return "both" if is_before and is_after else "new" if is_after else "gone"


def _cpu_share(*sides: Sequence[JobSide]) -> float:
    return float(np.mean([job.profile.idle_share for side in sides for job in side]))


class _OfRank(NamedTuple):
    rank: FleetRank
    own_ns: F64


def rank_changes(
    before: Sequence[JobSide], after: Sequence[JobSide], pairs: int
) -> tuple[RankChange, ...]:
    """Return the ranks by number: those of both sides first, by the difference by themselves."""
    sides = [_by_rank(side) for side in (before, after)]
    keys = list(dict.fromkeys(key for side in sides for key in side))
    share = _cpu_share(before, after)
    samples = []
    for key in keys:
        # None where nothing is known of it: no step that counts, or no waits.
        own_ns = [[one.own_ns for one in side.get(key, ()) if len(one.own_ns)] for side in sides]
        samples.append(Sampled(own_ns[0], own_ns[1], share))
    times = tested(samples, pairs)
    found = []
    for key, own in zip(keys, times, strict=True):
        old, new = (side.get(key, []) for side in sides)
        shown = (new or old)[0].rank
        change = _presence(is_before=bool(old), is_after=bool(new))
        found.append(
            RankChange(shown.name, shown.rank, change, _rank_side(old), _rank_side(new), own)
        )
    return tuple(sorted(found, key=lambda item: (item.change != "both", -abs(item.own.delta_ns))))


def _by_rank(jobs: Sequence[JobSide]) -> dict[int | str, list[_OfRank]]:
    """Return each rank's times in the jobs of a side; a rank without a number by its name."""
    found: dict[int | str, list[_OfRank]] = {}
    for job in jobs:
        for rank, own_ns in zip(job.fleet.ranks, job.own_ns, strict=True):
            own = own_ns[np.isfinite(own_ns)]
            key = rank.name if rank.rank is None else rank.rank
            found.setdefault(key, []).append(_OfRank(rank, own))
    return found


def _rank_side(jobs: Sequence[_OfRank]) -> RankSide | None:
    if not jobs:
        return None
    hosts = dict.fromkeys(one.rank.host for one in jobs if one.rank.host is not None)

    def mean(name: str) -> float:
        return float(np.mean([getattr(one.rank, name) for one in jobs]))

    return RankSide(
        jobs[0].rank.path,
        ", ".join(hosts) or None,
        mean("step_ns"),
        mean("own_ns"),
        mean("wait_ns"),
        mean("exposed_wait_ns"),
        mean("caused_ns"),
    )


def collective_changes(
    before: Sequence[JobSide], after: Sequence[JobSide], pairs: int
) -> tuple[CollectiveChange, ...]:
    """Return the collectives by kind, the largest difference in time per step first."""
    sides = [_by_kind(side) for side in (before, after)]
    keys = list(dict.fromkeys(key for side in sides for key in side))
    longest = sorted(keys, key=lambda key: -max(_time(side.get(key, ())) for side in sides))
    many = set(longest[_MOST_TESTS:])
    samples = []
    for key in keys:
        own = [side.get(key, []) for side in sides]
        for name, share in (("wait_ns", 1.0), ("transfer_ns", 0.0)):
            series = [[getattr(one, name) for one in side] for side in own]
            if key in many:  # not tested: only their means
                series = [[steps.mean(keepdims=True) for steps in side] for side in series]
            samples.append(Sampled(series[0], series[1], share))
    times = tested(samples, pairs)
    found = []
    for place, key in enumerate(keys):
        old, new = (side.get(key, []) for side in sides)
        found.append(
            CollectiveChange(
                key.operation,
                None if key.bytes < 0 else key.bytes,
                _presence(is_before=bool(old), is_after=bool(new)),
                _collective_side(old),
                _collective_side(new),
                *times[2 * place : 2 * place + 2],
            )
        )

    def size(item: CollectiveChange) -> float:
        return abs(item.wait.delta_ns) + abs(item.transfer.delta_ns)

    return tuple(sorted(found, key=lambda item: -size(item)))


def _time(jobs: Sequence[CollectiveTimes]) -> float:
    return sum(float(one.wait_ns.mean() + one.transfer_ns.mean()) for one in jobs)


def _by_kind(jobs: Sequence[JobSide]) -> dict[CollectiveKey, list[CollectiveTimes]]:
    found: dict[CollectiveKey, list[CollectiveTimes]] = {}
    for job in jobs:
        for key, times in job.collectives.items():
            found.setdefault(key, []).append(times)
    return found


def _collective_side(jobs: Sequence[CollectiveTimes]) -> CollectiveSide | None:
    if not jobs:
        return None
    totals = [one.total for one in jobs]
    rates = [one.bus_bytes_per_s for one in totals if one.bus_bytes_per_s is not None]
    return CollectiveSide(
        max(one.ranks for one in totals),
        max(one.communicators for one in totals),
        float(np.mean([one.per_step for one in jobs])),
        float(np.mean([one.transfer_ns for one in totals])),
        float(np.mean(rates)) if rates else None,
    )


def host_changes(
    before: Sequence[JobSide], after: Sequence[JobSide], pairs: int
) -> tuple[HostChange, ...]:
    """Return the machines: those of both sides first, by the difference of their ranks' own time.

    None if a rank's machine is unknown.
    """
    jobs = (*before, *after)
    if any(rank.host is None for job in jobs for rank in job.fleet.ranks):
        return ()
    sides = [[_by_host(job) for job in side] for side in (before, after)]
    names = sorted({name for side in sides for job in side for name in job})
    share = _cpu_share(before, after)
    samples = []
    for name in names:
        own_ns = [[job[name].own_ns for job in side if name in job] for side in sides]
        samples.append(Sampled(own_ns[0], own_ns[1], share))
    times = tested(samples, pairs)
    found = []
    for name, own in zip(names, times, strict=True):
        ranks = [max((job[name].ranks for job in side if name in job), default=0) for side in sides]
        change = _presence(is_before=ranks[0] > 0, is_after=ranks[1] > 0)
        found.append(HostChange(name, change, ranks[0], ranks[1], own))
    return tuple(sorted(found, key=lambda item: (item.change != "both", -abs(item.own.delta_ns))))


class _OfHost(NamedTuple):
    ranks: int
    own_ns: F64


def _by_host(job: JobSide) -> dict[str, _OfHost]:
    """Return the mean of each machine's ranks in each step that one of them has."""
    rows: dict[str, list[int]] = {}
    for place, rank in enumerate(job.fleet.ranks):
        rows.setdefault(rank.host or "", []).append(place)
    found = {}
    for name, places in rows.items():
        own = job.own_ns[places]
        has_step = np.isfinite(own)
        count = has_step.sum(axis=0)
        sums = np.where(has_step, own, 0.0).sum(axis=0)
        if count.any():
            found[name] = _OfHost(len(places), sums[count > 0] / count[count > 0])
    return found
