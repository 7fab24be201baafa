"""The stages of a pipeline: how long each works and waits for others, and what balance would save.

With n microbatches and s stages, a stage works on n of n + s - 1 equal parts of a step: it waits
until the first microbatch reaches it, and after its last one. The slowest stage sets the pace of
all others: a step takes n times its work for one microbatch, and once that of each other stage.
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
_FEWEST = 2.0  # microbatches, if their number is unknown


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
    """Return the step after the work of stages changes; the bounds allow for another schedule."""
    savings = [
        _length_ns(before_ns, n) - _length_ns(after_ns, n)
        for n in ((units,) if units >= 1 else (_FEWEST, np.inf))
    ]
    central = max(float(np.mean(savings)), 0.0)
    low, high = max(min(savings) * (1 - _STAYS), 0.0), max(*savings, 0.0) * (1 + _STAYS)
    error_ns = _MODEL_ERROR * now_ns
    return Estimate(now_ns - high - error_ns, now_ns - central, now_ns - low + error_ns)


def _length_ns(own_ns: Sequence[float], units: float) -> float:
    """Return the length of a step, by the work of each stage in it."""
    most = max(own_ns)
    return most + (sum(own_ns) - most) / units
