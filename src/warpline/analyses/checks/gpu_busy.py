"""gpu-busy: whether the GPU works most of the time."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import measured_time
from warpline.result.checks import Outcome, check
from warpline.trace import Run
from warpline.units import format_ratio

_BUSY = 0.80


@check(
    id="gpu-busy",
    name="GPU busy",
    wanted=f"more than {_BUSY:.0%}",
    reason="an idle GPU gains more from a faster CPU side than from faster kernels",
    table="breakdown",
    rank=1,
)
def gpu_busy(run: Run) -> Outcome:
    """Return whether the GPU works most of the time."""
    measured = measured_time(run)
    ratio = float(np.min(measured.busy_ns / np.maximum(measured.total_ns, 1), initial=1.0))
    return Outcome(
        "pass" if ratio > _BUSY else "fail",
        f"{format_ratio(ratio)} of the time",
        ratio,
    )
