"""The simulated step time with changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.estimate import Estimate
from warpline.replay.changing import SIDES, Side, apply
from warpline.replay.draft import Draft
from warpline.replay.graph import event_graph
from warpline.replay.steps import recorded, step_times
from warpline.result.changes import Change
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
        unchanged_ns: The median step, simulated without changes.
        step_ns: The median step with the changes, with bounds for their uncertain values and for
            CPU variation.
    """

    measured_ns: int
    unchanged_ns: int
    step_ns: Estimate


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
    before = _before(run)
    low, central, high = (_replayed(run, changes, side, host_speed) for side in SIDES)
    ordered = Estimate(min(low, central), central, max(high, central))
    return Prediction(before.measured_ns, before.unchanged_ns, ordered)


class _Before(NamedTuple):
    """The median step as recorded, and simulated without changes."""

    measured_ns: int
    unchanged_ns: int


@derived
def _before(run: Run) -> _Before:
    """Return the step times that all predictions for a run start from."""
    graph = event_graph(run)
    measured = step_times(run, graph, recorded(graph)).median_ns
    return _Before(measured, step_times(run, graph, Draft(graph).timing()).median_ns)


def _replayed(run: Run, changes: Sequence[Change], side: Side, host_speed: Estimate) -> int:
    """Return the median step with changes."""
    graph = event_graph(run)
    draft = Draft(graph)
    apply(run.trace, draft, changes, side)
    if side != "central":
        draft.scale_host(getattr(host_speed, side))
        draft.scale_items(np.arange(len(graph.queued)), getattr(DEVICE_SPEED, side))
    return step_times(run, graph, draft.timing()).median_ns
