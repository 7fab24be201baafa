"""Why a rank is late: what it does differently from its peers, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.time_parts import BUSY, IDLE, TimePart
from warpline.fleet.jobs import Job
from warpline.fleet.lateness import Late, peers_of
from warpline.fleet.summary import NamedTime, RankSummary
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.units import format_mhz, format_ns

_EXPLAINS = 0.25  # of the lateness: a difference of at least this share is its cause
_SAME_NUMBER = 0.02
_MAIN = 0.1  # of the GPU work: smaller categories do not decide
_EVERYWHERE = 0.5  # of the mean slowdown: each main category has at least that
_SLOWER_CLOCK = 0.02
_MOST_OF = 0.6  # of the CPU time beyond the peers': the deepest range with it is the place
# Time that a rank spends because others are late, or that does not explain why it is late.
_NO_REASON = [TimePart.COLLECTIVE, TimePart.COMMUNICATION_WAIT, TimePart.TAIL, TimePart.UNKNOWN]
_HOST_FIX = (
    "Check this machine for other processes, CPU affinity (numactl), power settings, and logging"
    " or checkpoints on this rank only. Compare the ranks with `warpline compare`."
)
_GPU_FIX = (
    "Compare clocks, temperatures, and power limits (nvidia-smi -q -d PERFORMANCE,CLOCK,POWER),"
    " and look for other processes on this GPU. Exclude a GPU that stays slower."
)


class Cause(NamedTuple):
    """Why ranks are late.

    Attributes:
        kind: ``slow-gpu``, ``more-gpu-work``, ``longer-gpu-work``, ``slow-input``, ``slow-host``,
            ``behind``, ``other-task`` or ``unknown``.
        text: To complete "Rank 3 is the straggler: ...".
        claim: A sentence with the facts.
        fix: The advice.
        more_ns: How much longer it takes per step than its peers.
    """

    kind: str
    text: str
    claim: str
    fix: str
    more_ns: float


def cause_of(job: Job, place: int, late: Late) -> Cause:
    """Return why a rank is late: the first difference that explains enough of it."""
    peers = peers_of(job, place, late.ranks)
    if not len(peers):
        return _other_task(job, place)
    enough = _EXPLAINS * late.waited_ns
    more = _more_of_parts(job, place, peers)
    found = _gpu_work(job, place, peers, enough)
    if found is not None:
        return found
    part = TimePart.at(int(np.argmax(more)))
    if part.is_busy:
        if more[part] >= enough:
            text = f"its GPU is busy {format_ns(float(more[part]))} longer per step ({part.label})"
            return Cause("longer-gpu-work", text, _sentence(text), _GPU_FIX, float(more[part]))
        return _unknown()
    return _idle(job, place, peers, part, more, enough) or _unknown()


def _unknown() -> Cause:
    fix = "Compare it with another rank: `warpline compare`."
    return Cause("unknown", "", "No difference explains why it is late.", fix, 0.0)


def _more_of_parts(job: Job, place: int, peers: I64) -> F64:
    """Return how much more of each part a rank's steps have than the median of its peers."""
    parts = job.parts_per_step_ns
    more: F64 = parts[place] - np.median(parts[peers], axis=0)
    more[_NO_REASON] = 0.0
    return more


def _work(rank: RankSummary, chosen: BoolArray) -> tuple[F64, F64]:
    number = rank.windows.number[chosen].mean(axis=0)
    return number, rank.windows.work_ns[chosen].mean(axis=0)


def _gpu_work(job: Job, place: int, peers: I64, enough: float) -> Cause | None:
    """Return a cause for a rank with more or longer GPU operations."""
    every = [_work(job.ranks[rank], job.included[rank]) for rank in (place, *peers.tolist())]
    number, ns = (np.array([work[which] for work in every]) for which in (0, 1))
    number[:, TimePart.COLLECTIVE] = ns[:, TimePart.COLLECTIVE] = 0.0
    usual_number, usual_ns = np.median(number[1:], axis=0), np.median(ns[1:], axis=0)
    more_ns = ns[0] - usual_ns
    total = float(more_ns.sum())
    has_more = number[0] > usual_number * (1 + _SAME_NUMBER)
    extra_ns = float(more_ns[has_more].sum())
    if extra_ns >= enough:
        main = TimePart.at(int(np.argmax(np.where(has_more, more_ns, -np.inf))))
        count = float((number[0] - usual_number)[main])
        text = (
            f"it runs {count:,.0f} more operations per step ({main.label}, {format_ns(extra_ns)})"
        )
        fix = "Remove this work from the rank, share it among the ranks, or run it less often."
        return Cause("more-gpu-work", text, _sentence(text), fix, extra_ns)
    if total < enough:
        return None
    ratio = float(ns[0].sum() / max(usual_ns.sum(), 1.0))
    main_parts = usual_ns >= _MAIN * usual_ns.sum()
    slower = ns[0][main_parts] / np.maximum(usual_ns[main_parts], 1.0) - 1
    if len(slower) and float(slower.min()) >= _EVERYWHERE * (ratio - 1):
        return _slow_gpu(job, place, peers, total, ratio)
    category = TimePart.at(int(np.argmax(more_ns)))
    text = f"its {category.label} operations take {format_ns(total)} longer per step"
    fix = "Balance sequence lengths, shards, and experts. If sizes are equal, compare GPU clocks."
    claim = (
        f"{_sentence(text)} It runs as many operations as its peers, in all {ratio:.2f} times as"
        " long."
    )
    return Cause("longer-gpu-work", text, claim, fix, total)


