"""Statistics of step times of several runs: pure functions of numbers, without random ones.

The same recordings give the same verdict every time, so nothing here has a seed: the variance that
a block bootstrap would approach is computed directly.
"""

from warpline.comparison.statistics.decisions import (
    ALPHA,
    DEFAULT_TOLERANCE,
    Verdict,
    false_discovery,
    runs_needed,
    runs_to_decide,
    verdict,
)
from warpline.comparison.statistics.estimates import (
    ASSUMED_TEXT,
    CONFIDENCE,
    UNSEEN_SD,
    DifferenceEstimate,
    RatioEstimate,
    Spread,
    difference_p,
    step_difference,
    step_ratio,
)

__all__ = [
    "ALPHA",
    "ASSUMED_TEXT",
    "CONFIDENCE",
    "DEFAULT_TOLERANCE",
    "UNSEEN_SD",
    "DifferenceEstimate",
    "RatioEstimate",
    "Spread",
    "Verdict",
    "difference_p",
    "false_discovery",
    "runs_needed",
    "runs_to_decide",
    "step_difference",
    "step_ratio",
    "verdict",
]
