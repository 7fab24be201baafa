"""Slow steps that take much of the time, as those that wait for a burst of input.

The median step shows nothing of what they cost, but the mean does, and so do the shares of the
breakdown. Where they matter, some of them are simulated beside the typical steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.steps.times import NO_STEP, step_of_operations, steps
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.trace import Run

_SLOW = 1.5  # times the median
_LEAST = 2  # one slow step does not recur


class SlowSteps(NamedTuple):
    """The slow steps of each loop in which they matter.

    Attributes:
        is_slow: Shape (steps,), bool, included steps that are slow.
        length_ns: Shape (steps,), int64, the time from the end of the step before to its own end;
            0 without one, and where no step is slow.
        share: Shape (loops,), float64, the slow part of the included steps of a loop.
        mean_ns: Shape (loops,), float64, the mean period of these steps.
    """

    is_slow: BoolArray
    length_ns: I64
    share: F64
    mean_ns: F64

    def typical_of(self, step: I64, values_ns: I64) -> float:
        """Return the median of values of some steps, of those that are not slow if there are any.

        Args:
            step: Shape (k,), int64, places in `steps`.
            values_ns: Shape (k,), int64, the values.
        """
        slow = self.is_slow[step]
        values_ns = values_ns if slow.all() else values_ns[~slow]
        return float(np.median(values_ns)) if len(values_ns) else 0.0

    def mean_of(
        self, loop: int, step: I64, values_ns: I64, recorded_ns: I64 | None = None
    ) -> float:
        """Return the mean of values over all steps of a loop, from those of some of its steps.

        The median where no slow step matters, or none is among these.

        Args:
            loop: The loop.
            step: Shape (k,), int64, places in `steps`.
            values_ns: Shape (k,), int64, the values.
            recorded_ns: Shape (k,), int64, the recorded step times if the values are simulated step
                times. These are weighted such that the recorded ones have the mean of all steps.
        """
        slow, typical_ns = self.is_slow[step], self.typical_of(step, values_ns)
        if not slow.any() or slow.all():
            return typical_ns
        share = float(self.share[loop])
        scale = 1.0
        if recorded_ns is not None:
            rest_ns = self.mean_ns[loop] - (1 - share) * float(np.median(recorded_ns[~slow]))
            slow_ns = share * float(recorded_ns[slow].mean())
            scale = max(rest_ns / slow_ns, 0.0) if slow_ns > 0 else 0.0
        return (1 - share) * typical_ns + share * scale * float(values_ns[slow].mean())


@derived
def slow_steps(run: Run) -> SlowSteps:
    """Return the slow steps that together take a measurable part of their loop's time."""
    run_steps = steps(run)
    count = int(run_steps.loop.max(initial=-1)) + 1
    period = run_steps.period_ns
    share, mean = np.zeros(count), np.zeros(count)
    is_slow = np.zeros(len(run_steps), np.bool_)
    uneven = []
    for loop in distinct_values(run_steps.loop).tolist():
        own = np.flatnonzero((run_steps.loop == loop) & run_steps.included & (period > 0))
        if len(own) and period[own].mean() > (1 + MEASURABLE_RATIO) * np.median(period[own]):
            uneven.append((loop, own))
    if not uneven:
        return SlowSteps(is_slow, np.zeros(len(run_steps), np.int64), share, mean)
    length = _lengths(run)
    for loop, own in uneven:
        known = own[length[own] > 0]
        usual = float(np.median(length[known])) if len(known) else 0.0
        slow = known[length[known] > _SLOW * usual]
        excess_ns = float((length[slow] - usual).sum())
        if len(slow) >= _LEAST and excess_ns >= MEASURABLE_RATIO * float(length[known].sum()):
            is_slow[slow] = True
            share[loop], mean[loop] = len(slow) / len(known), float(period[own].mean())
    return SlowSteps(is_slow, length, share, mean)


def spread(slow: SlowSteps, among: I64, most: int) -> I64:
    """Return some of the slow steps, from short to long ones alike."""
    chosen = among[slow.is_slow[among]]
    chosen = chosen[np.argsort(slow.length_ns[chosen], kind="stable")]
    if len(chosen) <= most:
        return chosen
    picked: I64 = chosen[((np.arange(most) + 0.5) * len(chosen) / most).astype(np.int64)]
    return picked


def _lengths(run: Run) -> I64:
    """Return the time of each step until it is done on CPU and GPU; 0 for the first of a loop."""
    run_steps, work, step = steps(run), operations(run.trace), step_of_operations(run)
    done = run_steps.host_end_ns.copy()
    rows = np.flatnonzero(step != NO_STEP)
    np.maximum.at(done, step[rows], work.end_ns[rows])
    follows = np.append(False, run_steps.loop[1:] == run_steps.loop[:-1])[: len(done)]
    return np.where(follows, np.maximum(np.diff(done, prepend=0), 0), 0)
