"""What all checks of a recording share: the finding of one problem, and severities by share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.result import SEVERITIES, Evidence, Finding, Severity

NAME = "capture-quality"
ROWS_SHOWN = 5


def problem(
    severity: Severity, title: str, claim: str, seen: Evidence, fix: str, verify: str
) -> Finding:
    """Return the finding of one problem."""
    return Finding(NAME, severity, title, claim, (seen,), fix, verify)


def grade(ratio: float, limits: Mapping[str, float]) -> Severity | None:
    """Return the highest severity whose limit the ratio reaches."""
    return next((level for level in SEVERITIES if ratio >= limits.get(level, np.inf)), None)
