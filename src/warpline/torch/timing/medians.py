"""Medians of repeated measurements, with intervals that assume no distribution."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

CONFIDENCE = 0.95


class Median(NamedTuple):
    """The median of measurements, and its confidence interval.

    Attributes:
        value: The median.
        low: Lower bound of the 95% interval; of fewer than six measurements, the least of them,
            whose interval is less certain.
        high: Upper bound.
    """

    value: float
    low: float
    high: float

    @property
    def precision(self) -> float:
        """Half the width of the interval, as a share of the median; 0 for a median of 0."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return self._asdict()


def median(values: Sequence[float]) -> Median:
    """Return the median of at least one measurement, with its interval.

    The bounds are two of the measurements, chosen by the binomial distribution of how many are
    below the true median (D. F. Bauer; Hahn and Meeker, "Statistical Intervals", 5.2). It is exact
    for independent measurements of any distribution; a drift of clocks makes it too narrow.
    """
    ordered = sorted(values)
    count = len(ordered)
    outer = _outer_count(count)
    middle = ordered[count // 2]
    if count % 2 == 0:
        middle = (ordered[count // 2 - 1] + middle) / 2
    return Median(middle, ordered[outer], ordered[count - 1 - outer])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the measurement below or at which a share of them is: of 100, the 95th for 0.95."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


@functools.lru_cache(maxsize=1024)
def _outer_count(count: int) -> int:
    """Return how many measurements are beyond each bound: at most half of the rest's chance."""
    # Logarithms, because 2 ** -count underflows. The sums are exact to about 1e-10.
    log_total = count * math.log(2)
    below, outer = 0.0, 0
    while outer < count // 2:
        log_chance = (
            math.lgamma(count + 1) - math.lgamma(outer + 1) - math.lgamma(count - outer + 1)
        )
        below += math.exp(log_chance - log_total)
        if below > (1 - CONFIDENCE) / 2:
            break
        outer += 1
    return max(outer - 1, 0)
