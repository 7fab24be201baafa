"""straggler: ranks wait in collectives for a late rank, or for each other in turn."""

from __future__ import annotations

import re

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.matches import cannot_match, collective_matches
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.causes import LateRank, capital, cause_of
from warpline.derived.ranks.late import Lateness, is_behind, lateness
from warpline.derived.ranks.peers import working_ranks
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import rank_label
from warpline.estimate import Estimate
from warpline.result import Evidence, Finding, OnDevice, Skipped, rule
from warpline.result.changes import (
    CatchUp,
    Change,
)
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "straggler"
TITLE = "Ranks are imbalanced"

_SHOWN = 5
_NEARLY_ALL = 0.98
# Of the waits: some stay, as ranks never arrive all at once.
_REMAINING = Estimate(0.0, 0.1, 0.5)


@rule(name=NAME, title=TITLE)
def straggler(run: Run) -> list[Finding] | Skipped:
    """Ranks that wait for others in collectives.

    What it finds: In a trace of several ranks, exposed waits in collectives of at least 5% of the
        step, and whether one rank causes them or each rank in turn.
    Why it matters: All ranks run at the pace of the slowest. A faster network or faster kernels on
        the other ranks do not help. All GPUs but one waste this time.
    How it is found: Collectives are matched across ranks, and clocks are aligned by the ends of
        the collectives (see the table stragglers). A rank is the straggler if it causes well over
        an equal share of the waits. Its operations, their durations, and its CPU time by range are
        compared with those of the other ranks (see the table rank_differences). A difference of at
        least a quarter of the lateness is reported as the cause: operations that no other rank
        runs, the same operations taking longer, CPU time in a range or in CPU gaps. A rank whose
        CPU works as long as the others' only runs behind, which does not make steps longer.
    What to do: Make the late rank as fast as the others. The finding shows how it differs.
    Limits: Ranks missing from the trace are not considered. Profiling itself may make a rank late.
        Ranks that send each other data outside collectives or lack kernels of the others may have
        different tasks by design, such as stages of a pipeline: their work is not compared.
    Source: Warpline.
    """
    if len(collective_matches(run.trace).rank_process) < 2:
        return []
    skipped = cannot_match(run.trace, NAME)
    if skipped is not None:
        return skipped
    found = lateness(run)
    if found is None:
        return []
    return [_each_in_turn(run, found) if found.rank < 0 else _one_rank(run, found)]


def _one_rank(run: Run, waits: Lateness) -> Finding:
    ranks, scope = rank_waits(run), step_scope(run)
    process, device = int(ranks.process[waits.rank]), int(ranks.device[waits.rank])
    is_pair = len(ranks) == 2
    late = LateRank(
        process,
        device,
        working_ranks(run).place(process, device),
        rank_label(run.trace, process, device),
        "the other rank" if is_pair else "the other ranks",
        waits,
    )
    collectives = int(ranks.collectives[waits.rank])
    times = format_ratio(ranks.last[waits.rank] / max(collectives, 1))
    who = "The other rank waits" if is_pair else f"Each of the {len(ranks) - 1} other ranks waits"
    cause = cause_of(run, late)
    specific = cause is not None and bool(cause.changes)
    claim = (
        f"{who} {_in_words(run, waits)}."
        f" {capital(late.name)} arrives last in {times} of {plural(collectives, 'collective')}."
    )
    reason = f"{late.others} {'waits' if is_pair else 'wait'} {format_ns(waits.waited_ns)}"
    return Finding(
        NAME,
        severity_of(scope.share(waits.exposed_ns)),
        f"{capital(late.name)} {'is the straggler' if cause is None else cause.role}:"
        f" {reason + scope.each if not specific or cause is None else cause.title}",
        claim if cause is None else f"{cause.claim} {claim}",
        (_latest(run, waits.rank),),
        "Compare its work before collectives across ranks." if cause is None else cause.fix,
        "Profile all ranks again: `warpline stats -r stragglers` shows less waiting for it.",
        is_generic=not specific,
        is_lateness=True,
        changes=cause.changes if cause and cause.changes else _catches_up(run, process, device),
        on_devices=_on_devices(run, waits.rank),
    )


def _catches_up(run: Run, process: int, device: int) -> tuple[Change, ...]:
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


def _each_in_turn(run: Run, waits: Lateness) -> Finding:
    scope = step_scope(run)
    return Finding(
        NAME,
        severity_of(scope.share(waits.exposed_ns)),
        f"Ranks wait for each other {format_ns(waits.waited_ns)}{scope.each}, no single straggler",
        f"On average, a rank waits {_in_words(run, waits)}. No single rank causes most of it.",
        (_latest(run, -1),),
        "Balance the work between collectives: sequence lengths, shards, and experts. Pin"
        " processes to cores near their GPU. Run garbage collection at the same step on all ranks."
        " Prefetch data.",
        "Profile all ranks again: `warpline stats -r stragglers` shows less waiting.",
        on_devices=_on_devices(run, -1),
    )


def _in_words(run: Run, waits: Lateness) -> str:
    """Return how long ranks wait, and in which collectives."""
    scope = step_scope(run)
    share = format_ratio(scope.share(waits.exposed_ns))
    text = f"{format_ns(waits.waited_ns)}{scope.each}"
    where = f" in {_hyphenated(waits.operation)}" if waits.operation else " in collectives"
    if waits.exposed_ns > _NEARLY_ALL * waits.waited_ns:
        return f"{text} ({share}){where}"
    return f"{text}{where}, {format_ns(waits.exposed_ns)} of it ({share}) without computing"


def _hyphenated(operation: str) -> str:
    """Return the name of a collective in words: ``AllReduce`` is all-reduce."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", operation).lower()


def _on_devices(run: Run, worst: int) -> tuple[OnDevice, ...]:
    """Return how long each rank waits for a rank, or for any, and in how many collectives."""
    waits, scope, ranks = collective_waits(run), step_scope(run), rank_waits(run)
    behind, facts = is_behind(run, worst)[waits.collective], []
    process, device = (
        rows[waits.rank] for rows in (waits.matches.rank_process, waits.matches.rank_device)
    )
    for place, owner in enumerate(zip(ranks.process.tolist(), ranks.device.tolist(), strict=True)):
        parts = np.flatnonzero(behind & (process == owner[0]) & (device == owner[1]))
        if place != worst:
            ns = int(waits.wait_ns[parts].sum())
            facts.append(scope.on_device(*owner, ns, len(parts)))
    return tuple(facts)


def _latest(run: Run, worst: int) -> Evidence:
    """Return the collectives in which a rank, or any rank, arrived latest."""
    waits = collective_waits(run)
    chosen = np.flatnonzero(is_behind(run, worst))
    latest = chosen[np.argsort(-waits.late_ns[chosen], kind="stable")][:_SHOWN]
    kernels = waits.operation[waits.last[latest]]
    start = operations(run.trace).start_ns[kernels]
    windows = zip((start - waits.late_ns[latest]).tolist(), start.tolist(), strict=True)
    median = float(np.median(waits.late_ns[chosen])) if len(chosen) else 0.0
    who = "the last rank" if worst < 0 else "it"
    return Evidence(
        f"{who} arrives {format_ns(median)} after the second-to-last rank (median; maximum"
        f" {format_ns(int(waits.late_ns[chosen].max(initial=0)))})",
        "kernel",
        tuple(operations(run.trace).row[kernels].tolist()),
        len(chosen),
        tuple(windows),
    )
