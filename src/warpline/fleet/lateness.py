"""Which ranks the others wait for."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from warpline.derived.severity import MEASURABLE_RATIO
from warpline.fleet.jobs import Job
from warpline.fleet.matching import Group
from warpline.fleet.waiting import Waits
from warpline.ops.arrays import F64, I64

Pattern = Literal["persistent", "some-steps", "one-host", "one-stage", "in-turn"]

_BEYOND_CHANCE = 0.25  # of the distance from an equal share of the waits to all of them
_ALSO = 0.5  # of the most waits caused by a rank: others with as much are stragglers, too
_MOST_OF_HOST = 0.6  # of the waits of a host, by one rank: it is the rank, not the host
_PART_OF_HOST = 0.25  # of an equal share of its waits: at least half of its ranks cause that
_MOST_STEPS = 0.5
_LEAST_OF_STEP = MEASURABLE_RATIO / 2  # waits in a step in which a rank counts as late
_NEARLY_ALL = 0.9  # of the ranks: a group with them stands for the job
_SIGMAS = 6.0
_MAD_TO_SIGMA = 1.4826
_LEAST_TESTED = 4  # ranks: with fewer, who causes most waits is named, as `analyze` does
_CHANCE = 0.0025  # of so uneven waits, if it were chance who is late in a step
_DRAWS = 1_200
_LARGEST = 16  # waits of a step that draws consider
_MOST_LACKING = 0.1  # of the operations that other ranks run: beyond, a rank has another task


class Suspect(NamedTuple):
    """A rank that most waits are for, which may be chance.

    Attributes:
        rank: Its place in the job.
        ratio: The share of the waits that it causes, in 0..1.
        steps: Number of steps in which it causes most of them.
    """

    rank: int
    ratio: float
    steps: int


class Late(NamedTuple):
    """Ranks that others wait for.

    Attributes:
        pattern: ``persistent``: the same ranks in most steps; ``some-steps``: in fewer;
            ``one-host``: ranks of one machine; ``one-stage``: all ranks of a pipeline stage;
            ``in-turn``: no rank or machine causes most waits.
        ranks: Places in the job; none if all wait for each other in turn.
        steps: Number of steps in which they cause most of the waits.
        waited_ns: How long each other rank waits for them, mean per step.
        exposed_ns: The part of it in which its GPU computes nothing.
        suspect: Which rank most of the waits are for where that may be chance: in few steps, one
            rank may be late in each.
    """

    pattern: Pattern
    ranks: tuple[int, ...]
    steps: int
    waited_ns: float
    exposed_ns: float
    suspect: Suspect | None = None


def late_ranks(job: Job, waits: Waits, groups: tuple[Group, ...], stage: I64) -> Late | None:
    """Return which ranks the others wait for; None if the waits are not a measurable share.

    Where all ranks meet in one group, a rank is late if it causes well over an equal share of the
    exposed waits. Where there are several groups, such as data and tensor parallel ones, whoever
    waits in one group is late in the next: then a rank is late if it takes longer by itself, less
    its exposed waits, than the other ranks. Ranks of a pipeline are compared within their stage,
    and then the stages with each other.

    Args:
        job: The job.
        waits: Its waits.
        groups: Its matched collectives.
        stage: Shape (ranks,), int64, the pipeline stage of each rank; -1 for none.
    """
    if stage.max(initial=-1) > 0:
        return _late_in_pipeline(job, waits, stage)
    taking = np.flatnonzero(waits.collectives > 0)
    if len(taking) < 2:
        return None
    count = max(len(job.step_index), 1)
    blamed = _blamed(job, waits, groups, taking)
    others = max(len(taking) - len(blamed[1]), 1)
    if blamed[1]:
        waited, exposed = (
            float(_waits_for(job, values, blamed[1], taking)) / others / count
            for values in (waits.wait_ns, waits.exposed_ns)
        )
        if _is_one_group(groups, len(taking)):
            rows = list(blamed[1])
            waited = float(waits.caused_ns[rows].sum()) / others / count
            exposed = float(waits.caused_exposed_ns[rows].sum()) / others / count
    else:
        waited, exposed = (
            float(values[taking].sum()) / len(taking) / count
            for values in (waits.wait_ns, waits.exposed_ns)
        )
    if exposed < MEASURABLE_RATIO * job.usual_step_ns:
        return None
    pattern, ranks, steps = blamed
    is_alone = not ranks and _is_one_group(groups, len(taking))
    return Late(
        pattern, ranks, steps, waited, exposed, _suspect(job, waits, taking) if is_alone else None
    )


def _suspect(job: Job, waits: Waits, taking: I64) -> Suspect | None:
    """Return the rank that causes more than half of the waits, if one does."""
    total = waits.caused_exposed_ns.sum(axis=1)
    worst = int(np.argmax(total))
    ratio = float(total[worst] / max(float(total.sum()), 1.0))
    if ratio <= max(_MOST_STEPS, _share(len(taking))):
        return None
    steps = _late_steps(job, waits.caused_exposed_ns, np.array([worst], np.int64))
    return Suspect(worst, ratio, steps)


def _waits_for(job: Job, values: F64, ranks: tuple[int, ...], taking: I64) -> float:
    return float(values[np.setdiff1d(taking, ranks)].sum())


def _is_one_group(groups: tuple[Group, ...], count: int) -> bool:
    """Return whether nearly all ranks meet in each group that matters."""
    most = max(group.total * len(group.members) for group in groups)
    large = [group for group in groups if group.total * len(group.members) >= most / 10]
    return all(len(group.members) >= _NEARLY_ALL * count for group in large)


_Blamed = tuple[Pattern, tuple[int, ...], int]


def _blamed(job: Job, waits: Waits, groups: tuple[Group, ...], taking: I64) -> _Blamed:
    if not _is_one_group(groups, len(taking)):
        return _slow_by_themselves(job, waits, taking)
    caused = waits.caused_exposed_ns
    host = _late_host(job, caused, taking)
    if len(host):
        return "one-host", tuple(host.tolist()), _late_steps(job, caused, host)
    total = caused.sum(axis=1)
    worst = int(np.argmax(total))
    if total[worst] <= _share(len(taking)) * total.sum() or _is_chance(
        caused[taking], np.arange(len(taking)), float(total[worst])
    ):
        return "in-turn", (), 0
    least = max(_ALSO * total[worst], 5 * total.sum() / len(taking))
    ranks = np.union1d([worst], taking[total[taking] >= least])
    steps = _late_steps(job, caused, ranks)
    is_most = steps > _MOST_STEPS * caused.shape[1]
    return ("persistent" if is_most else "some-steps"), tuple(ranks.tolist()), steps


def _late_host(job: Job, caused_ns: F64, taking: I64) -> I64:
    """Return the ranks of the machine that causes most waits, by many of its ranks; else none."""
    of_host, total = _host_of(job, taking), caused_ns[taking].sum(axis=1)
    if of_host is None or int(of_host.max()) == int(of_host.min()):
        return taking[:0]
    sums = np.bincount(of_host, total)
    host = int(np.argmax(sums))
    own = total[of_host == host]
    many = np.count_nonzero(own >= _PART_OF_HOST * sums[host] / len(own)) >= len(own) / 2
    if len(own) < 2 or not many or own.max() > _MOST_OF_HOST * sums[host]:
        return taking[:0]
    if sums[host] <= _share(len(sums)) * sums.sum():
        return taking[:0]
    is_chance = _is_chance(caused_ns[taking], of_host, float(sums[host]))
    found: I64 = taking[:0] if is_chance else taking[of_host == host]
    return found


def _late_steps(job: Job, caused_ns: F64, ranks: I64) -> int:
    """Return in how many steps ranks cause most of the waits, if these are not small."""
    every, late = caused_ns.sum(axis=0), caused_ns[ranks].sum(axis=0)
    others = max(len(job) - len(ranks), 1)
    is_much = late / others >= _LEAST_OF_STEP * job.usual_step_ns
    return int(np.count_nonzero((late > every / 2) & is_much))


def _is_chance(caused_ns: F64, owner: I64, most_ns: float) -> bool:
    """Return whether one of some owners may cause so much by chance.

    In each step, ranks are late by as much as they are, but which rank is late by how much is drawn
    again: in healthy jobs one rank is late more often than others, too, most of all in few steps.

    Args:
        caused_ns: Shape (ranks, steps), float64.
        owner: Shape (ranks,), int64, whose waits are added up: each rank, or its machine.
        most_ns: The largest sum.
    """
    count = len(owner)
    if count < _LEAST_TESTED:
        return False
    values = -np.sort(-caused_ns, axis=0)[:_LARGEST]
    rest = (caused_ns.sum() - values.sum()) / count
    rng, n_owners = np.random.default_rng(0), int(owner.max()) + 1
    of_owner = np.bincount(owner, minlength=n_owners)
    reached = 0
    for _ in range(_DRAWS):
        drawn = owner[rng.integers(count, size=values.shape)]
        sums = np.bincount(drawn.reshape(-1), values.reshape(-1), n_owners) + rest * of_owner
        reached += bool(sums.max() >= most_ns)
        if reached > _CHANCE * _DRAWS:
            return True
    return False


def _share(count: int) -> float:
    """Return the share of the waits from which one of several causes them."""
    return (1 + _BEYOND_CHANCE * (count - 1)) / count


def _host_of(job: Job, taking: I64) -> I64 | None:
    """Return the machine of each rank, a place in the job's hosts; None if one is unknown."""
    if not job.hosts:
        return None
    places = {host: place for place, host in enumerate(job.hosts)}
    names = (job.ranks[rank].identity.host for rank in taking.tolist())
    return np.array([places[name or ""] for name in names], np.int64)


