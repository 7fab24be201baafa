"""communication-overlapped: whether communication overlaps with compute."""

from __future__ import annotations

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.breakdown.overlaps import OverlapKind
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ratio

_EXPOSED_COMMUNICATION = 0.10


@check(
    id="communication-overlapped",
    name="communication overlapped",
    wanted=f"at most {_EXPOSED_COMMUNICATION:.0%} exposed",
    reason="gradient communication can overlap with the backward pass",
    table="overlap",
    needs=("kernel",),
    rank=4,
)
def communication_overlapped(run: Run) -> Outcome:
    """Return whether communication overlaps with compute."""
    measured = measured_time(run)
    ratio = measured.worst(measured.together_ns(OverlapKind.EXPOSED_COMMUNICATION))
    has_any = measured.together_ns(OverlapKind.COMMUNICATION).any()
    return Outcome(
        at_most(ratio, _EXPOSED_COMMUNICATION),
        f"{format_ratio(ratio)} exposed" if has_any else "no collectives",
        ratio,
    )
