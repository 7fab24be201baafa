"""How two sides differ, with an interval: by a factor, or by an amount.

Each run gives one number, the mean of its steps. What counts is how much these numbers differ among
the runs of a side, or the differences among pairs of runs that ran in turn: Student's t of their
means. The variance of the steps within the runs is the least that is assumed, and with one run on
each side all that is seen; what is assumed of runs then is `UNSEEN_SD` and `UNSEEN_CPU_SD`, or
`UNSEEN_SHARE` of the variation of steps where that is more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpline.comparison.statistics import student
from warpline.comparison.statistics.blocks import Mean, block_mean

CONFIDENCE = 0.95  # of intervals
# Relative standard deviations between runs of one program that are assumed where they are not seen:
# of the time of GPU work, and of the time in which the GPU waits for the CPU. On an H200, processes
# of one program varied by 0.4% to 1% with a busy GPU, by 8% and 17% with one that idled for 91% of
# the time, and each process was steady by itself; a CPU that other work uses varied by 26%.
UNSEEN_SD = 0.02
UNSEEN_CPU_SD = 0.25
# The same as a share of the standard deviation of steps.
UNSEEN_SHARE = 0.5
ASSUMED_TEXT = (
    f"{UNSEEN_SD:.0%} of the time the GPU is busy and {UNSEEN_CPU_SD:.0%} of the time it is idle,"
    " or half of the variation of steps if that is more"
)

NO_CPU = (0.0, 0.0)  # both sides are GPU work alone

Steps = npt.NDArray[np.float64] | Sequence[float]


class Spread(NamedTuple):
    """How runs vary, as far as an estimate has seen it.

    Attributes:
        runs: Number of runs before and after.
        is_paired: Whether each run before belongs to one after.
        sd: Standard deviation of a run (of a pair, if paired) on the estimate's scale: relative
            for ratios.
        df: Degrees of freedom of `sd`.
    """

    runs: tuple[int, int]
    is_paired: bool
    sd: float
    df: float


@dataclass(frozen=True)
class RatioEstimate:
    """The mean step after, divided by the mean step before.

    Attributes:
        ratio: Of the means of the sides.
        low: Lower bound of the ratio, 95%.
        high: Upper bound; infinite if nothing is known about the variance.
        p: Probability of a difference at least this large if there were none.
        sees_between_runs: Whether the variation between runs was measured. If not, there was one
            run on each side, and a relative standard deviation was assumed.
        spread: How runs vary.
    """

    ratio: float
    low: float
    high: float
    p: float
    sees_between_runs: bool
    spread: Spread


@dataclass(frozen=True)
class DifferenceEstimate:
    """The mean step after minus the mean step before, in the unit of the steps.

    Attributes:
        delta: Of the means of the sides.
        low: Lower bound of the difference, 95%.
        high: Upper bound; infinite if nothing is known about the variance.
        p: Probability of a difference at least this large if there were none.
        sees_between_runs: Whether the variation between runs was measured.
        spread: How runs vary.
    """

    delta: float
    low: float
    high: float
    p: float
    sees_between_runs: bool
    spread: Spread


def step_ratio(
    before: Sequence[Steps],
    after: Sequence[Steps],
    *,
    paired: bool = False,
    cpu_shares: tuple[float, float] = NO_CPU,
) -> RatioEstimate:
    """Return by what factor the mean step changed.

    Args:
        before: For each run, the times of its steps in their order; at least one run, each with at
            least one step and a positive mean.
        after: The same of the other side, in the same unit.
        paired: Whether the first run before belongs to the first after, and so on, because they
            ran in turn.
        cpu_shares: What share of a step the CPU determines, before and after. It only counts with
            one run on each side.

    Raises:
        ValueError: A side is empty or has times that are not positive; or runs are paired, and
            their numbers differ.
    """
    sides = _means(before, paired=paired, other=after), _means(after)
    if any(mean.value <= 0.0 for side in sides for mean in side):
        raise ValueError("a ratio needs positive mean times")
    logs = [
        [Mean(math.log(m.value), m.variance / m.value**2, m.df) for m in side] for side in sides
    ]
    unseen = _unseen_sds(before, after, cpu_shares)
    of_first = unseen[0] / sides[0][0].value, unseen[1] / sides[1][0].value
    found = _contrast(*logs, paired=paired, unseen_sd=of_first)
    # The ratio of the means of the sides; the mean of logarithms is slightly below their logarithm.
    means = [float(np.mean([mean.value for mean in side])) for side in sides]
    ratio = means[1] / means[0]
    half = found.half_width
    return RatioEstimate(
        ratio=ratio,
        low=ratio * math.exp(-half),
        high=ratio * math.exp(half) if half < 700.0 else math.inf,
        p=found.p_of(math.log(ratio)),
        sees_between_runs=found.sees_between_runs,
        spread=found.spread,
    )


def step_difference(
    before: Sequence[Steps],
    after: Sequence[Steps],
    *,
    paired: bool = False,
    cpu_shares: tuple[float, float] = NO_CPU,
) -> DifferenceEstimate:
    """Return by how much a mean per step changed; unlike a ratio also if it was or became 0.

    Args:
        before: For each run, the values of its steps in their order; at least one run, each with
            at least one step.
        after: The same of the other side, in the same unit.
        paired: As for `step_ratio`.
        cpu_shares: As for `step_ratio`.

    Raises:
        ValueError: A side is empty; or runs are paired, and their numbers differ.
    """
    sides = _means(before, paired=paired, other=after), _means(after)
    means = [float(np.mean([mean.value for mean in side])) for side in sides]
    found = _contrast(*sides, paired=paired, unseen_sd=_unseen_sds(before, after, cpu_shares))
    delta = means[1] - means[0]
    return DifferenceEstimate(
        delta=delta,
        low=delta - found.half_width,
        high=delta + found.half_width,
        p=found.p_of(delta),
        sees_between_runs=found.sees_between_runs,
        spread=found.spread,
    )


def difference_p(
    before: Sequence[Steps],
    after: Sequence[Steps],
    *,
    paired: bool = False,
    cpu_shares: tuple[float, float] = NO_CPU,
) -> float:
    """Return the p-value of `step_difference` alone, without its interval: much faster.

    Args:
        before: As for `step_difference`.
        after: As for `step_difference`.
        paired: As for `step_ratio`.
        cpu_shares: As for `step_ratio`.

    Raises:
        ValueError: As `step_difference` does.
    """
    sides = _means(before, paired=paired, other=after), _means(after)
    means = [float(np.mean([mean.value for mean in side])) for side in sides]
    unseen = _unseen_sds(before, after, cpu_shares)
    return _contrast(*sides, paired=paired, unseen_sd=unseen).p_of(means[1] - means[0])


class _Contrast(NamedTuple):
    """The standard error of a difference of two sides."""

    error: float
    df: float
    sees_between_runs: bool
    spread: Spread

    @property
    def half_width(self) -> float:
        return student.quantile((1.0 + CONFIDENCE) / 2.0, self.df) * self.error

    def p_of(self, difference: float) -> float:
        if self.error == 0.0:
            return float(difference == 0.0)
        return student.two_sided_p(difference / self.error, self.df)


def _unseen_sds(
    before: Sequence[Steps], after: Sequence[Steps], cpu_shares: tuple[float, float]
) -> tuple[float, float]:
    """Return the standard deviation between runs to assume for the first run of each side."""
    first, second = (np.asarray(side[0], np.float64) for side in (before, after))
    return _unseen_sd(first, cpu_shares[0]), _unseen_sd(second, cpu_shares[1])


def _unseen_sd(steps: npt.NDArray[np.float64], cpu_share: float) -> float:
    relative = (1.0 - cpu_share) * UNSEEN_SD + cpu_share * UNSEEN_CPU_SD
    of_steps = float(steps.std(ddof=1)) if len(steps) > 1 else 0.0
    return max(relative * abs(float(steps.mean())), UNSEEN_SHARE * of_steps)


def _means(
    runs: Sequence[Steps], *, paired: bool = False, other: Sequence[Steps] | None = None
) -> list[Mean]:
    if not len(runs) or any(not len(steps) for steps in runs):
        raise ValueError("each side needs a run, and each run a step")
    if paired and other is not None and len(runs) != len(other):
        raise ValueError(f"{len(runs)} runs cannot be paired with {len(other)}")
    return [block_mean(np.asarray(steps, np.float64)) for steps in runs]


def _contrast(
    before: Sequence[Mean],
    after: Sequence[Mean],
    *,
    paired: bool,
    unseen_sd: tuple[float, float],
) -> _Contrast:
    sides = (before, after)
    runs = len(before), len(after)
    within = [_within(side) for side in sides]
    if runs == (1, 1):
        return _unseen(within, unseen_sd, runs)
    values = [np.array([mean.value for mean in side]) for side in sides]
    if paired:
        variance = float(np.var(values[1] - values[0], ddof=1)) / runs[0]
        df = runs[0] - 1.0
    elif 1 in runs:  # the side with several runs shows the variance for both
        squares = sum(float(((own - own.mean()) ** 2).sum()) for own in values)
        df = sum(runs) - 2.0
        variance = squares / df * (1.0 / runs[0] + 1.0 / runs[1])
    else:
        parts = [float(np.var(own, ddof=1)) / len(own) for own in values]
        variance = sum(parts)
        df = _combined_df(parts, [count - 1.0 for count in runs])
    # Runs that agree by chance are not more certain than their steps.
    variance = max(variance, sum(part.variance for part in within if part.variance < math.inf))
    each = runs[0] if paired else 1.0 / (1.0 / runs[0] + 1.0 / runs[1])
    spread = Spread(runs, paired, math.sqrt(variance * each), df)
    return _Contrast(math.sqrt(variance), df, sees_between_runs=True, spread=spread)


def _within(side: Sequence[Mean]) -> Mean:
    """Return the variance of the mean of a side's runs, as seen in their steps."""
    parts = [mean.variance / len(side) ** 2 for mean in side]
    mean = sum(mean.value for mean in side) / len(side)
    return Mean(mean, sum(parts), _combined_df(parts, [mean.df for mean in side]))


def _unseen(
    within: Sequence[Mean], unseen_sd: tuple[float, float], runs: tuple[int, int]
) -> _Contrast:
    parts = [*(mean.variance for mean in within), *(sd**2 for sd in unseen_sd)]
    dfs = [*(mean.df for mean in within), math.inf, math.inf]
    variance = sum(parts)
    df = _combined_df(parts, dfs)
    spread = Spread(runs, is_paired=False, sd=math.sqrt(variance / 2.0), df=df)
    return _Contrast(math.sqrt(variance), df, sees_between_runs=False, spread=spread)


def _combined_df(variances: Sequence[float], dfs: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of variances (Welch, Satterthwaite)."""
    total = sum(variances)
    if not 0.0 < total < math.inf:
        return min(dfs)
    squares = sum(part**2 / df for part, df in zip(variances, dfs, strict=True))
    return total**2 / squares if squares > 0.0 else math.inf