def own_time_ns(job: Job, waits: Waits) -> F64:
    """Return how long each rank takes by itself, without exposed waits, per step it has.

    Shape (ranks,), float64.
    """
    own: F64 = job.step_ns - waits.all_exposed_ns.sum(axis=1) / np.maximum(job.counts, 1)
    return own


def _late_in_pipeline(job: Job, waits: Waits, stage: I64) -> Late | None:
    """Return the ranks that are slower than the others of their stage, or the slowest stage."""
    taking = np.flatnonzero((job.counts > 0) & (stage >= 0))
    own = own_time_ns(job, waits)
    usual = np.array([_usual_of_others(own, taking, stage, rank) for rank in taking.tolist()])
    more = own[taking] - usual
    pattern, ranks, steps = _most_by_themselves(job, waits, taking, more)
    stages = np.unique(stage[taking])
    of_stage = np.array([np.median(own[taking][stage[taking] == each]) for each in stages])
    slowest = int(np.argmax(of_stage))
    slower = float(of_stage[slowest] - np.median(np.delete(of_stage, slowest)))
    if not ranks or slower > float(more.max()):
        if slower < MEASURABLE_RATIO * job.usual_step_ns:
            return _late_in_turn(job, waits, taking)
        chosen = taking[stage[taking] == stages[slowest]]
        return Late("one-stage", tuple(chosen.tolist()), len(job.step_index), slower, slower)
    others = np.setdiff1d(taking, ranks)
    count = max(len(job.step_index), 1) * max(len(others), 1)
    waited, exposed = (
        min(float(values[others].sum()) / count, float(more.max()))
        for values in (waits.all_wait_ns, waits.all_exposed_ns)
    )
    is_much = exposed >= MEASURABLE_RATIO * job.usual_step_ns
    return Late(pattern, ranks, steps, waited, exposed) if is_much else None


