"""The stages of a pipeline: how long each works and waits for others, and what balance would save.

With n microbatches and s stages, a stage works on n of n + s - 1 equal parts of a step: it waits
until the first microbatch reaches it, and after its last one. The slowest stage sets the pace of
all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.estimate import Estimate
from warpline.fleet.jobs import Job
from warpline.fleet.lateness import own_time_ns
from warpline.fleet.layout import Layout
from warpline.fleet.waiting import Waits
from warpline.ops.arrays import F64, I64

_MODEL_ERROR = 0.02  # of the step
_STAYS = 0.3  # at worst, of what a stage takes longer
_FEWEST, _MANY = 2.0, 64.0  # microbatches, if their number is unknown
_BACKWARD = 2 / 3  # of the work of a microbatch
SCHEDULES = ("1F1B", "GPipe")


class Stage(NamedTuple):
    """A stage of a pipeline; times per step, means over its ranks.

    Attributes:
        ranks: Places in the job.
        step_ns: The step.
        own_ns: Without exposed waits for other ranks.
        bubble_ns: Exposed waits for other stages.
    """

    ranks: tuple[int, ...]
    step_ns: float
    own_ns: float
    bubble_ns: float


class Pipeline(NamedTuple):
    """The stages of a job's pipelines.

    Attributes:
        stages: In order.
        units: Microbatches per step, times the chunks of each stage; 0 if unknown.
        bound: Share of a step that bubbles take at least by this schedule; None if unknown.
    """

    stages: tuple[Stage, ...]
    units: float
    bound: float | None

    @property
    def bubble_ratio(self) -> float:
        """Share of the steps in which stages wait for others."""
        total = sum(stage.step_ns for stage in self.stages)
        return sum(stage.bubble_ns for stage in self.stages) / total if total else 0.0

    def slowest(self) -> int:
        """Return the stage that works longest."""
        return int(np.argmax([stage.own_ns for stage in self.stages]))


def pipeline_of(job: Job, layout: Layout, waits: Waits) -> Pipeline | None:
    """Return the stages of a job; None without a pipeline."""
    if layout.stages < 2:
        return None
    steps = np.maximum(job.counts, 1)
    own = own_time_ns(job, waits)
    bubble = (waits.exchange_exposed_ns + waits.across_ns).sum(axis=1) / steps
    stages = []
    for stage in range(layout.stages):
        ranks = np.flatnonzero((layout.stage == stage) & (job.counts > 0))
        if not len(ranks):
            return None
        stages.append(
            Stage(
                tuple(ranks.tolist()),
                *(float(values[ranks].mean()) for values in (job.step_ns, own, bubble)),
            )
        )
    n = layout.units
    bound = (len(stages) - 1) / (n + len(stages) - 1) if n >= 1 else None
    return Pipeline(tuple(stages), n, bound)


def balanced(pipeline: Pipeline, now_ns: float) -> Estimate:
    """Return the step if all stages worked equally long."""
    own = [stage.own_ns for stage in pipeline.stages]
    return _step(own, [float(np.mean(own))] * len(own), pipeline.units, now_ns)


def without_ranks(
    job: Job, layout: Layout, waits: Waits, late: Sequence[int], now_ns: float
) -> Estimate:
    """Return the step if late ranks were as fast as the other ranks of their stages."""
    own = own_time_ns(job, waits)
    before, after = [], []
    for stage in range(layout.stages):
        ranks = np.flatnonzero((layout.stage == stage) & (job.counts > 0))
        before.append(_largest(own, ranks))
        after.append(_largest(own, np.setdiff1d(ranks, late)))
    known = [at for at, ns in enumerate(after) if ns > 0]
    after = [after[at] if at in known else before[at] for at in range(len(before))]
    return _step(before, after, layout.units, now_ns)


def _largest(own_ns: F64, ranks: I64) -> float:
    return float(own_ns[ranks].max()) if len(ranks) else 0.0


def _step(
    before_ns: Sequence[float], after_ns: Sequence[float], units: float, now_ns: float
) -> Estimate:
    """Return the step after the work of stages changes.

    By the schedule that explains the step now; the bounds have the other one, too.
    """
    lengths = [
        (_length_ns(before_ns, n, schedule), _length_ns(after_ns, n, schedule))
        for n in ((units,) if units >= 1 else (_FEWEST, _MANY))
        for schedule in SCHEDULES
    ]
    savings = [before - after for before, after in lengths]
    nearest = int(np.argmin([abs(before - now_ns) for before, _ in lengths]))
    central = max(savings[nearest], 0.0)
    low, high = max(min(savings) * (1 - _STAYS), 0.0), max(*savings, 0.0) * (1 + _STAYS)
    error_ns = _MODEL_ERROR * now_ns
    return Estimate(now_ns - high - error_ns, now_ns - central, now_ns - low + error_ns)


def _length_ns(own_ns: Sequence[float], units: float, schedule: str) -> float:
    """Return the length of a step, by the work of each stage in it.

    Args:
        own_ns: Of each stage, for all microbatches, forward and backward.
        units: Number of microbatches.
        schedule: ``1F1B`` alternates one forward and one backward pass; ``GPipe`` makes all
            forward passes first.
    """
    count = max(round(units), 1)
    ended: dict[tuple[int, int, bool], float] = {}
    orders = [_order(stage, len(own_ns), count, schedule) for stage in range(len(own_ns))]
    at, place = [0.0] * len(own_ns), [0] * len(own_ns)
    while any(one < len(order) for one, order in zip(place, orders, strict=True)):
        for stage, order in enumerate(orders):
            while place[stage] < len(order):
                number, is_backward = order[place[stage]]
                before = stage + 1 if is_backward else stage - 1
                needs = (before, number, is_backward)
                if 0 <= before < len(own_ns) and needs not in ended:
                    break
                share = _BACKWARD if is_backward else 1 - _BACKWARD
                at[stage] = max(at[stage], ended.get(needs, 0.0)) + share * own_ns[stage] / count
                ended[stage, number, is_backward] = at[stage]
                place[stage] += 1
    return max(at)


def _order(stage: int, stages: int, count: int, schedule: str) -> list[tuple[int, bool]]:
    """Return the passes of a stage: the microbatch, and whether it is a backward pass."""
    ahead = count if schedule == "GPipe" else min(stages - stage, count)
    order = [(number, False) for number in range(ahead)]
    for number in range(count):
        order.append((number, True))
        if ahead + number < count:
            order.append((ahead + number, False))
    return order
