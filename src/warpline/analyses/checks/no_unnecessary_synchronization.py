"""no-unnecessary-synchronization: whether the GPU is rarely idle after synchronization."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import MeasuredTime, measured_time
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.time_parts import TimePart
from warpline.ops.tree import enclosing
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ratio, plural

_HOST_SYNC = 0.05
_NO_CALLS = "CUDA API calls not recorded"


@check(
    id="no-unnecessary-synchronization",
    name="no unnecessary synchronization",
    wanted=f"at most {_HOST_SYNC:.0%} idle",
    reason="after a synchronization the GPU is idle until the CPU launches again",
    table="cuda_api_sum",
    rank=5,
)
def no_unnecessary_synchronization(run: Run) -> Outcome:
    """Return whether the GPU is rarely idle after synchronization."""
    measured = measured_time(run)
    if not run.trace.has("api_call") or not run.trace.row_count("api_call"):
        return Outcome("unknown", _NO_CALLS)
    ratio = measured.worst(measured.part_ns(TimePart.HOST_SYNC))
    waits = _count_waits(measured)
    each = ""
    if waits is not None:
        each = f", {plural(round(waits / measured.count), 'synchronization')}{measured.each}"
    return Outcome(
        at_most(ratio, _HOST_SYNC),
        f"GPU idle {format_ratio(ratio)} due to synchronization{each}",
        ratio,
    )


def _count_waits(measured: MeasuredTime) -> int | None:
    """Return the number of CPU synchronizations that began in the counted windows."""
    if not measured.run.trace.has("host_wait") or not measured.run.trace.row_count("host_wait"):
        return None
    start = measured.run.trace.columns("host_wait", "start_ns")["start_ns"].values
    windows = step_partition(measured.run).windows
    return int(np.count_nonzero(enclosing(start, windows.start_ns, windows.end_ns).found))
