"""streams-concurrent: whether several streams run at the same time."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.breakdown.overlaps import OverlapKind
from warpline.ops.arrays import taken
from warpline.ops.group import distinct_values
from warpline.result.checks import Outcome, check
from warpline.trace import Run
from warpline.units import format_ratio

_CONCURRENT = 0.05
_SECOND_STREAM = 0.01


@check(
    id="streams-concurrent",
    name="streams concurrent",
    wanted=f"more than {_CONCURRENT:.0%} concurrent",
    reason="a second stream gains nothing if it only runs while the first one is idle",
    table="overlap",
    rank=10,
)
def streams_concurrent(run: Run) -> Outcome:
    """Return whether several streams run at the same time."""
    measured = measured_time(run)
    work, rows = measured.work, np.flatnonzero(measured.counted)
    busy_ns = np.bincount(work.stream[rows], work.end_ns[rows] - work.start_ns[rows])
    used = int(np.count_nonzero(busy_ns > _SECOND_STREAM * busy_ns.sum()))
    devices = len(distinct_values(taken(work.device, rows)))
    ratio = measured.worst(measured.together_ns(OverlapKind.SEVERAL_STREAMS), measured.busy_ns)
    if used <= devices:
        return Outcome("pass", "one stream per GPU", ratio)
    return Outcome(
        "pass" if ratio > _CONCURRENT else "fail",
        f"{used} streams, concurrent for {format_ratio(ratio)} of busy time",
        ratio,
    )
