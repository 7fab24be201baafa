"""Axes of counters: to what is natural, such as 100% or a power limit, or to a round number."""

from __future__ import annotations

import math

import numpy as np

from warpline.viewer.rows import Events

_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_MUCH_MORE = 20  # times the highest value: an axis to there would show nothing
_ROUNDING = 1.05  # shares of the peak may exceed it a little
_SHARES = ("ratio", "percent")  # always to the whole


def value_range(events: Events) -> tuple[float | None, float | None]:
    """Return the lowest and the highest value of a counter; None and None if it has none."""
    if events.value is None:
        return None, None
    least = events.value if events.least is None else events.least
    most = events.value if events.most is None else events.most
    known = np.flatnonzero(~np.isnan(events.value))
    if not len(known):
        return None, None
    return float(least[known].min()), float(most[known].max())


def axis_max(highest: float | None, natural: float | None, unit: str | None) -> float | None:
    """Return the upper end of an axis that has all values; None without values.

    Args:
        highest: The highest value.
        natural: What the value can be at most; None if that is not known.
        unit: Unit of the values: bytes get powers of 2.
    """
    if highest is None:
        return None
    if natural is not None and unit in _SHARES and highest <= natural * _ROUNDING:
        return natural
    if natural is not None and highest <= natural <= max(highest, 0.0) * _MUCH_MORE:
        return natural
    return round_up(highest, unit)


def round_up(value: float, unit: str | None) -> float:
    """Return a round number, of at most two digits in its unit, that is not below a value."""
    if value <= 0 or not math.isfinite(value):
        return 1.0 if value <= 0 else value
    size = 1.0
    if unit == "bytes":
        size = float(1024 ** max(math.ceil(math.log(value / 1000, 1024)), 0))
    power = size * 10.0 ** math.floor(math.log10(value / size))
    step = next((step for step in _STEPS if step * power >= value * (1 - 1e-12)), _STEPS[-1])
    return float(f"{step * power:.12g}")
