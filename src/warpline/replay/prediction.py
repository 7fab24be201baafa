"""The simulated step time with changes, of the program as it runs without a profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.estimate import Estimate
from warpline.replay.changing import SIDES, Side, apply
from warpline.replay.draft import Draft
from warpline.replay.graph import event_graph
from warpline.replay.host import host_side
from warpline.replay.queued import queued
from warpline.replay.steps import recorded, step_busy_ns, step_times
from warpline.result.changes import Change, RemoveProfilerCost
from warpline.trace import Run

# CPU time of identical code relative to another recording on the same machine.
HOST_SPEED = Estimate(0.8, 1.0, 1.2)
# GPU clocks differ by a few percent, and libraries choose other kernels after a change.
DEVICE_SPEED = Estimate(0.95, 1.0, 1.08)


class Prediction(NamedTuple):
    """Step times before and after changes; of the whole trace if there are no steps.

    A step is done when its range has ended on the CPU and the last operation launched in it has
    ended. Its time counts from the moment when the previous step is done.

    Attributes:
        measured_ns: The median step as recorded.
        unchanged_ns: The median step, simulated unchanged.
        before_ns: The median step before the changes, without profiling if its overhead is known.
            The bounds are for that overhead and for variation of the CPU's and the GPU's speed.
        step_ns: The same after the changes. The bounds also are for their uncertain values.
        saving_ns: The difference, at least 0. Each bound compares steps of the same overhead and
            speed, and none exceeds the time in which the GPU has nothing left to do.
    """

    measured_ns: int
    unchanged_ns: int
    before_ns: Estimate
    step_ns: Estimate
    saving_ns: Estimate


def predict(
    run: Run,
    changes: Sequence[Change],
    *,
    host_speed: Estimate = HOST_SPEED,
) -> Prediction:
    """Predict the step time with changes.

    Args:
        run: The trace, and the choice of its steps.
        changes: The changes, applied in this order.
        host_speed: Factors on CPU time for the same code.
    """
    return Baseline(run, host_speed=host_speed).predict(changes)


class Baseline:
    """A run without profiling and with some changes already made, to predict more changes from.

    Args:
        run: The trace, and the choice of its steps.
        made: The changes already made, with their most likely values.
        host_speed: Factors on CPU time for the same code.
    """

    def __init__(
        self, run: Run, made: Sequence[Change] = (), *, host_speed: Estimate = HOST_SPEED
    ) -> None:
        self._run = run
        self._host_speed = host_speed
        self._drafts = {speed: draft.copy() for speed, draft in _without_profiler(run).items()}
        for draft in self._drafts.values():
            apply(run.trace, draft, made, "central")
        low, central, high = (self._step(speed).step_ns for speed in SIDES)
        self.step_ns = _ordered(low, central, high)

    def predict(self, changes: Sequence[Change]) -> Prediction:
        """Predict the step time with more changes, applied in this order."""
        before, unchanged = self.step_ns, _unchanged(self._run)
        if not changes:
            return Prediction(*unchanged, before, before, Estimate(0, 0, 0))
        best, after, worst = (self._step(side, changes, side) for side in SIDES)
        # A change gains most where the step is longest.
        most, least = self._step("high", changes, "low"), self._step("low", changes, "high")
        possible = max(before.central - most.busy_ns / DEVICE_SPEED.high, 0)
        savings = (
            before.low - least.step_ns,
            before.central - after.step_ns,
            before.high - most.step_ns,
        )
        low, central, high = (min(max(saving, 0), possible) for saving in savings)
        return Prediction(
            *unchanged,
            before,
            _ordered(best.step_ns, after.step_ns, worst.step_ns),
            _ordered(low, central, high),
        )

    def after(self, changes: Sequence[Change]) -> int:
        """Return the most likely step time with more changes."""
        return self._step("central", changes).step_ns

    def _step(
        self, speed: Side, changes: Sequence[Change] = (), side: Side = "central"
    ) -> _Simulated:
        """Return the step at a speed, with one end of the changes' uncertain values."""
        graph, draft = event_graph(self._run), self._drafts[speed].copy()
        apply(self._run.trace, draft, changes, side)
        if speed != "central":
            draft.scale_host(getattr(self._host_speed, speed))
            draft.scale_items(np.arange(len(graph.queued)), getattr(DEVICE_SPEED, speed))
        at = draft.timing()
        steps = step_times(self._run, graph, at)
        return _Simulated(steps.median_ns, step_busy_ns(self._run, graph, at, steps.loop))


class _Simulated(NamedTuple):
    """A median step, and how long its busiest GPU is busy in it."""

    step_ns: int
    busy_ns: int


class _Unchanged(NamedTuple):
    """The median step as recorded, and simulated without changes."""

    measured_ns: int
    unchanged_ns: int


@derived
def _unchanged(run: Run) -> _Unchanged:
    """Return the step times that all predictions for a run start from."""
    graph = event_graph(run)
    measured = step_times(run, graph, recorded(graph)).median_ns
    return _Unchanged(measured, step_times(run, graph, Draft(graph).timing()).median_ns)


@derived
def overhead_ratio(run: Run) -> float:
    """Return the share of the recorded step that is the profiler's overhead; 0 if unknown."""
    if run.trace.meta.call_cost_ns is None or not len(host_side(run)) or not len(queued(run)):
        return 0.0
    before, unchanged = Baseline(run).step_ns.central, _unchanged(run).unchanged_ns
    return max(1 - before / unchanged, 0.0) if unchanged else 0.0


@derived
def _without_profiler(run: Run) -> Mapping[Side, Draft]:
    """Return the graph without the profiler's overhead, for the shortest steps to the longest.

    Where the overhead is unknown, it stays.
    """
    drafts: dict[Side, Draft] = {}
    meta = run.trace.meta
    for side in SIDES:
        drafts[side] = Draft(event_graph(run))
        if meta.call_cost_ns is not None:
            more = () if meta.operator_cost_ns is None else (meta.operator_cost_ns,)
            overhead = RemoveProfilerCost(meta.call_cost_ns, *more)
            apply(run.trace, drafts[side], [overhead], side)
    return drafts


def _ordered(low: float, central: float, high: float) -> Estimate:
    return Estimate(min(low, central), central, max(high, central))
