"""Where the time of each GPU went: breakdown, overlap and phases."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, step_overlaps
from warpline.derived.breakdown.partition import RankWindows, step_partition, sums_in
from warpline.derived.breakdown.phases import phases as derived_phases
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.breakdown.training_times import StepPhase, training_times
from warpline.derived.kernels.categories import operation_origins
from warpline.derived.kernels.rules import Origin
from warpline.derived.metrics.activity import Activity, gpu_activity
from warpline.derived.program import has_modules
from warpline.derived.ranks.waits import waiting_ns
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.owners import owner_of
from warpline.ops.arrays import I64
from warpline.result import Breakdown, Overlap, Part, Phase, TrainingPhase
from warpline.trace import Run, Trace

_LEAST_PHASE = 1e-4  # nested phases below this share of the time are omitted
_NO_ORIGIN = -1  # of idle time
_PART_IS_BUSY = np.array([part.is_busy for part in TimePart])


def breakdowns(run: Run) -> tuple[Breakdown, ...]:
    """Return the breakdown of each process's time on each GPU."""
    ranks = step_partition(run).ranks
    return tuple(
        _breakdown(run, rank, sums) for rank, sums in zip(ranks, _origin_sums(run), strict=True)
    )


def overlaps(run: Run) -> tuple[Overlap, ...]:
    """Return the overlap on each GPU, in the order of `breakdowns`."""
    return tuple(_overlap(run, rank) for rank in step_partition(run).ranks)


def activities(run: Run) -> tuple[Activity | None, ...]:
    """Return the sampled activity of each GPU, in the order of `breakdowns`."""
    of_devices = gpu_activity(run)
    return tuple(of_devices.get(rank.device) for rank in step_partition(run).ranks)


def phases(run: Run) -> tuple[Phase, ...]:
    """Return the time of each range's work, in program order; none without GPU work."""
    if not step_partition(run).ranks:
        return ()
    tree_times = derived_phases(run)
    totals = tree_times.total_ns.sum(axis=1)
    least = _LEAST_PHASE * float(tree_times.self_ns.sum())
    rows = np.flatnonzero((totals > 0) & ((totals >= least) | ~tree_times.tree.has_parent))
    return tuple(
        Phase(
            tree_times.path(row),
            int(tree_times.calls[row]),
            int(totals[row]),
            int(tree_times.self_ns[row].sum()),
            _parts(tree_times.total_ns[row]),
        )
        for row in rows.tolist()
    )


def training(run: Run) -> tuple[TrainingPhase, ...]:
    """Return the time of each phase of training, which sum to that of the breakdown.

    None without recorded calls of modules, or if nothing was trained. Idle time in which the CPU
    prepared data, and copies to the GPU outside modules, are a phase of their own: data.
    """
    if not has_modules(run.trace) or not step_partition(run).ranks:
        return ()
    times = training_times(run)
    if not times[[StepPhase.BACKWARD, StepPhase.OPTIMIZER]].any():
        return ()
    return tuple(
        TrainingPhase(of.label, of.meaning, int(times[of].sum()), _parts(times[of]))
        for of in StepPhase
    )


def _breakdown(run: Run, rank: RankWindows, by_origin: I64) -> Breakdown:
    parts = step_partition(run)
    sums = parts.total(rank)
    count = int(np.count_nonzero(parts.windows.step[rank.windows] >= 0))
    owner = owner_of(run.trace, rank.process, rank.device)
    return Breakdown(
        process=owner.pid,
        device=owner.gpu_index,
        device_name=owner.device_name,
        count=count,
        total_ns=int(sums.sum()),
        parts=_parts(sums),
        origins={
            Origin.at(place).label: int(by_origin[place])
            for place in np.argsort(-by_origin, kind="stable").tolist()
            if by_origin[place]
        },
        rank=owner.rank,
    )


def _origin_sums(run: Run) -> I64:
    """Return the busy time of each rank by library, shape (ranks, `Origin`), int64."""
    parts, segments = step_partition(run), device_segments(run.trace)
    rank_of = np.zeros(len(parts.windows.device), np.int64)
    for place, rank in enumerate(parts.ranks):
        rank_of[rank.windows] = place
    if not len(segments):
        return np.zeros((len(parts.ranks), len(Origin)), np.int64)
    origin = np.where(
        is_busy(segments.part), operation_origins(run.trace)[segments.operation], _NO_ORIGIN
    )
    return sums_in(
        run.trace,
        parts.windows,
        origin,
        len(Origin),
        slot=rank_of,
        n_slots=len(parts.ranks),
    )


def _parts(sums: I64) -> tuple[Part, ...]:
    """Return the non-zero parts: busy before idle, each in descending order of time."""
    order = np.lexsort((np.arange(len(TimePart)), -sums, ~_PART_IS_BUSY))
    return tuple(
        Part(
            TimePart.at(place).label,
            "busy" if TimePart.at(place).is_busy else "idle",
            int(sums[place]),
            TimePart.at(place).meaning,
        )
        for place in order.tolist()
        if sums[place]
    )


def _overlap(run: Run, rank: RankWindows) -> Overlap:
    sums = step_overlaps(run).ns[rank.windows].sum(axis=0)
    ns = {kind: int(sums[kind]) for kind in OverlapKind}
    owner = owner_of(run.trace, rank.process, rank.device)
    return Overlap(
        process=owner.pid,
        device=owner.gpu_index,
        busy_ns=ns[OverlapKind.BUSY],
        concurrent_ns=ns[OverlapKind.SEVERAL_STREAMS],
        communication_ns=ns[OverlapKind.COMMUNICATION],
        exposed_communication_ns=ns[OverlapKind.EXPOSED_COMMUNICATION],
        copy_ns=ns[OverlapKind.COPY],
        exposed_copy_ns=ns[OverlapKind.EXPOSED_COPY],
        waiting_ns=waiting_ns(run, rank),
    )


def pid_of(trace: Trace, process: int) -> int:
    """Return the process id of a row of the process table."""
    return int(trace.columns("process", "pid")["pid"].values[process])
