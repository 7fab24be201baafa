"""The problems of a job, as findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.estimate import Estimate
from warpline.fleet.group_findings import (
    are_experts,
    found_in_groups,
    slow_network,
    slow_stage,
)
from warpline.fleet.hanging import Difference, Hang, difference_of, hang_of
from warpline.fleet.jobs import Job
from warpline.fleet.lateness import Late
from warpline.fleet.naming import capital, names
from warpline.fleet.networks import Networks, SlowGroup
from warpline.fleet.parallel import Parallel
from warpline.fleet.stragglers import LateCauses
from warpline.fleet.waiting import Waits
from warpline.result.fleet import FleetFinding
from warpline.units import format_bytes, format_mhz, format_ns, format_ratio, plural

STOPPED = ("hang", "collective-mismatch")  # rules: nothing else matters then
ORDER_FIX = (
    "All ranks of a group must call the same collectives, in the same order, with the same sizes"
    " and types. Look for a branch, a loop or a shape that depends on the rank or on its data."
)
_SLOWER_CLOCK = 0.03  # than the median of the job
_TURN_FIX = (
    "Balance the work between collectives: sequence lengths, shards, and experts. Pin processes to"
    " cores near their GPU. Run garbage collection at the same step on all ranks. Prefetch data."
)


def found_in(
    job: Job,
    waits: Waits,
    late: tuple[Late | None, LateCauses],
    networks: Networks,
    parallel: Parallel,
) -> Iterator[FleetFinding]:
    """Yield the problems of a job.

    Args:
        job: The job.
        waits: Its waits.
        late: Whom the others wait for, and why.
        networks: Its collectives.
        parallel: Its parallel groups.
    """
    found, causes = late
    difference = difference_of(job)
    if difference is not None:
        yield _difference(job, difference)
    hang = hang_of(job)
    if hang is not None:
        yield _hang(job, hang)
    if found is not None and found.pattern == "one-stage":
        yield slow_stage(job, parallel, found, causes)
    elif found is not None and not are_experts(parallel, found):
        yield _late(job, waits, found, causes)
    yield from found_in_groups(job, parallel, found)
    hosts = networks.slow_hosts
    if hosts is not None and hosts.more_ns >= MEASURABLE_RATIO * causes.now_ns:
        yield slow_network(hosts, causes.now_ns)
        networks = networks._replace(
            slow=tuple(slow for slow in networks.slow if slow not in hosts.groups)
        )
    for slow in networks.slow[:3]:
        if slow.more_ns >= MEASURABLE_RATIO * causes.now_ns:
            yield _slow_group(job, slow, causes.now_ns)
    yield from _clocks(job)


def numbered(findings: Iterable[FleetFinding]) -> tuple[FleetFinding, ...]:
    """Return findings in order, numbered: a hang first, then by saving and severity."""
    order = sorted(
        findings,
        key=lambda item: (
            item.rule not in STOPPED,
            -(item.saving_ns.central if item.saving_ns is not None else 0.0),
            ("high", "medium", "low", "info").index(item.severity),
        ),
    )
    return tuple(replace(item, id=f"F{place}") for place, item in enumerate(order, 1))


def _in_turn(job: Job, late: Late, waited: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return the title, the end of the claim, the fix and the ranks of waits without straggler."""
    title = f"Ranks wait for each other {waited}"
    suspect = late.suspect
    if suspect is None:
        more = " No rank and no machine causes most of it."
        return f"{title}, no single straggler", more, _TURN_FIX, ()
    name = job.name(suspect.rank)
    of = plural(max(len(job.step_index), 1), "step")
    more = (
        f" {capital(name)} causes {format_ratio(suspect.ratio)} of all waits, most of them in"
        f" {suspect.steps:,} of {of}: one of {len(job):,} ranks may do so by chance."
    )
    fix = f"Record more steps. If {name} is late in them, too, look at its CPU, GPU and input."
    return f"{title}, mostly for {name}, which may be chance in {of}", more, fix, (name,)


def _late(job: Job, waits: Waits, late: Late, causes: LateCauses) -> FleetFinding:
    each = " per step" if job.has_steps else ""
    exposed = format_ratio(late.exposed_ns / causes.now_ns if causes.now_ns else 0.0)
    waited = f"{format_ns(late.waited_ns)}{each}"
    severity = severity_of(late.exposed_ns / causes.now_ns if causes.now_ns else 0.0)
    step, saving = causes.step_ns, None
    if step is not None:
        saving = Estimate(
            *(max(causes.now_ns - ns, 0.0) for ns in (step.high, step.central, step.low))
        )
    if late.pattern == "in-turn":
        claim = (
            f"On average, a rank waits {waited} for others, {format_ns(late.exposed_ns)}"
            f" ({exposed}) without computing."
        )
        title, more, fix, suspects = _in_turn(job, late, waited)
        return FleetFinding(
            "", "ranks-in-turn", severity, title, claim + more, fix, suspects, step, saving
        )
    who = names(job, [*late.ranks])
    is_pair = len(job) == 2
    others = "the other rank waits" if is_pair else "the others wait"
    first, cause = causes.ranks[0], causes.causes[0]
    behind = all(item.role == "behind" for item in causes.ranks)
    host = f" on {first.host}" if first.host and len(job.hosts) > 1 else ""
    is_one = len(late.ranks) == 1
    role = "runs behind" if behind else ("is the straggler" if is_one else "are the stragglers")
    if late.pattern == "one-host":
        title = f"Ranks of one machine, {first.host}, delay the others: {cause.text}"
    else:
        reason = cause.text or f"{others} {waited}"
        title = f"{capital(who)}{host} {role}: {reason}"
    last = waits.last[list(late.ranks)].sum() / max(int(waits.collectives[late.ranks[0]]), 1)
    of = plural(max(len(job.step_index), 1), "step")
    claim = (
        f"{cause.claim} {'The' if is_pair else 'Each'} other rank waits {waited} for"
        f" {'it' if is_one else 'them'}, {format_ns(late.exposed_ns)} ({exposed}) without"
        " computing."
        f" {'It arrives' if is_one else 'They arrive'} last in {format_ratio(float(last))} of"
        f" {plural(int(waits.collectives[late.ranks[0]]), 'collective')}, and"
        f" {'causes' if is_one else 'cause'} most waits in {late.steps:,} of {of}."
    )
    return FleetFinding(
        "",
        "slow-host-of-ranks" if late.pattern == "one-host" else "straggler",
        severity,
        title,
        claim,
        cause.fix,
        tuple(job.name(rank) for rank in late.ranks),
        step,
        saving,
    )


