"""Findings about parallel groups: slow pipeline stages, bubbles, uneven experts, slow networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.estimate import Estimate
from warpline.fleet.experts import EXPERTS_FIX, Experts
from warpline.fleet.jobs import Job
from warpline.fleet.lateness import Late
from warpline.fleet.naming import names
from warpline.fleet.networks import SlowHosts
from warpline.fleet.parallel import Parallel
from warpline.fleet.pipelines import Pipeline
from warpline.fleet.stragglers import LateCauses
from warpline.result.fleet import FleetFinding
from warpline.units import format_ns, format_ratio, plural

_EXPLAINED = 0.5  # of the waits in turn: if uneven experts cause as much, they are the finding
_HOSTS_NAMED = 4


def are_experts(parallel: Parallel, late: Late) -> bool:
    """Return whether uneven experts explain why ranks wait for each other in turn."""
    experts = parallel.experts
    return (
        late.pattern == "in-turn"
        and experts is not None
        and experts.lost_ns >= _EXPLAINED * late.exposed_ns
    )


def found_in_groups(job: Job, parallel: Parallel, late: Late | None) -> Iterator[FleetFinding]:
    """Yield the findings about bubbles and experts."""
    if parallel.pipeline is not None and parallel.pipeline.bubble_ratio >= MEASURABLE_RATIO:
        yield _bubbles(job, parallel.pipeline)
    experts, now_ns = parallel.experts, job.usual_step_ns
    if experts is None or experts.saving_ns.central < MEASURABLE_RATIO * now_ns:
        return
    if late is None or not late.ranks or not set(late.ranks) <= set(experts.hot):
        yield _uneven(job, experts, now_ns)


def slow_stage(job: Job, parallel: Parallel, late: Late, causes: LateCauses) -> FleetFinding:
    """Return the finding about the slowest stage of a pipeline."""
    pipeline = parallel.pipeline
    assert pipeline is not None
    number, cause = int(parallel.layout.stage[late.ranks[0]]), causes.causes[0]
    others = [stage.own_ns for at, stage in enumerate(pipeline.stages) if at != number]
    who = names(job, late.ranks)
    ratio = late.exposed_ns / causes.now_ns if causes.now_ns else 0.0
    claim = (
        f"{cause.claim} A rank of it works {format_ns(pipeline.stages[number].own_ns)} per step"
        f" without waiting, one of the other stages {format_ns(float(np.median(others)))}:"
        f" these wait {format_ns(late.exposed_ns)} ({format_ratio(ratio)}) longer for it."
    )
    return FleetFinding(
        "",
        "slow-stage",
        severity_of(ratio),
        f"Pipeline stage {number} of {len(pipeline.stages)} ({who}) is the slowest: {cause.text}",
        claim,
        cause.fix,
        tuple(job.name(rank) for rank in late.ranks),
        causes.step_ns,
        _saving(causes.now_ns, causes.step_ns),
    )


def _saving(now_ns: float, step: Estimate | None) -> Estimate | None:
    if step is None:
        return None
    return Estimate(*(max(now_ns - ns, 0.0) for ns in (step.high, step.central, step.low)))


def _bubbles(job: Job, pipeline: Pipeline) -> FleetFinding:
    count, ratio = len(pipeline.stages), pipeline.bubble_ratio
    mean = sum(stage.bubble_ns for stage in pipeline.stages) / count
    claim = f"A stage waits {format_ns(mean)} per step for other stages, mean of {count} stages."
    fix = "Use more microbatches per step, or interleave: give each GPU several smaller stages."
    if pipeline.bound is None:
        severity = severity_of(ratio)
        claim += " Microbatches cannot be counted, so what the schedule itself has is not known."
    else:
        n = pipeline.units
        severity = severity_of(max(ratio - pipeline.bound, 0.0))
        claim += (
            f" With {n:,.0f} microbatches and {count} equal stages, bubbles take"
            f" {format_ratio(pipeline.bound)} of a step: ({count} - 1) / ({n:,.0f} + {count} - 1);"
        )
        more = ratio - pipeline.bound
        claim += (
            f" the other {format_ratio(more)} are unequal stages and transfers."
            if more >= MEASURABLE_RATIO / 2
            else " stages are about equal, and transfers short."
        )
        doubled = (count - 1) / (2 * n + count - 1)
        fix += f" With {2 * n:,.0f} microbatches, {format_ratio(doubled)} would remain."
    return FleetFinding(
        "",
        "pipeline-bubbles",
        severity,
        f"Pipeline bubbles take {format_ratio(ratio)} of the time",
        claim,
        fix,
        (),
    )


def _uneven(job: Job, experts: Experts, now_ns: float) -> FleetFinding:
    hot = names(job, experts.hot) if experts.hot else ""
    who = f": {hot} {'has' if len(experts.hot) == 1 else 'have'} most" if hot else ""
    saving = experts.saving_ns
    claim = (
        "Between all-to-alls, the GEMMs of the rank with most tokens take"
        f" {experts.ratio:.2f} times as long as the mean of its group, which costs"
        f" {format_ns(experts.lost_ns)} per step"
        f" ({plural(len(experts.groups), 'expert-parallel group')})."
    )
    if hot:
        most = float(np.nanmax(experts.load))
        claim += f" On average, {hot} {'has' if len(experts.hot) == 1 else 'have'} up to"
        claim += f" {most:.2f} times the mean."
    else:
        claim += " Which rank has most changes from layer to layer and step to step."
    return FleetFinding(
        "",
        "uneven-experts",
        severity_of(saving.central / now_ns if now_ns else 0.0),
        f"Experts are uneven, {experts.ratio:.2f} times the mean{who}",
        claim,
        EXPERTS_FIX,
        tuple(job.name(rank) for rank in experts.hot),
        Estimate(now_ns - saving.high, now_ns - saving.central, now_ns - saving.low),
        saving,
    )


def slow_network(slow: SlowHosts, now_ns: float) -> FleetFinding:
    """Return the finding about machines whose transfers are slow."""
    shown = ", ".join(slow.hosts[:_HOSTS_NAMED])
    rest = len(slow.hosts) - _HOSTS_NAMED
    shown += f" and {rest} more" if rest > 0 else ""
    who = "One machine" if len(slow.hosts) == 1 else plural(len(slow.hosts), "machine")
    count = plural(len(slow.groups), "communicator")
    return FleetFinding(
        "",
        "slow-network",
        severity_of(slow.more_ns / now_ns if now_ns else 0.0),
        f"{who} with slow transfers: {slow.ratio:.1f} times as long as elsewhere ({shown})",
        f"All {count} with ranks on {shown} transfer slowly, {format_ns(slow.more_ns)} longer per"
        " step, and no other one. No rank in them is late: that points to what these machines"
        " share, such as a switch or its uplinks.",
        "Check the switch, cables and NICs of these machines, and errors of their ports.",
        (),
    )
