"""What an estimate shows: faster, slower, same within a tolerance, or nothing yet."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from warpline.comparison.statistics import student
from warpline.comparison.statistics.estimates import CONFIDENCE, RatioEstimate, Spread

Verdict: TypeAlias = Literal["faster", "slower", "same", "undecided"]

DEFAULT_TOLERANCE = 0.02  # relative difference that counts as the same
ALPHA = 0.01  # a difference is shown if one as large has at most this probability without any
MOST_RUNS = 1000  # above that, `runs_needed` gives up
_POWER = 0.8  # probability that the number of runs that is needed decides


def verdict(estimate: RatioEstimate, tolerance: float = DEFAULT_TOLERANCE) -> Verdict:
    """Return what the estimate shows.

    ``slower`` and ``faster``: there is a difference (`ALPHA`), and it is larger than the
    tolerance. ``same``: the whole interval is within the tolerance. Otherwise ``undecided``: the
    same is not concluded from a difference that was not found.

    Args:
        estimate: Of `step_ratio`.
        tolerance: Relative difference that counts as the same, above 0. Factors from
            ``1 / (1 + tolerance)`` to ``1 + tolerance`` are within it, so exchanging the sides
            exchanges faster and slower.
    """
    largest = 1.0 + tolerance
    if 1.0 / largest <= estimate.low and estimate.high <= largest:
        return "same"
    if estimate.p <= ALPHA and estimate.ratio > largest:
        return "slower"
    if estimate.p <= ALPHA and estimate.ratio < 1.0 / largest:
        return "faster"
    return "undecided"


def runs_needed(estimate: RatioEstimate, tolerance: float = DEFAULT_TOLERANCE) -> int | None:
    """Return how many runs on each side would decide, with a probability of 80%.

    It is assumed that the ratio is the measured one, and that runs vary as they did.

    Args:
        estimate: Of `step_ratio`.
        tolerance: As for `verdict`.

    Returns:
        At least 2; None if more than a thousand are needed, because the difference is almost
        exactly the tolerance, or if nothing is known about the variance.
    """
    difference = abs(math.log(estimate.ratio))
    return runs_to_decide(difference, math.log1p(tolerance), estimate.spread)


def runs_to_decide(
    difference: float, limit: float, spread: Spread, *, alpha: float = ALPHA
) -> int | None:
    """Return how many runs on each side show that a difference is below a limit, or above it.

    Args:
        difference: The difference, on the scale of the spread; below 0, it is only compared with
            the limit.
        limit: The limit, above 0, on the same scale.
        spread: How runs vary.
        alpha: Probability with which a difference above the limit may be shown without any.

    Returns:
        As `runs_needed`.
    """
    is_beyond = difference > limit
    # Beyond the limit, a difference from 0 is to be shown, and the estimate must stay beyond.
    level = 1.0 - alpha / 2.0 if is_beyond else (1.0 + CONFIDENCE) / 2.0
    per_run = 1.0 if spread.is_paired else 2.0

    def decides(runs: int) -> bool:
        df = (runs - 1.0) * per_run
        error = spread.sd * math.sqrt(per_run / runs)
        chance = student.quantile(_POWER, df) * error
        shown = student.quantile(level, df) * error + chance
        room = abs(limit - difference)
        return shown <= difference and chance <= room if is_beyond else shown <= room

    if not decides(MOST_RUNS):
        return None
    return bisect_left(range(MOST_RUNS), x=True, lo=2, key=decides)


def false_discovery(p_values: npt.ArrayLike, rate: float = 0.05) -> npt.NDArray[np.bool_]:
    """Return which of many differences are shown, if a share of those may be false.

    Args:
        p_values: Shape (tests,), in [0, 1].
        rate: Largest expected share of false ones among those shown.

    Returns:
        Shape (tests,), True where a difference is shown.

    Source: Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    passes = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    shown = np.zeros(len(p), np.bool_)
    if len(passes):
        shown[order[: passes[-1] + 1]] = True
    return shown