def _slow_gpu(job: Job, place: int, peers: I64, more_ns: float, ratio: float) -> Cause:
    text = f"its GPU takes {format_ns(more_ns)} longer per step for the same work"
    claim = f"All kinds of kernels take longer on it, in all {ratio:.2f} times as long."
    clock = job.ranks[place].identity.sm_clock_hz
    usual = [job.ranks[rank].identity.sm_clock_hz for rank in peers.tolist()]
    known = [hz for hz in usual if hz]
    if clock and known and clock < (1 - _SLOWER_CLOCK) * float(np.median(known)):
        limits = job.ranks[place].identity.clock_limits
        why = f" ({limits})" if limits and limits != "none" else ""
        peers_hz = format_mhz(float(np.median(known)))
        claim += f" Its SMs run at {format_mhz(clock)}{why}, its peers' at {peers_hz}."
    return Cause("slow-gpu", text, claim, _GPU_FIX, more_ns)


def _idle(
    job: Job, place: int, peers: I64, part: TimePart, more: F64, enough: float
) -> Cause | None:
    """Return a cause for a rank whose GPU is idle longer."""
    idle_ns = float(np.maximum(more[list(IDLE)], 0).sum())
    ns, path = _cpu_range(job, place, peers)
    gaps = _gaps_ns(job, place, peers)
    if part != TimePart.INPUT and max(ns, gaps) >= enough:
        where = (
            f" in `{path[-1]}`" if ns >= enough and path else " in CPU gaps without CUDA API calls"
        )
        longer = ns if ns >= enough else gaps
        text = f"its CPU takes {format_ns(longer)} longer per step{where}"
        return Cause(
            "slow-host", text, _sentence(text) + _os_call(job, place, peers), _HOST_FIX, longer
        )
    if more[part] < enough:
        return None
    if part == TimePart.INPUT:
        text = f"its GPU waits {format_ns(float(more[part]))} longer per step for input"
        fix = "Check data loading on this rank: its worker processes, disk, and shard."
        return Cause("slow-input", text, _sentence(text), fix, float(more[part]))
    cpu_ns = _more_cpu_work_ns(job, place, peers)
    if cpu_ns is not None and cpu_ns < enough:
        claim = (
            "Its CPU works about as long per step as its peers': it is behind since an earlier"
            f" step. Its GPU is idle ({part.label}) meanwhile."
        )
        fix = (
            "Shorten the CPU work of all ranks: it limits them, and a rank that is only behind"
            " does not make steps longer."
        )
        return Cause("behind", "", claim, fix, 0.0)
    text = f"its GPU is idle {format_ns(idle_ns)} longer per step, mostly {part.label}"
    return Cause(
        "slow-host", text, _sentence(text) + _os_call(job, place, peers), _HOST_FIX, idle_ns
    )


def _other_task(job: Job, place: int) -> Cause:
    parts = job.parts_per_step_ns
    rest = np.setdiff1d(np.arange(len(job)), (place,))
    more = float(parts[place][list(BUSY)].sum() - np.median(parts[rest][:, list(BUSY)].sum(axis=1)))
    text = "it runs other kernels than the other ranks"
    fix = "If ranks have different tasks by design, such as pipeline stages, balance these."
    return Cause("other-task", text, _sentence(text), fix, max(more, 0.0))


def stage_cause(job: Job, stage: I64, late: Late) -> Cause:
    """Return why a pipeline stage is slower than the others: more layers, or slower GPUs.

    Args:
        job: The job.
        stage: Shape (ranks,), int64, the stage of each rank.
        late: The late stage.
    """
    own, more_ns = list(late.ranks), late.exposed_ns
    others = np.setdiff1d(np.flatnonzero(stage >= 0), own)
    every = [_work(rank, chosen) for rank, chosen in zip(job.ranks, job.included, strict=True)]
    number, ns = (np.array([work[which] for work in every]) for which in (0, 1))
    number[:, TimePart.COLLECTIVE] = ns[:, TimePart.COLLECTIVE] = 0.0
    more = float(ns[own].sum(axis=1).mean() / max(ns[others].sum(axis=1).mean(), 1.0))
    many = float(number[own].sum(axis=1).mean() / max(number[others].sum(axis=1).mean(), 1.0))
    longer = float(ns[own].sum(axis=1).mean() - ns[others].sum(axis=1).mean())
    if longer < _EXPLAINS * more_ns:
        text = f"its ranks take {format_ns(more_ns)} longer per step, but not for GPU work"
        return Cause("slow-host", text, _sentence(text), _HOST_FIX, more_ns)
    if many - 1 >= _EVERYWHERE * (more - 1):
        text = f"it runs {many:.2f} times as many operations, {format_ns(longer)} more GPU work"
        fix = (
            "Balance the stages: move layers from it to others. The first and the last stage also"
            " have the embedding, the output layer and the loss."
        )
        return Cause("more-gpu-work", text, _sentence(text), fix, more_ns)
    text = f"its GPUs take {more:.2f} times as long for as many operations"
    fix = f"If its layers are not larger than those of other stages: {_lower(_GPU_FIX)}"
    return Cause("slow-gpu", text, _sentence(text) + _clocks(job, own, others), fix, more_ns)


