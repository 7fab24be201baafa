"""Why a rank is late: what it does differently, in words, and as changes to simulate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.nouns import are_plain_fp32, counted, noun
from warpline.derived.ranks.extra_work import ExtraWork, extra_work
from warpline.derived.ranks.host_time import HostTime, extra_host_time, more_cpu_work_ns
from warpline.derived.ranks.late import EXPLAINS, Lateness
from warpline.derived.ranks.longer_work import LongerWork, longer_work
from warpline.derived.ranks.peers import has_same_program
from warpline.derived.time_parts import BUSY, TimePart
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64
from warpline.ops.group import distinct_values
from warpline.result.changes import Change, DropOperations, RemoveHostTime, ScaleOperations
from warpline.trace import Run
from warpline.units import format_ns

_NEARLY_ALL = 0.98
_STAYS = 0.25  # at worst, of the CPU time that a rank spends beyond the others
# Time that a rank spends because others are late, or that does not explain why it is late.
_NO_REASON = [TimePart.COLLECTIVE, TimePart.COMMUNICATION_WAIT, TimePart.TAIL, TimePart.UNKNOWN]


class LateRank(NamedTuple):
    """The late rank, for wording."""

    process: int
    device: int
    place: int  # in `working_ranks`
    name: str  # "rank 1"
    others: str  # "the other rank"
    waits: Lateness


class Cause(NamedTuple):
    """Why a rank is late.

    Attributes:
        title: To complete "Rank 1 is the straggler: ...".
        claim: A sentence with the facts.
        fix: The advice.
        changes: What makes the rank as fast as the others; empty if that is not known.
        role: What the rank is: "is the straggler", or "runs behind" if it is not slower.
    """

    title: str
    claim: str
    fix: str
    changes: tuple[Change, ...]
    role: str = "is the straggler"


def cause_of(run: Run, late: LateRank) -> Cause | None:
    """Return why a rank is late: the first difference that explains enough of it."""
    enough = EXPLAINS * late.waits.waited_ns
    extra = extra_work(run, late.process, late.device)
    if extra is not None and extra.all_ns >= enough:
        return _more_work(run, late, extra)
    longer = longer_work(run, late.process, late.device)
    if longer is not None and longer.ns >= enough:
        return _longer_work(run, late, longer)
    more = _more(run, late.process, late.device)
    part = TimePart.at(int(np.argmax(more)))
    return (_if_busy if part.is_busy else _if_idle)(run, late, part, more)


def _if_busy(run: Run, late: LateRank, part: TimePart, more: F64) -> Cause | None:
    """Return the cause for a rank whose GPU is mostly busy longer with one category."""
    enough, busy_ns = EXPLAINS * late.waits.waited_ns, float(more[list(BUSY)].sum())
    if has_same_program(run, late.place):
        return _part_of_step(run, part, float(more[part])) if more[part] >= enough else None
    return _other_work(run, busy_ns) if busy_ns >= enough else None


def _if_idle(run: Run, late: LateRank, part: TimePart, more: F64) -> Cause | None:
    """Return the cause for a rank whose GPU is mostly idle longer."""
    enough = EXPLAINS * late.waits.waited_ns
    host = extra_host_time(run, late.process, late.device)
    if host is not None and host.ns >= enough:
        return _host_time(run, late, host)
    if more[part] < enough:
        return None
    cpu_ns = more_cpu_work_ns(run, late.process, late.device)
    if cpu_ns is not None and cpu_ns < enough:
        return _behind(late, part)
    return _part_of_step(run, part, float(more[part]))


def _more_work(run: Run, late: LateRank, extra: ExtraWork) -> Cause:
    category = operation_categories(run.trace)[extra.operations]
    main = extra.operations[category == extra.category]
    name = noun(extra.category, is_plain_fp32=are_plain_fp32(run.trace, main))
    many, each = counted(extra.number, name), step_scope(run).each
    where = _where(extra.range_path)
    rest = ""
    if extra.all_ns > extra.ns / _NEARLY_ALL:
        rest = f" All operations that only it runs take {format_ns(extra.all_ns)}{each}."
    return Cause(
        f"{many}{where}, {format_ns(extra.ns)}{each}, that no other rank runs",
        f"{capital(late.name)} runs {many}{where} that no other rank runs:"
        f" {format_ns(extra.ns)}{each}.{rest}",
        f"Remove this work from {late.name}, share it among the ranks, or run it less often. If it"
        " is logging, metrics, or validation, run it outside the step, or on a stream that the"
        " collectives do not wait for.",
        (DropOperations(extra.operations),),
    )


def _longer_work(run: Run, late: LateRank, longer: LongerWork) -> Cause:
    each, more = step_scope(run).each, format_ns(longer.ns)
    changes = tuple(
        ScaleOperations(places, Estimate(factor, factor, factor))
        for places, factor in longer.scaled
    )
    slower = f"{longer.ratio:.2f} times as long as on {late.others}"
    if longer.is_everywhere:
        return Cause(
            f"its GPU takes {more} longer{each} for the same work",
            f"All kinds of kernels take longer on {late.name}, in all {slower}: {more}{each}."
            " Its GPU is slower.",
            "Compare clocks, temperatures, and power limits of the GPUs (nvidia-smi -q -d"
            " PERFORMANCE,CLOCK,POWER), and look for other processes on this GPU. Replace or"
            " exclude a GPU that stays slower.",
            changes,
        )
    return Cause(
        f"the same number of {noun(longer.category)}s takes {more} longer{each}",
        f"{capital(late.name)} runs as many operations as {late.others}, but they take {slower}:"
        f" {more}{each}, mostly {longer.category.meaning}.",
        "Compare the sizes of inputs across ranks: balance sequence lengths, shards, and experts."
        " If sizes are equal, compare clocks and temperatures of the GPUs (nvidia-smi).",
        changes,
    )


def _host_time(run: Run, late: LateRank, host: HostTime) -> Cause:
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
        for thread in distinct_values(host.times.thread).tolist()
    )
    return Cause(
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


def _other_work(run: Run, more_ns: float) -> Cause:
    """Return the cause for a rank with another task than the others: nothing to simulate."""
    each, more = step_scope(run).each, format_ns(more_ns)
    return Cause(
        f"its GPU is busy {more} longer{each}",
        f"It runs other kernels than other ranks, and its GPU is busy {more} longer{each}.",
        "If ranks have different tasks by design, such as stages of a pipeline, move work (layers,"
        " experts) from this rank to the others. Otherwise, compare `warpline stats -r"
        " rank_differences` across ranks.",
        (),
    )


def _behind(late: LateRank, part: TimePart) -> Cause:
    """Return the cause for a rank that does no more than others, but started its steps later."""
    return Cause(
        "",
        f"Its CPU works about as long per step as that of {late.others}: it is behind since an"
        f" earlier step. Its GPU is idle ({part.label}) meanwhile.",
        "Shorten the CPU work of all ranks: it limits them, and a rank that is only behind does not"
        " make steps longer.",
        (),
        "runs behind",
    )


def _part_of_step(run: Run, part: TimePart, more_ns: float) -> Cause:
    """Return a cause of which only the part of the step is known: nothing to simulate."""
    each, more = step_scope(run).each, format_ns(more_ns)
    if part.is_busy:
        return Cause(
            f"its GPU is busy {more} longer{each}",
            f"Its GPU is busy {more} longer{each} ({part.label}).",
            "Compare `warpline stats -r kernel_sum` across ranks, and clocks, temperatures, and"
            " power limits (nvidia-smi). The rank has more work (longer sequences, a larger"
            " shard) or a slower GPU.",
            (),
        )
    fix = "Check data loading on this rank: its worker processes, disk, and shard."
    return Cause(
        f"its GPU is idle {more} longer{each}",
        f"Its GPU is idle {more} longer{each} ({part.label}).",
        fix if part == TimePart.INPUT else _HOST_FIX,
        (),
    )


def _where(path: tuple[str, ...]) -> str:
    return f" in `{path[-1]}`" if path else ""


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


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