def _usual_of_others(own_ns: F64, taking: I64, stage: I64, rank: int) -> float:
    """Return the median of what the other ranks of a rank's stage take by themselves."""
    others = taking[(stage[taking] == stage[rank]) & (taking != rank)]
    return float(np.median(own_ns[others])) if len(others) else float(own_ns[rank])


def _late_in_turn(job: Job, waits: Waits, taking: I64) -> Late | None:
    """Return that ranks of the same stages wait for each other, if that is a measurable share."""
    count = max(len(job.step_index), 1) * len(taking)
    exposed = float((waits.exposed_ns - waits.across_ns)[taking].sum()) / count
    if exposed < MEASURABLE_RATIO * job.usual_step_ns:
        return None
    return Late("in-turn", (), 0, max(float(waits.wait_ns[taking].sum()) / count, exposed), exposed)


def _slow_by_themselves(job: Job, waits: Waits, taking: I64) -> _Blamed:
    own = own_time_ns(job, waits)[taking]
    return _most_by_themselves(job, waits, taking, own - float(np.median(own)))


def _most_by_themselves(job: Job, waits: Waits, taking: I64, more: F64) -> _Blamed:
    """Return the ranks that take longer by themselves than usual, by `more`, ns per step."""
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(more)))
    least = max(MEASURABLE_RATIO * job.usual_step_ns, _SIGMAS * sigma)
    largest = float(more.max())
    if largest < least:
        return "in-turn", (), 0
    ranks = taking[more >= max(least, _ALSO * largest)]
    of_host = _host_of(job, taking)
    # Steps in which they take longest, by themselves.
    lengths = _own_by_step(job, waits)
    slow = np.nanmax(lengths[ranks], axis=0) >= np.nanmax(lengths[taking], axis=0)
    steps = int(np.count_nonzero(slow))
    if of_host is not None and len(ranks) > 1:
        hosts = {of_host[place] for place in np.flatnonzero(np.isin(taking, ranks)).tolist()}
        if len(hosts) == 1 and len(set(of_host.tolist())) > 1:
            return "one-host", tuple(ranks.tolist()), steps
    is_most = steps > _MOST_STEPS * lengths.shape[1]
    return ("persistent" if is_most else "some-steps"), tuple(ranks.tolist()), steps


