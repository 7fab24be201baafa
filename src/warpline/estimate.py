"""Uncertain values with bounds."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """An uncertain value; `low` is never above `high`.

    Attributes:
        low: Lower bound.
        central: Most likely value.
        high: Upper bound.
    """

    low: float
    central: float
    high: float


def exactly(value: float) -> Estimate:
    """Return a value without uncertainty."""
    return Estimate(value, value, value)
