"""few-optimizer-launches: whether the optimizer runs in few kernels."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import MeasuredTime, measured_time
from warpline.derived.program import OPTIMIZER
from warpline.derived.ranges.stacks import is_launched_inside
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import BoolArray
from warpline.ops.group import distinct_values
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ns, plural

_OPTIMIZER_LAUNCHES = 20


@check(
    id="few-optimizer-launches",
    name="few optimizer launches",
    wanted=f"at most {_OPTIMIZER_LAUNCHES} launches",
    reason="a fused optimizer updates all parameters in a few kernels",
    table="kernel_class_sum",
    needs=("kernel",),
    rank=7,
)
def few_optimizer_launches(run: Run) -> Outcome:
    """Return whether the optimizer runs in few kernels."""
    measured = measured_time(run)
    launched = measured.of_category(TimePart.OPTIMIZER)
    in_ranges = _in_optimizer_ranges(measured)
    if in_ranges is not None:
        launched |= in_ranges & measured.counted
    if not launched.any():
        why = "no optimizer kernels and no ranges named optimizer"
        return Outcome("unknown", why)
    each = int(np.count_nonzero(launched)) / measured.count
    ns = int((measured.work.end_ns - measured.work.start_ns)[launched].sum()) / measured.count
    return Outcome(
        at_most(each, _OPTIMIZER_LAUNCHES),
        f"{plural(round(each), 'operation')}{measured.each}, {format_ns(ns)}",
        each,
        "count",
    )


def _in_optimizer_ranges(measured: MeasuredTime) -> BoolArray | None:
    """Return which kernels were launched in optimizer ranges; None without such ranges."""
    trace = measured.run.trace
    needed = ("kernel", "range", "api_call")
    if not all(trace.has(table) and trace.row_count(table) for table in needed):
        return None
    ids = trace.columns("range", "name_id")["name_id"].filled(-1)
    means_optimizer = np.zeros(len(trace.strings) + 1, np.bool_)  # the last is that of -1
    for row in distinct_values(ids).tolist():
        means_optimizer[row] = row >= 0 and bool(OPTIMIZER.search(trace.strings.text(row)))
    if not means_optimizer.any():
        return None
    is_inside = is_launched_inside(trace, "kernel", np.flatnonzero(means_optimizer[ids]))
    mask = np.zeros(len(measured.work), np.bool_)
    kernels = measured.work.of_table("kernel")
    mask[kernels] = is_inside[measured.work.row[kernels]]
    return mask
