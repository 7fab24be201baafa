"""The simulated steps of a trace, and the CPU time range that contains them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.times import Steps, steps
from warpline.ops.arrays import I64
from warpline.trace import Run

MOST_STEPS = 20
# A few earlier steps, so that work already on the GPU at the start does not matter.
_LEAD_STEPS = 2


class ReplayWindow(NamedTuple):
    """The simulated time range.

    Attributes:
        start_ns: Calls that start at or after this time are simulated.
        end_ns: The end of the range.
        step: Shape (k,), int64, places in `steps` of all steps in the range, by loop and time;
            empty where the trace has no steps and is simulated as a whole.
    """

    start_ns: int
    end_ns: int
    step: I64


@derived
def replay_window(run: Run) -> ReplayWindow:
    """Return the steps to simulate: at most `MOST_STEPS` representative ones per loop."""
    run_steps = steps(run)
    parts = [_of_loop(run_steps, loop) for loop in np.unique(run_steps.loop).tolist()]
    chosen = np.concatenate([np.zeros(0, np.int64), *parts])
    if not len(chosen):
        low, high = run.trace.span()
        return ReplayWindow(low, high + 1, chosen)
    low, high = run_steps.host_start_ns[chosen].min(), run_steps.host_end_ns[chosen].max()
    return ReplayWindow(int(low), int(high), chosen)


def _of_loop(run_steps: Steps, loop: int) -> I64:
    """Return the steps of one loop, from its first or from shortly before the included ones."""
    places = np.flatnonzero(run_steps.loop == loop)
    included = np.flatnonzero(run_steps.included[places])
    if not len(included):
        return places[:MOST_STEPS]
    first = 0 if len(places) <= MOST_STEPS + _LEAD_STEPS else max(included[0] - _LEAD_STEPS, 0)
    last = included[min(len(included), MOST_STEPS) - 1]
    if last + 2 == len(places) and _is_only_last(run_steps, int(places[-1])):
        last += 1
    return places[first : last + 1]


def _is_only_last(run_steps: Steps, step: int) -> bool:
    """Return whether a step is excluded only because it is the last and has no period."""
    reasons = {reason for place, reason in run_steps.excluded if place == step}
    return run_steps.has_ranges and reasons == {"last"}
