"""The mean of a run's steps and its variance, although successive steps resemble each other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


class Mean(NamedTuple):
    """The mean of a run's steps.

    Attributes:
        value: The mean, in the unit of the steps.
        variance: Variance of the mean; infinite if one step does not show it.
        df: Degrees of freedom of the variance, at least 1.
    """

    value: float
    variance: float
    df: float


def block_mean(steps: F64) -> Mean:
    """Return the mean of successive steps.

    The variance is what a moving-block bootstrap approaches with ever more resamples: that of the
    means of all blocks of successive steps, scaled to the whole series and corrected for the few
    blocks of a short one.

    Args:
        steps: Shape (steps,), at least one, in their order.

    Source: Meketon and Schmeiser, Overlapping Batch Means, Winter Simulation Conference 1984; the
        length of blocks is Carlstein's for an autoregressive series of first order (Annals of
        Statistics 14, 1986).
    """
    count = len(steps)
    mean = float(steps.mean())
    if count < 2:
        return Mean(mean, math.inf, 1.0)
    length = block_length(steps)
    sums = np.cumsum(np.concatenate(([0.0], steps - mean)))
    blocks = (sums[length:] - sums[:-length]) / length
    scale = length / ((count - length + 1) * (count - length))
    variance = scale * float(blocks @ blocks)
    return Mean(mean, variance, max(1.5 * (count / length - 1.0), 1.0))


def block_length(steps: F64) -> int:
    """Return how many successive steps make a block, in [1, half of the steps]."""
    count = len(steps)
    centered = steps - steps.mean()
    total = float(centered @ centered)
    r = float(centered[1:] @ centered[:-1]) / total if total > 0.0 else 0.0
    r = min(max(r, 0.0), 0.95)
    carlstein = (2.0 * r / (1.0 - r * r)) ** (2.0 / 3.0)
    length: int = math.ceil(max(carlstein, 1.0) * count ** (1.0 / 3.0))
    return min(length, max(count // 2, 1))
