"""Whether the recording has steps, and enough of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.analyses.diagnosis.capture_quality.problem import ROWS_SHOWN, problem
from warpline.derived.recorder import hints, only_step
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import Steps
from warpline.result import Evidence, Finding
from warpline.trace import Trace
from warpline.units import plural

ENOUGH_STEPS = 10
_FEW_STEPS = 3


def too_few(trace: Trace, run_steps: Steps) -> Iterator[Finding]:
    """Report missing and too few steps."""
    verify = "warpline stats -r steps RECORDING lists all steps and which are analyzed."
    more_steps = hints(trace).more_steps.format(count=ENOUGH_STEPS)
    if not len(run_steps):
        name, whole = only_step(trace), "The whole recording is analyzed as one interval"
        missing = next(iter(run_steps.notes), "no ranges named like steps, no repeating launches")
        yield problem(
            "low",
            "Only one step was recorded" if name else "No steps were found",
            f"{name} is the only step. {whole}."
            if name
            else f"{whole}, including startup and shutdown.",
            Evidence(f"1 step: {name}" if name else missing),
            more_steps if name else hints(trace).steps,
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
            more_steps,
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
            more_steps,
            verify,
        )
