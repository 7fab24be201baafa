"""The clock at which compute-bound kernels ran, by the nearest reading of their GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.compute_bound import compute_bound
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.health.clock_limits import ClockLimit, is_idle, main_limits
from warpline.derived.health.readings import Readings, gpu_readings
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64
from warpline.trace import Run

# A kernel belongs to a reading at most this many periods away: further, nobody looked.
_PERIODS = 1.0


class KernelClocks(NamedTuple):
    """Compute-bound kernels of the included steps on one GPU, with the clock near each.

    Attributes:
        readings: Of that GPU, those with a clock, and not of an idle GPU.
        highest_hz: The highest clock of the GPU; 0 if unknown.
        kernel: Shape (n,), int64, places in `operations`.
        reading: Shape (n,), int64, places in `readings`.
        ns: Shape (n,), int64, durations of the kernels.
        clock_hz: Shape (n,), int64.
        limit: Shape (n,), int8, what limited that clock, members of `ClockLimit`.
    """

    readings: Readings
    highest_hz: int
    kernel: I64
    reading: I64
    ns: I64
    clock_hz: I64
    limit: I8

    @property
    def n_readings(self) -> int:
        """The number of distinct readings near the kernels."""
        return len(np.unique(self.reading))

    def taken(self, rows: I64) -> KernelClocks:
        """Return some of the kernels."""
        return self._replace(
            kernel=self.kernel[rows],
            reading=self.reading[rows],
            ns=self.ns[rows],
            clock_hz=self.clock_hz[rows],
            limit=self.limit[rows],
        )

    def limited_by(self, *limits: ClockLimit) -> KernelClocks:
        """Return the kernels whose clock is limited by one of these."""
        return self.taken(np.flatnonzero(np.isin(self.limit, limits)))

    @property
    def total_ns(self) -> int:
        """Sum of the durations."""
        return int(self.ns.sum())

    @property
    def mean_hz(self) -> float:
        """The mean clock, by time; 0 without kernels."""
        return float(np.average(self.clock_hz, weights=self.ns)) if self.total_ns else 0.0


def kernel_clocks(run: Run) -> tuple[KernelClocks, ...]:
    """Return the clocks of compute-bound kernels, for each GPU that has readings of its clock.

    A kernel has the clock of the nearest reading, at most one period away. GPUs without such
    kernels have an entry of length 0.
    """
    trace = run.trace
    work = operations(trace)
    chosen = compute_bound(trace) & step_scope(run).operations
    found = []
    for readings in gpu_readings(trace):
        timed = readings.chosen(readings.is_known("sm_clock_hz") & ~is_idle(readings))
        if not len(timed):
            continue
        kernels = np.flatnonzero(chosen & (work.device == readings.of))
        at = work.start_ns[kernels] + (work.end_ns - work.start_ns)[kernels] // 2
        nearest, distance = _nearest(timed.start_ns, at)
        near = np.flatnonzero(distance <= _PERIODS * readings.period_ns)
        reading = nearest[near]
        found.append(
            KernelClocks(
                timed,
                int(peaks_of_devices(trace).clock_hz[readings.of]),
                kernels[near],
                reading,
                (work.end_ns - work.start_ns)[kernels[near]],
                timed.columns["sm_clock_hz"].values[reading],
                main_limits(timed)[reading],
            )
        )
    return tuple(found)


def _nearest(times: I64, at: I64) -> tuple[I64, I64]:
    """Return for each point the place of the nearest of some ascending times, and how far it is."""
    after = np.searchsorted(times, at)
    before, after = np.maximum(after - 1, 0), np.minimum(after, len(times) - 1)
    is_after = np.abs(times[after] - at) < np.abs(times[before] - at)
    place = np.where(is_after, after, before)
    return place, np.abs(times[place] - at)
