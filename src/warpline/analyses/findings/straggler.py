"""straggler: ranks wait in collectives for a late rank, or for each other in turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.matches import cannot_match, collective_matches
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.waits import RankWaits, rank_waits
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import rank_label
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.result import Evidence, Finding, OnDevice, Skipped, rule
from warpline.result.changes import CatchUp, Change
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "straggler"
TITLE = "Ranks are imbalanced"

_SHOWN = 5
_NEARLY_ALL = 0.98
_BEYOND_CHANCE = 0.25  # of the distance from an equal share of the waits to all of them
_EXPLAINS = 0.25  # of the lateness: an excess of at least this share is reported as its cause
# Of the waits: some stay, as ranks never arrive all at once.
_REMAINING = Estimate(0.0, 0.1, 0.5)
# Time that a rank spends because others are late, or that does not explain why it is late.
_NO_REASON = [TimePart.COLLECTIVE, TimePart.COMMUNICATION_WAIT, TimePart.TAIL, TimePart.UNKNOWN]


class _Excess(NamedTuple):
    """The part of the step on which a rank spends more time than the others, per step."""

    part: TimePart
    ns: float

    @property
    def is_idle(self) -> bool:
        """Whether the GPU is idle in that time."""
        return not self.part.is_busy


class _Waits(NamedTuple):
    """How long a rank waits for others per step, in all and while it computes nothing."""

    all_ns: float
    exposed_ns: float


@rule(name=NAME, title=TITLE)
def straggler(run: Run) -> list[Finding] | Skipped:
    """Ranks that wait for others in collectives.

    What it finds: In a trace of several ranks, exposed waits in collectives of at least 5% of the
        step, and whether one rank causes them or each rank in turn.
    Why it matters: All ranks run at the pace of the slowest. A faster network or faster kernels on
        the other ranks do not help. All GPUs but one waste this time.
    How it is found: Collectives are matched across ranks, and clocks are aligned by the ends of
        the collectives (see the table stragglers). A rank is the straggler if it causes well over
        an equal share of the waits. The part of the step on which it spends more time than
        the others, excluding waits for them, is reported if it explains at least a quarter of the
        lateness.
    What to do: Make the late rank as fast as the others. The finding shows how it differs.
    Limits: Ranks missing from the trace are not considered. Profiling itself may make a rank late.
    Source: Warpline.
    """
    if len(collective_matches(run.trace).rank_process) < 2:
        return []
    skipped = cannot_match(run.trace, NAME)
    if skipped is not None:
        return skipped
    ranks = rank_waits(run)
    return _judged(run, ranks) if len(ranks) > 1 else []


def _judged(run: Run, ranks: RankWaits) -> list[Finding]:
    count, others = max(steps_counted(find_steps(run)), 1), len(ranks) - 1
    worst = int(np.argmax(ranks.exposed_ns))
    share_of_waits = ranks.exposed_ns[worst] / max(int(ranks.exposed_ns.sum()), 1)
    is_one = share_of_waits > (1 + _BEYOND_CHANCE * others) / (others + 1)
    if is_one:
        waits = _Waits(
            ranks.caused_ns[worst] / others / count, ranks.exposed_ns[worst] / others / count
        )
    else:
        waits = _Waits(ranks.wait_ns.mean() / count, ranks.exposed_wait_ns.mean() / count)
    if step_scope(run).share(waits.exposed_ns) < MEASURABLE_RATIO:
        return []
    if is_one:
        return [_one_rank(run, ranks, worst, waits)]
    return [_each_in_turn(run, ranks, waits)]


def _one_rank(run: Run, ranks: RankWaits, worst: int, waits: _Waits) -> Finding:
    process, device = int(ranks.process[worst]), int(ranks.device[worst])
    late = _capital(rank_label(run.trace, process, device))
    collectives = int(ranks.collectives[worst])
    times = format_ratio(ranks.last[worst] / max(collectives, 1))
    is_pair, each = len(ranks) == 2, step_scope(run).each
    others = "other rank" if is_pair else "other ranks"
    who = f"The {others} waits" if is_pair else f"Each of the {len(ranks) - 1} {others} waits"
    claim = (
        f"{late} arrives last in {times} of {plural(collectives, 'collective')}."
        f" {who} {_in_words(run, waits)}."
    )
    excess = _excess(run, process, device)
    fix = "Compare its work before collectives across ranks."
    if excess is not None and excess.ns >= _EXPLAINS * waits.all_ns:
        does = "idle" if excess.is_idle else "busy"
        claim += f" Its GPU is {does} {format_ns(excess.ns)} longer{each} ({excess.part.label})."
        fix = _fix(excess)
    return Finding(
        NAME,
        severity_of(step_scope(run).share(waits.exposed_ns)),
        f"{late} delays the {others} by {format_ns(waits.all_ns)}{each}",
        claim,
        (_latest(run, worst, ranks),),
        fix,
        "Profile all ranks again: `warpline stats -r stragglers` shows less waiting for it.",
        is_generic=True,
        changes=_changes(run, process, device),
        on_devices=_on_devices(run, worst, ranks),
    )


def _changes(run: Run, process: int, device: int) -> tuple[Change, ...]:
    """Return what changes if a rank is as fast as the others.

    Empty for one of several ranks in a process, whose calls cannot be attributed to ranks.
    """
    waits = collective_waits(run)
    rank_process, rank_device = waits.matches.rank_process, waits.matches.rank_device
    if np.count_nonzero(rank_process == process) > 1:
        return ()
    late = np.flatnonzero((rank_process == process) & (rank_device == device))
    is_late = np.isin(waits.rank[waits.last], late)
    waited = np.flatnonzero(is_late[waits.collective] & ~np.isin(waits.rank, late))
    return (CatchUp(process, waits.operation[waited], waits.wait_ns[waited], _REMAINING),)


def _each_in_turn(run: Run, ranks: RankWaits, waits: _Waits) -> Finding:
    return Finding(
        NAME,
        severity_of(step_scope(run).share(waits.exposed_ns)),
        f"Ranks wait for each other {format_ns(waits.all_ns)}{step_scope(run).each}, no"
        " single straggler",
        f"On average, a rank waits {_in_words(run, waits)} in collectives. No single rank"
        " causes most of it.",
        (_latest(run, None, ranks),),
        "Balance the work between collectives: sequence lengths, shards, and experts. Pin"
        " processes to cores near their GPU. Run garbage collection at the same step on all ranks."
        " Prefetch data.",
        "Profile all ranks again: `warpline stats -r stragglers` shows less waiting.",
        on_devices=_on_devices(run, None, ranks),
    )


def _in_words(run: Run, waits: _Waits) -> str:
    scope = step_scope(run)
    share = format_ratio(scope.share(waits.exposed_ns))
    text = f"{format_ns(waits.all_ns)}{scope.each}"
    if waits.exposed_ns > _NEARLY_ALL * waits.all_ns:
        return f"{text} ({share}) without computing"
    return f"{text}, {format_ns(waits.exposed_ns)} of it ({share}) without computing"


def _fix(excess: _Excess) -> str:
    """Return the advice for the part of the step on which a rank spends more time."""
    if not excess.is_idle:
        return (
            "Compare `warpline stats -r kernel_sum` across ranks, and clocks, temperatures, and"
            " power limits (nvidia-smi). The rank has more work (longer sequences, a larger shard,"
            " logging kernels) or a slower GPU."
        )
    if excess.part == TimePart.INPUT:
        return "Check data loading on this rank: its worker processes, disk, and shard."
    return (
        "Check for logging, checkpoints, or metrics on this rank only, competing processes, CPU"
        " affinity (numactl), and garbage collection. Compare `warpline stats -r cuda_api_sum`"
        " across ranks."
    )


def _on_devices(run: Run, worst: int | None, ranks: RankWaits) -> tuple[OnDevice, ...]:
    """Return how long each rank waits for a rank, or for any, and in how many collectives."""
    waits, scope = collective_waits(run), step_scope(run)
    is_behind, facts = _is_behind(run, worst, ranks)[waits.collective], []
    process, device = (
        rows[waits.rank] for rows in (waits.matches.rank_process, waits.matches.rank_device)
    )
    for place, owner in enumerate(zip(ranks.process.tolist(), ranks.device.tolist(), strict=True)):
        parts = np.flatnonzero(is_behind & (process == owner[0]) & (device == owner[1]))
        if place != worst:
            ns = int(waits.wait_ns[parts].sum())
            facts.append(scope.on_device(*owner, ns, len(parts)))
    return tuple(facts)


def _is_behind(run: Run, worst: int | None, ranks: RankWaits) -> BoolArray:
    """Return in which collectives a rank, or any rank, arrived last, shape (collectives,)."""
    waits = collective_waits(run)
    if worst is None:
        return np.ones(waits.count, np.bool_)
    last, matches = waits.rank[waits.last], waits.matches
    is_own = matches.rank_process[last] == ranks.process[worst]
    is_own &= matches.rank_device[last] == ranks.device[worst]
    is_behind: BoolArray = is_own
    return is_behind


def _latest(run: Run, worst: int | None, ranks: RankWaits) -> Evidence:
    """Return the collectives in which a rank, or any rank, arrived latest."""
    waits = collective_waits(run)
    chosen = np.flatnonzero(_is_behind(run, worst, ranks))
    latest = chosen[np.argsort(-waits.late_ns[chosen], kind="stable")][:_SHOWN]
    kernels = waits.operation[waits.last[latest]]
    start = operations(run.trace).start_ns[kernels]
    windows = zip((start - waits.late_ns[latest]).tolist(), start.tolist(), strict=True)
    median = float(np.median(waits.late_ns[chosen])) if len(chosen) else 0.0
    who = "the last rank" if worst is None else "it"
    return Evidence(
        f"{who} arrives {format_ns(median)} after the second-to-last rank (median; maximum"
        f" {format_ns(int(waits.late_ns[chosen].max(initial=0)))})",
        "kernel",
        tuple(operations(run.trace).row[kernels].tolist()),
        len(chosen),
        tuple(windows),
    )


def _excess(run: Run, process: int, device: int) -> _Excess | None:
    """Return the part of the step with a rank's largest excess over the median of the others."""
    parts = step_partition(run)
    rows = [_per_step(parts.total(rank), parts.windows.step[rank.windows]) for rank in parts.ranks]
    own = [
        place
        for place, rank in enumerate(parts.ranks)
        if rank.device == device and rank.process in (process, -1)
    ]
    rest = [row for place, row in enumerate(rows) if place not in own]
    if len(own) != 1 or not rest:
        return None
    more = rows[own[0]] - np.median(np.array(rest), axis=0)
    more[_NO_REASON] = 0.0
    most = int(np.argmax(more))
    return _Excess(TimePart.at(most), float(more[most])) if more[most] > 0 else None


def _per_step(sums: I64, step: I64) -> F64:
    return sums / max(int(np.count_nonzero(step >= 0)), 1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
