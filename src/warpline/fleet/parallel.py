"""What is known of a job's parallel groups, and how the answer has it."""

from __future__ import annotations

from typing import NamedTuple

from warpline.fleet.experts import Experts, experts_of
from warpline.fleet.jobs import Job
from warpline.fleet.layout import Dimension, Layout
from warpline.fleet.matching import Matches
from warpline.fleet.pipelines import Pipeline, pipeline_of
from warpline.fleet.waiting import Waits
from warpline.result.fleet import FleetExperts, FleetPipeline, FleetStage, ParallelGroups


class Parallel(NamedTuple):
    """What is known of a job's parallel groups: `pipeline` and `experts` are None without."""

    layout: Layout
    pipeline: Pipeline | None
    experts: Experts | None


def parallel_of(job: Job, matched: Matches, layout: Layout, waits: Waits) -> Parallel:
    """Return what is known of a job's parallel groups."""
    return Parallel(layout, pipeline_of(job, layout, waits), experts_of(job, matched.groups))


def groups_of(job: Job, layout: Layout, waits: Waits) -> tuple[ParallelGroups, ...]:
    """Return the parallel groups of the answer."""
    count = max(len(job.step_index), 1)
    times: dict[tuple[tuple[int, ...], bool], tuple[float, float]] = {}
    for item in waits.sums:
        key = (item.ranks, item.operation == "AllToAll")
        wait, transfer = times.get(key, (0.0, 0.0))
        times[key] = (wait + item.wait_ns, transfer + item.transfer_ns)
    return tuple(_groups(job, item, waits, times, count) for item in layout.dimensions)


def _groups(
    job: Job,
    item: Dimension,
    waits: Waits,
    times: dict[tuple[tuple[int, ...], bool], tuple[float, float]],
    count: int,
) -> ParallelGroups:
    if item.is_sent:
        ranks = sorted({rank for group in item.groups for rank in group})
        wait = float(waits.exchange_ns[ranks].sum()) / len(ranks)
        transfer = 0.0
    else:
        is_all = any(operation == "AllToAll" for operation, _ in item.calls)
        known = [times.get((tuple(sorted(group)), is_all), (0.0, 0.0)) for group in item.groups]
        wait, transfer = (sum(values) / len(known) for values in zip(*known, strict=True))
    return ParallelGroups(
        kind=item.kind,
        groups=len(item.groups),
        ranks=item.size,
        first=tuple(job.name(rank) for rank in item.groups[0]),
        calls=dict(item.calls),
        wait_ns=wait / count,
        transfer_ns=transfer / count,
        why=item.why,
    )


def result_of_pipeline(job: Job, found: Pipeline | None) -> FleetPipeline | None:
    """Return the pipeline of the answer."""
    if found is None:
        return None
    stages = tuple(
        FleetStage(
            stage=number,
            ranks=tuple(job.name(rank) for rank in stage.ranks),
            step_ns=stage.step_ns,
            own_ns=stage.own_ns,
            bubble_ns=stage.bubble_ns,
        )
        for number, stage in enumerate(found.stages)
    )
    return FleetPipeline(stages, found.units or None, found.bubble_ratio, found.bound)


def result_of_experts(job: Job, found: Experts | None) -> FleetExperts | None:
    """Return the experts of the answer."""
    if found is None:
        return None
    hot = tuple(job.name(rank) for rank in found.hot)
    return FleetExperts(len(found.groups), found.ratio, hot, found.lost_ns)
