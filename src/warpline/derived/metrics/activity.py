"""How active the parts of a GPU are in the analyzed time, from sampled metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.metrics.known import known_series
from warpline.derived.metrics.means import mean_of_spans
from warpline.derived.steps.times import NO_STEP
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.trace import Run


class Activity(NamedTuple):
    """Means over the analyzed time of a GPU, between 0 and 1; None where nothing was sampled.

    Attributes:
        sm_active: SMs with at least one warp.
        sm_issue: Issue slots in use.
        tensor_active: Cycles of Tensor Cores.
        dram_active: DRAM bandwidth, of its peak.
    """

    sm_active: float | None = None
    sm_issue: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None


@derived
def gpu_activity(run: Run) -> Mapping[int, Activity]:
    """Return the activity of each GPU of which SM activity was sampled, by row of its table.

    The time is that of the included steps; without steps, from the first to the last operation.
    """
    known = known_series(run.trace)
    found = {}
    for device in sorted({device for device, meaning in known if meaning == "sm_active"}):
        start, end = _analyzed(run, device)
        series = ((name, known.get((device, name))) for name in Activity._fields)
        means = {
            name: mean_of_spans(each.samples, start, end)
            for name, each in series
            if each is not None
        }
        shares = {
            name: min(max(mean, 0.0), 1.0) for name, mean in means.items() if mean is not None
        }
        if "sm_active" in shares:
            found[device] = Activity(**shares)
    return found


def _analyzed(run: Run, device: int) -> tuple[I64, I64]:
    """Return the starts and ends of the analyzed time of a GPU."""
    windows = step_partition(run).windows
    own = np.flatnonzero(windows.device == device)
    if (windows.step[own] != NO_STEP).any():
        return windows.start_ns[own], windows.end_ns[own]
    work = operations(run.trace)
    mine = work.device == device
    if not mine.any():
        none = np.zeros(0, np.int64)
        return none, none
    return work.start_ns[mine][:1], np.array([work.end_ns[mine].max()])
