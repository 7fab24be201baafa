"""warm-up-excluded: whether there are steady steps after the first ones."""

from __future__ import annotations

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.breakdown.warm_up import excluded_steps
from warpline.result.checks import Outcome, check
from warpline.trace import Run


@check(
    id="warm-up-excluded",
    name="warm-up excluded",
    wanted="steady steps only",
    reason="the first steps load code, fill caches and allocate memory",
    table="steps",
    rank=11,
)
def warm_up_excluded(run: Run) -> Outcome:
    """Return whether there are steady steps after the first ones."""
    measured = measured_time(run)
    if not len(measured.steps):
        return Outcome("unknown", "no steps found", unit="count")
    excluded = len(measured.steps) - int(measured.steps.included.sum())
    return Outcome(
        "pass" if measured.has_steps else "fail",
        excluded_steps(run),
        float(excluded),
        "count",
    )
