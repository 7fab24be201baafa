"""straggler: ranks wait in collectives for a late rank, or for each other in turn."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.matches import cannot_match, collective_matches
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.nouns import are_plain_fp32, counted, noun
from warpline.derived.ranks.extra_work import ExtraWork, extra_work
from warpline.derived.ranks.host_time import HostTime, extra_host_time
from warpline.derived.ranks.late import EXPLAINS, Lateness, is_behind, lateness
from warpline.derived.ranks.longer_work import LongerWork, longer_work
from warpline.derived.ranks.peers import has_same_program, working_ranks
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import rank_label
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64
from warpline.result import Evidence, Finding, OnDevice, Skipped, rule
from warpline.result.changes import (
    CatchUp,
    Change,
    DropOperations,
    RemoveHostTime,
    ScaleOperations,
)
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "straggler"
TITLE = "Ranks are imbalanced"

_SHOWN = 5
_NEARLY_ALL = 0.98
# Of the waits: some stay, as ranks never arrive all at once.
_REMAINING = Estimate(0.0, 0.1, 0.5)
_STAYS = 0.25  # at worst, of the CPU time that a rank spends beyond the others
# Time that a rank spends because others are late, or that does not explain why it is late.
_NO_REASON = [TimePart.COLLECTIVE, TimePart.COMMUNICATION_WAIT, TimePart.TAIL, TimePart.UNKNOWN]


class _Late(NamedTuple):
    """The late rank, for wording."""

    process: int
    device: int
    place: int  # in `working_ranks`
    name: str  # "rank 1"
    others: str  # "the other rank"
    waits: Lateness


class _Cause(NamedTuple):
    """Why a rank is late.

    Attributes:
        title: To complete "Rank 1 is the straggler: ...".
        claim: A sentence with the facts.
        fix: The advice.
        changes: What makes the rank as fast as the others; empty if that is not known.
    """

    title: str
    claim: str
    fix: str
    changes: tuple[Change, ...]


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
        runs, the same operations taking longer, CPU time in a range or in CPU gaps.
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
    late = _Late(
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
    cause = _cause(run, late)
    specific = cause is not None and bool(cause.changes)
    claim = (
        f"{who} {_in_words(run, waits)}."
        f" {_capital(late.name)} arrives last in {times} of {plural(collectives, 'collective')}."
    )
    reason = f"{late.others} {'waits' if is_pair else 'wait'} {format_ns(waits.waited_ns)}"
    return Finding(
        NAME,
        severity_of(scope.share(waits.exposed_ns)),
        f"{_capital(late.name)} is the straggler:"
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


def _cause(run: Run, late: _Late) -> _Cause | None:
    """Return why a rank is late: the first difference that explains enough of it."""
    enough = EXPLAINS * late.waits.waited_ns
    extra = extra_work(run, late.process, late.device)
    if extra is not None and extra.all_ns >= enough:
        return _more_work(run, late, extra)
    longer = longer_work(run, late.process, late.device)
    if longer is not None and longer.ns >= enough:
        return _longer_work(run, late, longer)
    host = extra_host_time(run, late.process, late.device)
    more = _more(run, late.process, late.device)
    part = TimePart.at(int(np.argmax(more)))
    if host is not None and host.ns >= enough and not part.is_busy:
        return _host_time(run, late, host)
    if part.is_busy and not has_same_program(run, late.place):
        busy_ns = float(more[list(BUSY)].sum())
        return _other_work(run, busy_ns) if busy_ns >= enough else None
    return _part_of_step(run, part, float(more[part])) if more[part] >= enough else None


def _more_work(run: Run, late: _Late, extra: ExtraWork) -> _Cause:
    category = operation_categories(run.trace)[extra.operations]
    main = extra.operations[category == extra.category]
    name = noun(extra.category, is_plain_fp32=are_plain_fp32(run.trace, main))
    many, each = counted(extra.number, name), step_scope(run).each
    where = _where(extra.range_path)
    rest = ""
    if extra.all_ns > extra.ns / _NEARLY_ALL:
        rest = f" All operations that only it runs take {format_ns(extra.all_ns)}{each}."
    return _Cause(
        f"{many}{where}, {format_ns(extra.ns)}{each}, that no other rank runs",
        f"{_capital(late.name)} runs {many}{where} that no other rank runs:"
        f" {format_ns(extra.ns)}{each}.{rest}",
        f"Remove this work from {late.name}, share it among the ranks, or run it less often. If it"
        " is logging, metrics, or validation, run it outside the step, or on a stream that the"
        " collectives do not wait for.",
        (DropOperations(extra.operations),),
    )


def _longer_work(run: Run, late: _Late, longer: LongerWork) -> _Cause:
    each, more = step_scope(run).each, format_ns(longer.ns)
    changes = tuple(
        ScaleOperations(places, Estimate(factor, factor, factor))
        for places, factor in longer.scaled
    )
    slower = f"{longer.ratio:.2f} times as long as on {late.others}"
    if longer.is_everywhere:
        return _Cause(
            f"its GPU takes {more} longer{each} for the same work",
            f"All kinds of kernels take longer on {late.name}, in all {slower}: {more}{each}."
            " Its GPU is slower.",
            "Compare clocks, temperatures, and power limits of the GPUs (nvidia-smi -q -d"
            " PERFORMANCE,CLOCK,POWER), and look for other processes on this GPU. Replace or"
            " exclude a GPU that stays slower.",
            changes,
        )
    return _Cause(
        f"the same number of {noun(longer.category)}s takes {more} longer{each}",
        f"{_capital(late.name)} runs as many operations as {late.others}, but they take {slower}:"
        f" {more}{each}, mostly {longer.category.meaning}.",
        "Compare the sizes of inputs across ranks: balance sequence lengths, shards, and experts."
        " If sizes are equal, compare clocks and temperatures of the GPUs (nvidia-smi).",
        changes,
    )


def _host_time(run: Run, late: _Late, host: HostTime) -> _Cause:
    each, more = step_scope(run).each, format_ns(host.ns)
    where = _where(host.range_path) or " in CPU gaps without CUDA API calls"
    inside = f", mostly in {host.os_call}" if host.os_call else ""
    stays = Estimate(host.remaining, host.remaining, host.remaining + _STAYS * (1 - host.remaining))
    changes = tuple(
        RemoveHostTime(
            thread,
            host.times.start_ns[host.times.thread == thread],
            host.times.end_ns[host.times.thread == thread],
            stays,
        )
        for thread in np.unique(host.times.thread).tolist()
    )
    return _Cause(
        f"its CPU takes {more} longer{each}{where}",
        f"The CPU of {late.name} takes {more} longer{each}{where} than on {late.others}{inside}.",
        _HOST_FIX,
        changes,
    )


_HOST_FIX = (
    "Check for logging, checkpoints, or metrics on this rank only, slower data loading (workers,"
    " disk, shard), competing processes, CPU affinity (numactl), and garbage collection. Compare"
    " `warpline stats -r rank_differences` and `cuda_api_sum` across ranks."
)


def _other_work(run: Run, more_ns: float) -> _Cause:
    """Return the cause for a rank with another task than the others: nothing to simulate."""
    each, more = step_scope(run).each, format_ns(more_ns)
    return _Cause(
        f"its GPU is busy {more} longer{each}",
        f"It runs other kernels than other ranks, and its GPU is busy {more} longer{each}.",
        "If ranks have different tasks by design, such as stages of a pipeline, move work (layers,"
        " experts) from this rank to the others. Otherwise, compare `warpline stats -r"
        " rank_differences` across ranks.",
        (),
    )


def _part_of_step(run: Run, part: TimePart, more_ns: float) -> _Cause:
    """Return a cause of which only the part of the step is known: nothing to simulate."""
    each, more = step_scope(run).each, format_ns(more_ns)
    if part.is_busy:
        return _Cause(
            f"its GPU is busy {more} longer{each}",
            f"Its GPU is busy {more} longer{each} ({part.label}).",
            "Compare `warpline stats -r kernel_sum` across ranks, and clocks, temperatures, and"
            " power limits (nvidia-smi). The rank has more work (longer sequences, a larger"
            " shard) or a slower GPU.",
            (),
        )
    fix = "Check data loading on this rank: its worker processes, disk, and shard."
    return _Cause(
        f"its GPU is idle {more} longer{each}",
        f"Its GPU is idle {more} longer{each} ({part.label}).",
        fix if part == TimePart.INPUT else _HOST_FIX,
        (),
    )


def _where(path: tuple[str, ...]) -> str:
    return f" in `{path[-1]}`" if path else ""


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


def _more(run: Run, process: int, device: int) -> F64:
    """Return how much more of each part a rank's steps have than the median of the others.

    Shape (`TimePart`,), float64, in ns per step.
    """
    parts = step_partition(run)
    rows = [_per_step(parts.total(rank), parts.windows.step[rank.windows]) for rank in parts.ranks]
    own = [
        place
        for place, rank in enumerate(parts.ranks)
        if rank.device == device and rank.process in (process, -1)
    ]
    rest = [row for place, row in enumerate(rows) if place not in own]
    if len(own) != 1 or not rest:
        return np.zeros(len(TimePart))
    more: F64 = rows[own[0]] - np.median(np.array(rest), axis=0)
    more[_NO_REASON] = 0.0
    return more


def _per_step(sums: I64, step: I64) -> F64:
    return sums / max(int(np.count_nonzero(step >= 0)), 1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
