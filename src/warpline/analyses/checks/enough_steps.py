"""enough-steps: whether there are enough steps for a median."""

from __future__ import annotations

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.steps.counts import steps_counted
from warpline.result import CheckState
from warpline.result.checks import Outcome, check
from warpline.trace import Run

_ENOUGH_STEPS = 10


@check(
    id="enough-steps",
    name="enough steps",
    wanted=f"at least {_ENOUGH_STEPS}",
    reason="medians of fewer steps vary between runs",
    table="steps",
    rank=12,
)
def enough_steps(run: Run) -> Outcome:
    """Return whether there are enough steps for a median."""
    measured = measured_time(run)
    count = steps_counted(measured.steps)
    if not len(measured.steps):
        return Outcome("unknown", "no steps found", unit="count")
    state: CheckState = "pass" if count >= _ENOUGH_STEPS else "fail"
    return Outcome(state, f"{count:,} analyzed", count, "count")
