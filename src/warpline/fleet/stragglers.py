"""The ranks that others wait for, why, and what a step would take without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpline.estimate import Estimate
from warpline.fleet.causes import Cause, cause_of, stage_cause
from warpline.fleet.experts import EXPERTS_FIX
from warpline.fleet.jobs import Job
from warpline.fleet.lateness import Late
from warpline.fleet.matching import Clock, Group
from warpline.fleet.parallel import Parallel
from warpline.fleet.pipelines import balanced, without_ranks
from warpline.fleet.waiting import Waits
from warpline.fleet.without import step_without
from warpline.result.fleet import Straggler

_MOST_EXPLAINED = 16  # late ranks whose causes are examined


class LateCauses(NamedTuple):
    """Late ranks with their causes.

    Attributes:
        ranks: The stragglers, those that take longest first.
        causes: The cause of each.
        step_ns: The step if they were as fast as their peers; None if unknown.
        now_ns: The median step of the ranks now.
    """

    ranks: tuple[Straggler, ...]
    causes: tuple[Cause, ...]
    step_ns: Estimate | None
    now_ns: float


def stragglers_of(
    job: Job,
    matched: tuple[Sequence[Group], Sequence[Clock | None]],
    waits: Waits,
    parallel: Parallel,
    late: Late | None,
) -> LateCauses:
    """Return the stragglers of a job.

    Args:
        job: The job.
        matched: Its matched collectives, and the clock of each rank.
        waits: Its waits.
        parallel: Its parallel groups.
        late: Whom the others wait for.
    """
    now_ns = job.usual_step_ns
    if late is None:
        return LateCauses((), (), None, now_ns)
    order = sorted(late.ranks, key=lambda rank: -float(waits.caused_exposed_ns[rank].sum()))
    if late.pattern == "one-stage":
        causes = [stage_cause(job, parallel.layout.stage, late)]
    else:
        causes = [_cause(job, parallel, rank, late) for rank in order[:_MOST_EXPLAINED]]
    causes += causes[-1:] * (len(order) - len(causes))
    pairs = sorted(zip(order, causes, strict=True), key=lambda pair: -pair[1].more_ns)
    is_behind = bool(pairs) and all(cause.kind == "behind" for _, cause in pairs)
    step_ns = _step_without(job, matched, waits, parallel, late)
    if is_behind:
        step_ns = Estimate(now_ns, now_ns, now_ns)
    return LateCauses(
        tuple(_straggler(job, rank, cause, late) for rank, cause in pairs),
        tuple(cause for _, cause in pairs),
        step_ns,
        now_ns,
    )


def _cause(job: Job, parallel: Parallel, rank: int, late: Late) -> Cause:
    """Return why a rank is late; if it has more of the experts' work, that is the cause."""
    experts = parallel.experts
    if experts is None or rank not in experts.hot:
        return cause_of(job, rank, late)
    times = float(experts.load[rank])
    text = f"its experts have {times:.2f} times the mean work of its group"
    claim = (
        f"Its GEMMs between all-to-alls take {times:.2f} times as long as the mean of its group,"
        " and the rest of its work as long as that of the others."
    )
    return Cause("uneven-experts", text, claim, EXPERTS_FIX, late.exposed_ns)


def _step_without(
    job: Job,
    matched: tuple[Sequence[Group], Sequence[Clock | None]],
    waits: Waits,
    parallel: Parallel,
    late: Late,
) -> Estimate | None:
    pipeline = parallel.pipeline
    if pipeline is None:
        return step_without(job, *matched, late.ranks)
    if late.pattern == "one-stage":
        return balanced(pipeline, job.usual_step_ns)
    if not late.ranks:
        return None
    return without_ranks(job, parallel.layout, waits, late.ranks, job.usual_step_ns)


def _straggler(job: Job, rank: int, cause: Cause, late: Late) -> Straggler:
    return Straggler(
        name=job.name(rank),
        rank=job.numbers[rank],
        host=job.ranks[rank].identity.host,
        pattern=late.pattern,
        role="behind" if cause.kind == "behind" else "straggler",
        cause=cause.kind,
        text=cause.claim,
        more_ns=cause.more_ns,
        fix=cause.fix,
    )