def _clocks(job: Job, own: Sequence[int], others: I64) -> str:
    """Return a sentence about the clocks of ranks, if they are lower; else an empty text."""
    both = []
    for ranks in (own, others.tolist()):
        known = [hz for rank in ranks if (hz := job.ranks[rank].identity.sm_clock_hz)]
        if not known:
            return ""
        both.append(float(np.median(known)))
    if both[0] >= (1 - _SLOWER_CLOCK) * both[1]:
        return ""
    return f" Their SMs run at {format_mhz(both[0])}, those of the others at {format_mhz(both[1])}."


def _lower(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def cpu_work_ns(rank: RankSummary) -> float | None:
    """Return how long the CPU of a rank works per step; None if unknown.

    From one step to the next, without the time in which it is blocked or makes no calls.
    """
    steps = rank.steps
    chosen = np.flatnonzero((steps.included != 0) & (steps.host_period_ns > 0))
    if not len(chosen) or (steps.cpu_idle_ns[chosen] < 0).any():
        return None
    return float((steps.host_period_ns - steps.cpu_idle_ns)[chosen].mean())


def _more_cpu_work_ns(job: Job, place: int, peers: I64) -> float | None:
    own = cpu_work_ns(job.ranks[place])
    others = [cpu_work_ns(job.ranks[rank]) for rank in peers.tolist()]
    known = [ns for ns in others if ns is not None]
    return None if own is None or not known else own - float(np.median(known))


def _gaps_ns(job: Job, place: int, peers: I64) -> float:
    """Return how much longer a rank's long CPU gaps are per step."""
    own = job.ranks[place].cpu_gaps_ns
    others = [job.ranks[rank].cpu_gaps_ns for rank in peers.tolist()]
    known = [ns for ns in others if ns is not None]
    return 0.0 if own is None or not known else own - float(np.median(known))


def _median_times(job: Job, peers: I64, field: str) -> dict[tuple[str, ...], float]:
    """Return the median of the peers' times by path; 0 where a peer has none."""
    found: dict[tuple[str, ...], list[float]] = {}
    for rank in peers.tolist():
        times: tuple[NamedTime, ...] = getattr(job.ranks[rank], field)
        for path, ns in times:
            found.setdefault(path, []).append(ns)
    count = len(peers)
    return {
        path: float(np.median([*values, *[0.0] * (count - len(values))]))
        for path, values in found.items()
    }


def _cpu_range(job: Job, place: int, peers: I64) -> tuple[float, tuple[str, ...]]:
    """Return the deepest range in which a rank spends most of its additional CPU time."""
    own = {time.path: time.ns for time in job.ranks[place].ranges}
    usual = _median_times(job, peers, "ranges")
    source = job.ranks[place].identity.step_source.removeprefix("range:")
    more = {path: ns - usual.get(path, 0.0) for path, ns in own.items()}
    inner = _inner(own)
    usual_inner = _inner(usual)
    of_self = {
        path: (own[path] - inner.get(path, 0.0))
        - (usual.get(path, 0.0) - usual_inner.get(path, 0.0))
        for path in own
    }
    everywhere = sum(max(ns, 0.0) for ns in of_self.values())
    fits = [
        path
        for path, ns in more.items()
        if ns > 0 and ns >= _MOST_OF * everywhere and path[-1] != source
    ]
    if not fits:
        return 0.0, ()
    chosen = max(fits, key=lambda path: (len(path), more[path]))
    return more[chosen], chosen


def _inner(times: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Return the time in the ranges directly inside each range."""
    inner: dict[tuple[str, ...], float] = {}
    for path, ns in times.items():
        if len(path) > 1:
            inner[path[:-1]] = inner.get(path[:-1], 0.0) + ns
    return inner


def _os_call(job: Job, place: int, peers: I64) -> str:
    """Return a sentence about the OS function that a rank spends more time in; may be empty."""
    usual = _median_times(job, peers, "os_calls")
    more = [(ns - usual.get(path, 0.0), path[-1]) for path, ns in job.ranks[place].os_calls]
    if not more:
        return ""
    ns, name = max(more)
    return (
        f" {format_ns(ns)} more per step in {name}."
        if ns > 0.1 * sum(m for m, _ in more if m > 0) and ns > 100_000
        else ""
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