def _slow_group(job: Job, slow: SlowGroup, step_ns: float) -> FleetFinding:
    size = f" of {format_bytes(slow.bytes)}" if slow.bytes >= 0 else ""
    who = names(job, slow.ranks)
    times = slow.median_ns / slow.usual_ns if slow.usual_ns else 0.0
    return FleetFinding(
        "",
        "slow-communicator",
        severity_of(slow.more_ns / step_ns if step_ns else 0.0),
        f"{slow.operation} among {who} takes {times:.1f} times as long as in other groups",
        f"From the last arrival to the end, {slow.operation}{size} among {who} takes"
        f" {format_ns(slow.median_ns)} (median), in other groups {format_ns(slow.usual_ns)}:"
        f" {format_ns(slow.more_ns)} more per step. No rank in it is late: that points to"
        " the network.",
        "Check the links of these machines: cables, NICs, NVLink errors (nvidia-smi nvlink -e), and"
        " the ring or tree that NCCL chose (NCCL_DEBUG=INFO).",
        tuple(job.name(rank) for rank in slow.ranks),
    )


def _clocks(job: Job) -> Iterator[FleetFinding]:
    """Yield a finding about GPUs that run at lower clocks than those of the other ranks."""
    hz = np.array([rank.identity.sm_clock_hz or 0 for rank in job.ranks], np.float64)
    known = np.flatnonzero(hz > 0)
    if len(known) < 3:
        return
    usual = float(np.median(hz[known]))
    slow = known[hz[known] < (1 - _SLOWER_CLOCK) * usual]
    if not len(slow) or len(slow) > len(known) // 2:
        return
    slowest = int(slow[np.argmin(hz[slow])])
    identity = job.ranks[slowest].identity
    limits = f" ({identity.clock_limits})" if identity.clock_limits else ""
    yield FleetFinding(
        "",
        "slow-clock",
        "info",
        f"{plural(len(slow), 'GPU')} at lower clocks than the others: {names(job, slow.tolist())}",
        f"The SMs of {job.name(slowest)} run at {format_mhz(hz[slowest])}{limits}, the median of"
        f" the ranks is {format_mhz(usual)}.",
        "Compare temperatures and power limits (nvidia-smi -q -d PERFORMANCE,CLOCK,POWER).",
        tuple(job.name(rank) for rank in slow.tolist()),
    )


def _hang(job: Job, hang: Hang) -> FleetFinding:
    missing, waiting = names(job, hang.missing), names(job, hang.waiting)
    number = "" if hang.sequence is None else f" {hang.sequence}"
    return FleetFinding(
        "",
        "hang",
        "high",
        f"The job hangs: {missing} did not join {hang.operation}{number}",
        f"{capital(waiting)} called {hang.operation}{number} of communicator {hang.communicator}"
        f" {format_ns(hang.waited_ns)} before the recordings end, and it has not ended."
        f" {capital(missing)} completed all calls of it before."
        + "".join(doing(job.name(rank), job.ranks[rank].doing) for rank in hang.missing[:3]),
        f"Look at the last ranges and stacks of {missing}: it runs other code, waits for something"
        " else, or died.",
        tuple(job.name(rank) for rank in hang.missing),
    )


def doing(name: str, ranges: Sequence[str]) -> str:
    """Return a sentence about the ranges that a rank had open at the end of its recording."""
    if not ranges:
        return ""
    return f" At the end of its recording, {name} is in {' > '.join(f'`{one}`' for one in ranges)}."


def _difference(job: Job, found: Difference) -> FleetFinding:
    said = [
        (names(job, ranks), f"{operation}{f' of {format_bytes(size)}' if size >= 0 else ''}")
        for ranks, operation, size in found.sides
    ]
    (most, usual), (fewest, other) = said[:2]
    # Where as many ranks called one as the other, neither is the usual one.
    is_even = len(found.sides[0][0]) == len(found.sides[1][0])
    wrong = [rank for ranks, _, _ in found.sides[0 if is_even else 1 :] for rank in ranks]
    return FleetFinding(
        "",
        "collective-mismatch",
        "high",
        f"The job hangs: {fewest} called {other}, {most} {usual}",
        " ".join(f"{capital(who)} called {what}." for who, what in said)
        + f" It is the same call of communicator {found.communicator}, and it has not ended"
        f" {format_ns(found.waited_ns)} before the recordings end.",
        ORDER_FIX,
        tuple(job.name(rank) for rank in wrong),
    )