def _own_by_step(job: Job, waits: Waits) -> F64:
    """Return how long each rank takes by itself in each step, shape (ranks, steps)."""
    lengths = np.full(waits.exposed_ns.shape, -np.inf)
    for place, rank in enumerate(job.ranks):
        step, windows = job.window_step[place], rank.windows
        counted = np.flatnonzero(step >= 0)
        lengths[place, step[counted]] = (windows.end_ns - windows.start_ns)[counted]
    return lengths - waits.all_exposed_ns


def peers_of(job: Job, place: int, besides: tuple[int, ...] = ()) -> I64:
    """Return the ranks that a rank's work can be compared with, places in the job.

    Those that run about the same operations; if none does, all others, unless the rank lacks
    operations of theirs: then it has another task, and there are none.

    Args:
        job: The job.
        place: The rank.
        besides: Ranks that are not compared with, such as other late ones.
    """
    number = job.kernels_per_step
    rest: I64 = np.setdiff1d(np.arange(len(job)), (place, *besides))
    if not len(rest):
        return rest
    scale = np.maximum(number[rest].sum(axis=1), 1.0)
    apart = np.abs(number[rest] - number[place]).sum(axis=1) / scale
    alike: I64 = rest[apart <= _MOST_LACKING]
    if len(alike):
        return alike
    shared = number[rest].min(axis=0)
    lacking = float(np.maximum(shared - number[place], 0).sum())
    is_same = lacking <= _MOST_LACKING * float(shared.sum())
    sends = any(job.ranks[rank].identity.sends for rank in (place, *rest.tolist()))
    found: I64 = rest if is_same and not sends else rest[:0]
    return found
