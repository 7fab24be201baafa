"""Whether the recording has steps, and enough of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.analyses.diagnosis.capture_quality.problem import ROWS_SHOWN, problem
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import Steps
from warpline.result import Evidence, Finding
from warpline.units import plural

ENOUGH_STEPS = 10
_FEW_STEPS = 3
_STEP_HINT = (
    'Mark each step with torch.cuda.nvtx.range_push(f"step_{i}") and range_pop(), or name existing'
    " ranges with --steps-from NAME."
)


def too_few(run_steps: Steps) -> Iterator[Finding]:
    """Report missing and too few steps."""
    verify = "warpline stats -r steps RECORDING lists all steps and which are analyzed."
    if not len(run_steps):
        yield problem(
            "low",
            "No steps were found",
            "The whole recording is analyzed as one interval, including startup and shutdown.",
            Evidence(
                next(iter(run_steps.notes), "no ranges named like steps, no repeating launches")
            ),
            _STEP_HINT,
            verify,
        )
        return
    count = steps_counted(run_steps)
    first = tuple(np.flatnonzero(run_steps.included)[:ROWS_SHOWN].tolist()) or (0,)
    windows = tuple(
        (int(run_steps.host_start_ns[row]), int(run_steps.host_end_ns[row])) for row in first
    )
    if not count:
        reasons = ", ".join(dict.fromkeys(item.reason for item in run_steps.excluded))
        yield problem(
            "medium",
            "No representative step",
            f"All {len(run_steps):,} steps are excluded ({reasons}). The whole recording is"
            " analyzed instead. Steady steps may look different.",
            Evidence(f"0 of {plural(len(run_steps), 'step')} analyzed", windows_ns=windows),
            f"Record at least {ENOUGH_STEPS} steps after warm-up.",
            verify,
        )
    elif count < ENOUGH_STEPS:
        most = int(np.bincount(run_steps.process).max())
        yield problem(
            "low" if count < _FEW_STEPS else "info",
            "Too few steps",
            f"{count} of {plural(most, 'step')} {'was' if count == 1 else 'were'} analyzed. Medians"
            f" of fewer than {ENOUGH_STEPS} steps vary between runs.",
            Evidence(f"{count} of {plural(most, 'step')} analyzed", windows_ns=windows),
            f"Record at least {ENOUGH_STEPS} steps after warm-up.",
            verify,
        )
