"""The simulated step time with changes, of the program as it runs without a profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.estimate import Estimate
from warpline.replay.calibration import MEASURED, Calibration
from warpline.replay.changing import SIDES, Side, apply
from warpline.replay.draft import Draft
from warpline.replay.graph import event_graph
from warpline.replay.host import host_side
from warpline.replay.queued import queued
from warpline.replay.steps import recorded, step_busy_ns, step_times
from warpline.result.changes import Change, RemoveProfilerCost
from warpline.trace import Run

_NOTHING = Estimate(0, 0, 0)


class Prediction(NamedTuple):
    """Step times before and after changes; of the whole trace if there are no steps.

    A step is done when its range has ended on the CPU and the last operation launched in it has
    ended. Its time counts from the moment when the previous step is done.

    Attributes:
        measured_ns: The step as recorded: the median or, where slow steps take a measurable part
            of the time, the mean.
        unchanged_ns: The same, simulated unchanged.
        before_ns: The step before the changes, without profiling if its overhead is known.
            The bounds are for that overhead and for the speed of the CPU and the GPU when the
            program is measured, which is not that of the recording (see `calibration`).
        step_ns: The same after the changes. The bounds also are for their uncertain values, and at
            least as wide as the errors of measured pairs. None is below the time of the kernels
            that remain.
        saving_ns: The difference, at least 0. Each bound compares steps of the same overhead and
            speed, and none exceeds the time in which the GPU has nothing left to do.
        saved_ratio: The saving relative to the step before, at the same speed of CPU and GPU as in
            the recording.
        typical_saving_ns: What a step saves that is not one of the slow ones.
    """

    measured_ns: int
    unchanged_ns: int
    before_ns: Estimate
    step_ns: Estimate
    saving_ns: Estimate
    saved_ratio: Estimate
    typical_saving_ns: float


def predict(
    run: Run,
    changes: Sequence[Change],
    *,
    calibration: Calibration = MEASURED,
) -> Prediction:
    """Predict the step time with changes.

    Args:
        run: The trace, and the choice of its steps.
        changes: The changes, applied in this order.
        calibration: The errors that bounds are for.
    """
    return Baseline(run, calibration=calibration).predict(changes)


class Baseline:
    """A run without profiling and with some changes already made, to predict more changes from.

    Args:
        run: The trace, and the choice of its steps.
        made: The changes already made, with their most likely values.
        calibration: The errors that bounds are for.
    """

    def __init__(
        self, run: Run, made: Sequence[Change] = (), *, calibration: Calibration = MEASURED
    ) -> None:
        self._run = run
        self._calibration = calibration
        self._drafts = {speed: draft.copy() for speed, draft in _without_profiler(run).items()}
        for draft in self._drafts.values():
            apply(run.trace, draft, made, "central")
        low, central, high = (self._step(speed) for speed in SIDES)
        self.step_ns = _ordered(low.step_ns, central.step_ns, high.step_ns)
        self.typical_ns = central.typical_ns

    def predict(self, changes: Sequence[Change], most_ns: Estimate | None = None) -> Prediction:
        """Predict the step time with more changes, applied in this order.

        Args:
            changes: The changes.
            most_ns: The most that they can save, whatever the simulation says.
        """
        before, unchanged = self.step_ns, _unchanged(self._run)
        if not changes:
            return Prediction(*unchanged, before, before, _NOTHING, _NOTHING, 0.0)
        best, after, worst = (self._step("central", changes, side) for side in SIDES)
        possible_ns = max(before.central - best.busy_ns, 0)
        steps_ns = sorted((best.step_ns, worst.step_ns))
        simulated = _ordered(
            *(before.central - ns for ns in (steps_ns[1], after.step_ns, steps_ns[0]))
        )
        saved = self._with_errors(_limited(simulated, most_ns), possible_ns, most_ns)
        # What is saved at another speed follows from the steps before and after at that speed.
        remaining = [before.central - saving for saving in reversed(saved)]
        speeds = {side: self._step(side, changes).step_ns for side in SIDES if side != "central"}
        faster, slower = (_ratio(speeds[side], after.step_ns) for side in ("low", "high"))
        pairs = ((before.low, faster), (before.central, 1.0), (before.high, slower))
        low = min(ns - remaining[2] * factor for ns, factor in pairs)
        high = max(ns - remaining[0] * factor for ns, factor in pairs)
        limit_ns = possible_ns if most_ns is None else min(possible_ns, most_ns.high)
        least_ns = best.busy_ns * self._calibration.device_speed.low
        low, central, high = (min(max(ns, 0), limit_ns) for ns in (low, saved.central, high))
        return Prediction(
            *unchanged,
            before,
            _ordered(max(remaining[0] * faster, least_ns), remaining[1], remaining[2] * slower),
            _ordered(low, central, high),
            Estimate(*(max(_ratio(ns, before.central, 0), 0) for ns in saved)),
            max(self.typical_ns - after.typical_ns, 0),
        )

    def _with_errors(
        self, saving: Estimate, possible_ns: float, most_ns: Estimate | None
    ) -> Estimate:
        """Return a saving whose bounds are at least as wide as the errors of measured pairs."""
        measured = self._calibration.saving_ns(saving.central, self.step_ns.central)
        limit_ns = possible_ns if most_ns is None else min(possible_ns, most_ns.high)
        return Estimate(
            min(saving.low, measured.low),
            saving.central,
            max(saving.central, min(max(saving.high, measured.high), limit_ns)),
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
            host, device, _ = self._calibration
            draft.scale_host(getattr(host, speed))
            draft.scale_items(np.arange(len(graph.queued)), getattr(device, speed))
        at = draft.timing()
        steps = step_times(self._run, graph, at)
        busy_ns = step_busy_ns(self._run, graph, at, steps.loop)
        return _Simulated(steps.step_ns, steps.typical_ns, busy_ns)


class _Simulated(NamedTuple):
    """A step, one that is not slow, and how long the busiest GPU is busy in a step."""

    step_ns: int
    typical_ns: int
    busy_ns: int


class _Unchanged(NamedTuple):
    """The step as recorded, and simulated without changes."""

    measured_ns: int
    unchanged_ns: int


@derived
def _unchanged(run: Run) -> _Unchanged:
    """Return the step times that all predictions for a run start from."""
    graph = event_graph(run)
    measured = step_times(run, graph, recorded(graph)).step_ns
    return _Unchanged(measured, step_times(run, graph, Draft(graph).timing()).step_ns)


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


def _limited(saving_ns: Estimate, most_ns: Estimate | None) -> Estimate:
    """Return a saving of at most `most_ns`, whose lower bound is as far below as it was."""
    if most_ns is None:
        return saving_ns
    central = min(saving_ns.central, most_ns.central)
    low = min(saving_ns.low, saving_ns.low * _ratio(central, saving_ns.central), most_ns.low)
    return _ordered(low, central, min(saving_ns.high, most_ns.high))


def _ratio(ns: float, of_ns: float, otherwise: float = 1.0) -> float:
    return ns / of_ns if of_ns else otherwise


def _ordered(low: float, central: float, high: float) -> Estimate:
    return Estimate(min(low, central), central, max(high, central))
