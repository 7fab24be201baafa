"""The simulated steps of a trace, and the CPU time range that contains them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from warpline.derived import derived
from warpline.derived.steps.times import Steps, steps
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.trace import Run

MOST_STEPS = 20
_MOST_TRIED = 1_000
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
    """Return the steps to simulate: at most `MOST_STEPS` representative ones per loop.

    A program may be slow for a while. Among all consecutive included steps, those are chosen whose
    median is closest to that of all. This is done for the loop that takes the most time; the others
    are simulated from the same time.
    """
    run_steps = steps(run)
    places = [
        np.flatnonzero(run_steps.loop == loop) for loop in distinct_values(run_steps.loop).tolist()
    ]
    included = [own[run_steps.included[own]] for own in places]
    period = _period_ns(run_steps)
    main = max(included, key=lambda own: int(period[own].sum()), default=np.zeros(0, np.int64))
    begin = _representative(period[main])
    from_ns = int(run_steps.host_start_ns[main[begin]]) if begin else 0
    parts = [_of_loop(run_steps, own, from_ns) for own in places]
    chosen = np.concatenate([np.zeros(0, np.int64), *parts])
    if not len(chosen):
        low, high = run.trace.span()
        return ReplayWindow(low, high + 1, chosen)
    low, high = run_steps.host_start_ns[chosen].min(), run_steps.host_end_ns[chosen].max()
    return ReplayWindow(int(low), int(high), chosen)


def _period_ns(run_steps: Steps) -> I64:
    """Return the period of each step on a device, or on the CPU if it has none."""
    period = run_steps.period_ns
    return np.where(period > 0, period, run_steps.host_period_ns)


def _representative(period_ns: I64) -> int:
    """Return where the `MOST_STEPS` consecutive steps begin whose median is closest to that of all.

    The first ones of several; 0 if there are not more.
    """
    if len(period_ns) <= MOST_STEPS:
        return 0
    every = np.arange(0, len(period_ns) - MOST_STEPS + 1, max(len(period_ns) // _MOST_TRIED, 1))
    medians = np.median(sliding_window_view(period_ns, MOST_STEPS)[every], axis=1)
    return int(every[np.argmin(np.abs(medians - np.median(period_ns)))])


def _of_loop(run_steps: Steps, places: I64, from_ns: int) -> I64:
    """Return steps of one loop, with a few earlier ones.

    Args:
        run_steps: The steps.
        places: Those of the loop.
        from_ns: Start of the first included one, if as many follow as are simulated.
    """
    included = np.flatnonzero(run_steps.included[places])
    if not len(included):
        return places[:MOST_STEPS]
    begin = int(np.searchsorted(run_steps.host_start_ns[places[included]], from_ns))
    begin = max(min(begin, len(included) - MOST_STEPS), 0)
    chosen = included[begin : begin + MOST_STEPS]
    first = 0 if len(places) <= MOST_STEPS + _LEAD_STEPS else max(chosen[0] - _LEAD_STEPS, 0)
    last = chosen[-1]
    if last + 2 == len(places) and _is_only_last(run_steps, int(places[-1])):
        last += 1
    return places[first : last + 1]


def _is_only_last(run_steps: Steps, step: int) -> bool:
    """Return whether a step is excluded only because it is the last and has no period."""
    reasons = {reason for place, reason in run_steps.excluded if place == step}
    return run_steps.has_ranges and reasons == {"last"}
