"""Kernels whose clock a limit lowers, and their time without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.health.clock_limits import ClockLimit
from warpline.derived.health.kernel_clocks import KernelClocks
from warpline.estimate import Estimate
from warpline.ops.arrays import F64
from warpline.ops.tiling import by_group
from warpline.result.changes import Change, ScaleOperations

LEAST_READINGS = 3  # of a GPU while compute-bound kernels run
_LOWER = 0.98  # of the highest clock: above that, nothing is lost
# Of a kernel's time, what follows the clock at worst: the rest waits for memory.
_OF_TIME = 0.5
_NOT_REMOVABLE = (ClockLimit.POWER_CAP, ClockLimit.NONE)


class SlowedKernels(NamedTuple):
    """Kernels of one GPU whose clock a limit lowers.

    Attributes:
        kernels: These kernels.
        whole_ns: Time of all compute-bound kernels of the GPU near readings.
        reachable_hz: The mean clock of those that no removable limit affects; 0 if unknown.
    """

    kernels: KernelClocks
    whole_ns: int
    reachable_hz: float

    @property
    def device(self) -> int:
        """Row of the device table."""
        return self.kernels.readings.of

    @property
    def factor(self) -> F64:
        """Shape (kernels,), float64: the likely time without the limit, divided by that now."""
        later_hz = self.reachable_hz or float(self.kernels.highest_hz)
        ratio: F64 = np.minimum(self.kernels.clock_hz / later_hz, 1.0)
        return ratio

    def changes(self) -> Iterator[Change]:
        """Yield the times at a higher clock, one change for each clock now."""
        for rows in by_group(self.kernels.clock_hz):
            best = float(self.kernels.clock_hz[rows[0]]) / self.kernels.highest_hz
            likely = float(self.factor[rows[0]])
            worst = 1 - (1 - likely) * _OF_TIME
            yield ScaleOperations(
                self.kernels.kernel[rows], Estimate(min(best, likely), likely, worst)
            )


def slowed_kernels(
    clocks: Sequence[KernelClocks],
    *limits: ClockLimit,
    than: Sequence[ClockLimit] = _NOT_REMOVABLE,
) -> list[SlowedKernels]:
    """Return the kernels below the highest clock because of one of some limits, by GPU.

    Args:
        clocks: All compute-bound kernels, by GPU.
        limits: The limits.
        than: Kernels with these limits show which clock the others can reach.
    """
    found = []
    for each in clocks:
        limited = each.limited_by(*limits)
        slow = limited.taken(np.flatnonzero(limited.clock_hz < _LOWER * each.highest_hz))
        others = each.limited_by(*than)
        is_known = others.n_readings >= LEAST_READINGS
        if slow.total_ns:
            found.append(SlowedKernels(slow, each.total_ns, others.mean_hz if is_known else 0.0))
    return found


def clock_ratio(slowed: Sequence[SlowedKernels]) -> float:
    """Return the mean clock as a share of the highest, by time."""
    ns = sum(each.kernels.total_ns for each in slowed)
    ratios = (each.kernels.mean_hz / each.kernels.highest_hz for each in slowed)
    weights = (each.kernels.total_ns / ns for each in slowed)
    return sum(ratio * weight for ratio, weight in zip(ratios, weights, strict=True))
