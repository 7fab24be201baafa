"""straggler: ranks wait in collectives for one that is late, or for each other in turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.part_meanings import PART_MEANINGS
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.segments import IDLE_CAUSES, PARTS
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.matches import cannot_match, collective_matches
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.names import rank_label
from warpline.derived.ranks.waits import RankWaits, rank_waits
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64
from warpline.result import Evidence, Finding, Skipped, rule
from warpline.result.changes import CatchUp, Change, Range
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "straggler"
TITLE = "Ranks wait for others in collectives"

_SHOWN = 5
_NEARLY_ALL = 0.98
_BEYOND_CHANCE = 0.25  # of the way from an equal share of the waits to all of them
_EXPLAINS = 0.25  # of the lateness, from which on what a rank does more of is named
# Ranks never come all at once: of the waits, this may stay.
_REMAINING = Range(0.0, 0.1, 0.5)
# Time that a rank spends because others are late, or that says nothing of what makes it late.
_NO_REASON = ("collective", "communication-wait", "tail", "unknown")


class _Excess(NamedTuple):
    """What a rank spends more time on than the others, per step."""

    part: str
    ns: float

    @property
    def is_idle(self) -> bool:
        """Whether the device does nothing in that time."""
        return self.part in IDLE_CAUSES


class _Waits(NamedTuple):
    """For how long a rank waits for others per step, and for how long it computes nothing then."""

    all_ns: float
    exposed_ns: float


@rule(name=NAME, title=TITLE)
def straggler(trace: Trace, steps: str | None) -> list[Finding] | Skipped:
    """Ranks that wait in collectives for others.

    What it finds: In a trace of several ranks, waiting in collectives that takes at least 5% of
        the step of the ranks that wait, while these compute nothing; and whether one rank causes
        it, or each in turn.
    Why it matters: All ranks go at the pace of the last one. No faster network and no faster
        kernel on the others helps; the time is lost on all GPUs but one.
    How it is found: Collectives of different ranks are paired, and clocks aligned by their ends,
        see the table stragglers. One rank is to blame if its share of the waits that it caused is
        well above an equal one. What it spends more of its step on than the others do, waiting
        for them left aside, is named if that is a quarter of its lateness or more.
    What to do: Make the late rank as fast as the others: the finding says in what it differs.
    Limits: Ranks that are not in the trace are not seen. Profiling itself may make one rank late.
    Source: Warpline.
    """
    if len(collective_matches(trace).lane_process) < 2:
        return []
    skipped = cannot_match(trace, NAME)
    if skipped is not None:
        return skipped
    found = rank_waits(trace, steps)
    return _judged(trace, steps, found) if len(found) > 1 else []


def _judged(trace: Trace, steps: str | None, found: RankWaits) -> list[Finding]:
    count, others = max(steps_counted(find_steps(trace, steps)), 1), len(found) - 1
    worst = int(np.argmax(found.exposed_ns))
    share_of_waits = found.exposed_ns[worst] / max(int(found.exposed_ns.sum()), 1)
    is_one = share_of_waits > (1 + _BEYOND_CHANCE * others) / (others + 1)
    if is_one:
        waits = _Waits(
            found.caused_ns[worst] / others / count, found.exposed_ns[worst] / others / count
        )
    else:
        waits = _Waits(found.wait_ns.mean() / count, found.exposed_wait_ns.mean() / count)
    if step_scope(trace, steps).share(waits.exposed_ns) < MEASURABLE_RATIO:
        return []
    if is_one:
        return [_one_rank(trace, steps, found, worst, waits)]
    return [_each_in_turn(trace, steps, found, waits)]


def _one_rank(
    trace: Trace, steps: str | None, found: RankWaits, worst: int, waits: _Waits
) -> Finding:
    process, device = int(found.process[worst]), int(found.device[worst])
    late = _capital(rank_label(trace, process, device))
    collectives = int(found.collectives[worst])
    times = format_ratio(found.last[worst] / max(collectives, 1))
    is_pair = len(found) == 2
    who = "the other rank waits" if is_pair else f"each of the {len(found) - 1} others waits"
    claim = (
        f"{late} comes last in {times} of {plural(collectives, 'collective')}; {who} for it"
        f" {_in_words(trace, steps, waits)}."
    )
    excess = _excess(trace, steps, process, device)
    fix = "compare what it does before its collectives with what the others do"
    if excess is not None and excess.ns >= _EXPLAINS * waits.all_ns:
        more = f"{format_ns(excess.ns)}{step_scope(trace, steps).each}"
        than = f"than {'the other' if is_pair else 'others'}"
        does = "longer idle" if excess.is_idle else "longer busy"
        why = f"({excess.part}: {PART_MEANINGS[excess.part]})"
        claim += f" Its device is {more} {does} {than} {why}."
        fix = _fix(excess)
    return Finding(
        NAME,
        severity_of(step_scope(trace, steps).share(waits.exposed_ns)),
        f"{late} holds up the other{'' if is_pair else 's'}",
        claim,
        (_latest(trace, steps, worst, found),),
        fix,
        "record all ranks again: `warpline stats -r stragglers` shows less waiting for it",
        is_generic=True,
        changes=_changes(trace, steps, process, device),
    )


def _changes(trace: Trace, steps: str | None, process: int, device: int) -> tuple[Change, ...]:
    """Return what is different if a rank is as fast as the others.

    Nothing for one of several ranks in a process, whose calls are not known to be the rank's.
    """
    found = collective_waits(trace, steps)
    lane_process, lane_device = found.matches.lane_process, found.matches.lane_device
    if np.count_nonzero(lane_process == process) > 1:
        return ()
    late = np.flatnonzero((lane_process == process) & (lane_device == device))
    is_late = np.isin(found.lane[found.last], late)
    waited = np.flatnonzero(is_late[found.collective] & ~np.isin(found.lane, late))
    return (CatchUp(process, found.operation[waited], found.wait_ns[waited], _REMAINING),)


def _each_in_turn(trace: Trace, steps: str | None, found: RankWaits, waits: _Waits) -> Finding:
    return Finding(
        NAME,
        severity_of(step_scope(trace, steps).share(waits.exposed_ns)),
        "Ranks wait for each other in turn",
        f"In collectives a rank waits {_in_words(trace, steps, waits)} for others that come later;"
        " no single one causes most of it.",
        (_latest(trace, steps, None, found),),
        "even out what ranks have to do between collectives (lengths of sequences, sizes of"
        " shards, experts), and steady their hosts: pin processes to cores near their GPU,"
        " collect garbage at the same step on all ranks, read data ahead",
        "record all ranks again: `warpline stats -r stragglers` shows less waiting",
    )


def _in_words(trace: Trace, steps: str | None, waits: _Waits) -> str:
    scope = step_scope(trace, steps)
    share = format_ratio(scope.share(waits.exposed_ns))
    text = f"{format_ns(waits.all_ns)}{scope.each}"
    if waits.exposed_ns > _NEARLY_ALL * waits.all_ns:
        return f"{text} ({share}), computing nothing"
    return f"{text}, {format_ns(waits.exposed_ns)} of it ({share}) while it computes nothing"


def _fix(excess: _Excess) -> str:
    """Return what to look at, by what a rank spends more time on."""
    if not excess.is_idle:
        return (
            "see whether it has more work (longer sequences, a larger shard, logging kernels) or"
            " a slower GPU: compare `warpline stats -r kernel_sum` of the ranks, and clocks,"
            " temperature and power limit with nvidia-smi"
        )
    if excess.part == "input":
        return "look at how this rank gets its data: its workers, its disk, its share of the files"
    return (
        "look at the host of this rank: logging, checkpoints or metrics that only it does, other"
        " processes on its cores, cores far from its GPU (numactl), garbage collection; compare"
        " `warpline stats -r cuda_api_sum` of the ranks"
    )


def _latest(trace: Trace, steps: str | None, worst: int | None, ranks: RankWaits) -> Evidence:
    """Return the collectives in which a rank, or any, was latest."""
    found = collective_waits(trace, steps)
    matches, last = found.matches, found.last
    chosen = np.arange(found.count)
    if worst is not None:
        lane = found.lane[last]
        is_own = matches.lane_process[lane] == ranks.process[worst]
        chosen = np.flatnonzero(is_own & (matches.lane_device[lane] == ranks.device[worst]))
    latest = chosen[np.argsort(-found.late_ns[chosen], kind="stable")][:_SHOWN]
    kernels = found.operation[last[latest]]
    start = operations(trace).start_ns[kernels]
    windows = zip((start - found.late_ns[latest]).tolist(), start.tolist(), strict=True)
    median = float(np.median(found.late_ns[chosen])) if len(chosen) else 0.0
    whose = "the last rank" if worst is None else "it"
    return Evidence(
        f"{whose} came {format_ns(median)} after the next to last (median), and"
        f" {format_ns(int(found.late_ns[chosen].max(initial=0)))} at most",
        "kernel",
        tuple(operations(trace).row[kernels].tolist()),
        len(chosen),
        tuple(windows),
    )


def _excess(trace: Trace, steps: str | None, process: int, device: int) -> _Excess | None:
    """Return the part of its steps that a rank spends most on beyond the median of the others."""
    found = step_partition(trace, steps)
    rows = [_per_step(found.total(lane), found.windows.step[lane.windows]) for lane in found.lanes]
    own = [
        place
        for place, lane in enumerate(found.lanes)
        if lane.device == device and lane.process in (process, -1)
    ]
    rest = [row for place, row in enumerate(rows) if place not in own]
    if len(own) != 1 or not rest:
        return None
    more = rows[own[0]] - np.median(np.array(rest), axis=0)
    more[[PARTS.index(part) for part in _NO_REASON]] = 0.0
    most = int(np.argmax(more))
    return _Excess(PARTS[most], float(more[most])) if more[most] > 0 else None


def _per_step(sums: I64, step: I64) -> F64:
    return sums / max(int(np.count_nonzero(step >= 0)), 1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
