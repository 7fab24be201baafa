"""Student's t distribution, for any positive number of degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_MANY = 1e7  # degrees of freedom: from here on it is the normal distribution
_TINY = 1e-300


def two_sided_p(t: float, df: float) -> float:
    """Return the probability of a value at least as far from 0 as `t`, in [0, 1]."""
    if math.isinf(t):
        return 0.0
    if df >= _MANY:
        return math.erfc(abs(t) / math.sqrt(2.0))
    return _incomplete_beta(df / 2.0, 0.5, df / (df + t * t))


@lru_cache(maxsize=4096)
def quantile(probability: float, df: float) -> float:
    """Return the value that is exceeded with probability ``1 - probability``.

    Args:
        probability: In [0.5, 1).
        df: Degrees of freedom, above 0.
    """
    if df >= _MANY:
        return NormalDist().inv_cdf(probability)
    target = 2.0 * (1.0 - probability)
    low, high = 0.0, 1.0
    while two_sided_p(high, df) > target:
        low, high = high, high * 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if two_sided_p(middle, df) > target else (low, middle)
    return (low + high) / 2.0


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22.
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction converges slowly
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_factor += a * math.log(x) + b * math.log1p(-x)
    # Lentz's method for 1 + d1 / (1 + d2 / (1 + ...))
    value, above, below = 1.0, 1.0, 0.0
    for term in range(1, 1000):
        m, is_odd = divmod(term, 2)
        if is_odd:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1.0 / _not_zero(1.0 + d * below)
        above = _not_zero(1.0 + d / above)
        value *= above * below
        if abs(above * below - 1.0) < 1e-15:
            break
    return math.exp(log_factor) / (a * value)


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
