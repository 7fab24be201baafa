"""The parameter along which a sweep goes on, and in which memory is expected to run out."""

from __future__ import annotations

import math
from decimal import Decimal

from warpline.sweep.points import Parameter, number
from warpline.sweep.state import Definition

_NEAR = Decimal("0.05")
_OFF_BELOW, _OFF_ABOVE = 0.95, 1.05  # a guess outside what is known is used if it is this near


def axis(definition: Definition) -> Parameter | None:
    """Return the parameter whose values go on, or else the first one with numbers."""
    items = definition.parameters
    going_on = next((item for item in items if item.is_open), None)
    return going_on or next((item for item in items if item.is_numeric), None)


def granularity(item: Parameter) -> int | None:
    """Return the largest step that reaches all values of a parameter; None if it has fractions.

    Values that are tried between those given are multiples of it: ``8,16,32`` are of 8.
    """
    numbers = [number(value) for value in item.values]
    if any(value is None or value != value.to_integral_value() for value in numbers):
        return None
    return math.gcd(*(int(value) for value in numbers if value is not None)) or None


def between(item: Parameter, low: Decimal, high: Decimal, guess: float | None) -> Decimal | None:
    """Return the next value to try between one that fits and one that does not.

    Args:
        item: The parameter.
        low: The value that fits.
        high: The one that does not.
        guess: Where the border is expected; None if that is unknown.

    Returns:
        None if both are as near as a step of the parameter, or 5%.
    """
    step = granularity(item)
    unit = Decimal(step) if step is not None else low / 1000
    wide = max(unit, low * _NEAR)
    if unit <= 0 or high - low <= wide:
        return None
    margin = max(unit, (low * _NEAR / 2) // unit * unit)
    is_near = guess is not None and float(low) * _OFF_BELOW <= guess <= float(high) * _OFF_ABOVE
    wanted = Decimal(guess) if guess is not None and is_near else (low + high) / 2
    wanted = min(max(wanted, low + margin), high - margin)
    tried = wanted // unit * unit
    return tried if low < tried < high else low + unit
