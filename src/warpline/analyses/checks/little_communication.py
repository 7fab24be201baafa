"""little-communication: whether collectives take little of the time."""

from __future__ import annotations

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.breakdown.overlaps import OverlapKind
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ratio

_COMMUNICATION = 0.30


@check(
    id="little-communication",
    name="little communication",
    wanted=f"at most {_COMMUNICATION:.0%}, better 20%",
    reason="more indicates waiting for other ranks, or too much data for the links",
    table="collective_kern_sum",
    needs=("kernel",),
    rank=3,
)
def little_communication(run: Run) -> Outcome:
    """Return whether collectives take little of the time."""
    measured = measured_time(run)
    ratio = measured.worst(measured.together_ns(OverlapKind.COMMUNICATION))
    return Outcome(
        at_most(ratio, _COMMUNICATION),
        f"collectives take {format_ratio(ratio)} of the time" if ratio else "no collectives",
        ratio,
    )
