"""The simulated steps of a trace, and the CPU time ranges that contain them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from warpline.derived import derived
from warpline.derived.steps.slow import slow_steps, spread
from warpline.derived.steps.times import Steps, steps
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.trace import Run

MOST_STEPS = 20
_MOST_SLOW = 10  # besides these, where slow steps matter
_MOST_TRIED = 1_000
# A few earlier steps, so that work already on the GPU at the start does not matter.
_LEAD_STEPS = 2


class ReplayWindow(NamedTuple):
    """The simulated time ranges: a single one, and one for each slow step apart from it.

    Attributes:
        start_ns: Shape (ranges,), int64, ascending. Calls that start at or after this time are
            simulated.
        end_ns: Shape (ranges,), int64, the ends, before the next start.
        step: Shape (k,), int64, places in `steps` of all steps in the ranges, by loop and time;
            empty where the trace has no steps and is simulated as a whole.
    """

    start_ns: I64
    end_ns: I64
    step: I64

    def of_time(self, time_ns: I64) -> I64:
        """Return the last range that begins at or before each time, -1 before the first."""
        return np.searchsorted(self.start_ns, time_ns, side="right") - 1


@derived
def replay_window(run: Run) -> ReplayWindow:
    """Return the steps to simulate: at most `MOST_STEPS` representative ones per loop.

    A program may be slow for a while. Among all consecutive included steps, those are chosen whose
    median is closest to that of all. This is done for the loop that takes the most time; the others
    are simulated from the same time. Where slow steps take a measurable part of its time, up to
    `_MOST_SLOW` of them are simulated as well.
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
        return ReplayWindow(np.array([low]), np.array([high + 1]), chosen)
    low, high = run_steps.host_start_ns[chosen].min(), run_steps.host_end_ns[chosen].max()
    slow = spread(slow_steps(run), np.setdiff1d(main, chosen), _MOST_SLOW)
    if not len(slow):
        return ReplayWindow(np.array([low]), np.array([high]), chosen)
    return _with_slow(run_steps, chosen, slow)


def _with_slow(run_steps: Steps, chosen: I64, slow: I64) -> ReplayWindow:
    """Return the window of chosen steps, with slow ones and the steps before them."""
    start, end, loop = run_steps.host_start_ns, run_steps.host_end_ns, run_steps.loop
    first = np.maximum(slow - _LEAD_STEPS, np.searchsorted(loop, loop[slow]))
    ranges = [(start[chosen].min(), end[chosen].max())]
    ranges += zip(start[first].tolist(), end[slow].tolist(), strict=True)
    more = [np.flatnonzero((start >= low) & (start < high)) for low, high in ranges[1:]]
    lows, highs = np.array(ranges, np.int64).T
    # Those of other ranks may last longer.
    highs[1:] = [end[places].max() for places in more]
    # A step that follows a range at once belongs to it: nothing is left out between them.
    every = distinct_values(np.concatenate([chosen, *more]))
    joins = every[1:][(np.diff(every) == 1) & (loop[every[1:]] == loop[every[:-1]])]
    times = union(np.append(lows, end[joins - 1]), np.append(highs, start[joins]))
    return ReplayWindow(times.start, times.end, every)


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
