"""How far predictions were from measured programs, from which their bounds follow.

Programs of `benchmarks/blind` and the pairs of docs/findings.md were recorded with a problem, their
steps predicted, and both variants measured without a profiler. `benchmarks/blind/calibrate.py`
computes the errors from these results. Each of the ranges below holds about eight in ten of them.
Of the 34 steps that were predicted blind, 29 lie within the bounds that follow, and so do 22 of the
ratios of fixed to bad steps, whose bounds leave out the speeds.
"""

from __future__ import annotations

from typing import NamedTuple

from warpline.estimate import Estimate


class Calibration(NamedTuple):
    """The distributions of the errors of predictions, each relative to the prediction.

    Attributes:
        host_speed: CPU time of the same code when the program is measured.
        device_speed: GPU time of the same kernels.
        saved_odds: The time that a fix saves relative to the time that remains after it. Unlike a
            factor on one of these times, it never makes a saving negative or longer than the step.
    """

    host_speed: Estimate
    device_speed: Estimate
    saved_odds: Estimate

    def saving_ns(self, predicted_ns: float, before_ns: float) -> Estimate:
        """Return a saving with bounds that hold measured savings of the same CPU and GPU speed.

        Args:
            predicted_ns: The predicted saving; one of 0 or less has no error that is known.
            before_ns: The step before the fix.
        """
        if not 0 < predicted_ns < before_ns:
            return Estimate(predicted_ns, predicted_ns, predicted_ns)
        remaining_ns = before_ns - predicted_ns
        low, high = (
            before_ns * odds * predicted_ns / (odds * predicted_ns + remaining_ns)
            for odds in (self.saved_odds.low, self.saved_odds.high)
        )
        return Estimate(low, predicted_ns, high)


MEASURED = Calibration(
    # Holds 33 of 42 measured times of programs that the CPU limits. 28 of these were recorded at
    # another time, on another machine of the same kind. The median is 0.77.
    host_speed=Estimate(0.5, 1.0, 1.1),
    # Holds 22 of 26 measured times of programs that the GPU limits. Clocks differ by a few percent,
    # tracing makes short kernels longer, and libraries choose other kernels after a change.
    device_speed=Estimate(0.92, 1.0, 1.08),
    # Holds 37 of 47 pairs, 33 of them predicted blind. Of GPU work (16 pairs, 0.8 to 2.2), waits
    # (13, 1.0 to 2.9), launches (9, 0.8 to 2.6), and CPU work (8, 0.7 to 2.0), each differs less
    # from the others than its own pairs do. Ranges of their own, from the first blind set and the
    # other pairs, held 13 of 16 steps and 8 ratios of the second one, a common range 15 and 11.
    saved_odds=Estimate(0.8, 1.0, 2.5),
)
