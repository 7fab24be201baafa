"""few-layout-conversions: whether layout conversions take little of the time."""

from __future__ import annotations

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.time_parts import TimePart
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ratio

_LAYOUT = 0.05


@check(
    id="few-layout-conversions",
    name="few layout conversions",
    wanted=f"at most {_LAYOUT:.0%}",
    reason="tensors in the layout that kernels expect need no conversion",
    table="kernel_class_sum",
    needs=("kernel",),
    rank=9,
)
def few_layout_conversions(run: Run) -> Outcome:
    """Return whether layout conversions take little of the time."""
    measured = measured_time(run)
    ratio = measured.worst(measured.part_ns(TimePart.LAYOUT_COPY))
    return Outcome(
        at_most(ratio, _LAYOUT),
        f"layout conversions take {format_ratio(ratio)}",
        ratio,
    )
