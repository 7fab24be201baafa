"""copies-overlapped: whether copies overlap with compute."""

from __future__ import annotations

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.breakdown.overlaps import OverlapKind
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ratio

_EXPOSED_COPIES = 0.05


@check(
    id="copies-overlapped",
    name="copies overlapped",
    wanted=f"at most {_EXPOSED_COPIES:.0%} exposed",
    reason="copies of pinned memory on a separate stream can overlap with compute",
    table="overlap",
    needs=("memcpy",),
    rank=2,
)
def copies_overlapped(run: Run) -> Outcome:
    """Return whether copies overlap with compute."""
    measured = measured_time(run)
    copy_ns, exposed_ns = (
        measured.together_ns(OverlapKind.COPY),
        measured.together_ns(OverlapKind.EXPOSED_COPY),
    )
    ratio = measured.worst(exposed_ns)
    overlapped = 1 - int(exposed_ns.sum()) / max(int(copy_ns.sum()), 1)
    text = f"{format_ratio(ratio)} exposed, {format_ratio(overlapped)} of copy time overlapped"
    return Outcome(
        at_most(ratio, _EXPOSED_COPIES),
        text if copy_ns.any() else "no copies",
        ratio,
    )
