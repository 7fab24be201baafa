"""Idle time as a share of the analyzed time, and the recorded part of it."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I64, repeated
from warpline.trace import Run, Trace


def idle_of(run: Run, *causes: TimePart) -> tuple[float, int]:
    """Return the idle time of some causes: as the share on the worst device, and in total.

    Without steps, shares are of the time from a device's first to its last operation.
    """
    parts = step_partition(run)
    sums = [parts.total(rank) for rank in parts.ranks]
    if not (parts.windows.step >= 0).any():
        for each in sums:
            each[TimePart.TAIL] = 0
    idle_ns = [int(each[list(causes)].sum()) for each in sums]
    ratios = [ns / max(int(each.sum()), 1) for ns, each in zip(idle_ns, sums, strict=True)]
    return max(ratios, default=0.0), sum(idle_ns)


def recorded_window(trace: Trace, time_ns: I64) -> I64:
    """Return the last recorded window that starts before each time, from 1; 0 before all."""
    if not trace.meta.windows_ns:
        return repeated(np.zeros(1, np.int64), len(time_ns))
    starts = np.array([start for start, _ in trace.meta.windows_ns], np.int64)
    return np.searchsorted(starts, time_ns, side="right").astype(np.int64)
