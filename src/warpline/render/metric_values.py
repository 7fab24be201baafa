"""Values of metrics as Nsight Compute prints them: units that fit, and its digits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warpline.result.kernel_pages import MetricColumn, MetricNumber, Spread

_STEPS = ("", "K", "M", "G", "T")
_THOUSAND = 1000
_TIMES = ("ns", "us", "ms", "s")
_PERIODS = ("s", "ms", "us", "ns")
_PER_SECOND = re.compile(r"(.+)/s")
NO_DATA = "no data"


def scaled_unit(unit: str, largest: float) -> tuple[str, float]:
    """Return the unit that fits a value, and the divisor for values in it.

    Bytes and hertz take prefixes, time other units, and other rates other periods:
    ``sector/us`` is a million per second.
    """
    steps = unit_steps(unit)
    place, divisor = 0, 1
    while place + 1 < len(steps) and largest >= divisor * _THOUSAND and largest < math.inf:
        place, divisor = place + 1, divisor * _THOUSAND
    return steps[place], divisor


def unit_steps(unit: str) -> Sequence[str]:
    """Return a unit and those above it, each a thousand times the one before."""
    if unit == "ns":
        return _TIMES
    if unit == "hz":
        return [f"{prefix}hz" for prefix in _STEPS[:4]]
    if "byte" in unit:
        return [unit.replace("byte", f"{prefix}byte", 1) for prefix in _STEPS]
    rate = _PER_SECOND.fullmatch(unit)
    if rate is not None:
        return [f"{rate[1]}/{period}" for period in _PERIODS]
    return (unit,)


class RawCells:
    """The unit and the cells of one metric of several launches, as on the raw page.

    Args:
        column: The metric.
        is_scaled: Whether to take the unit that fits the largest value.
    """

    def __init__(self, column: MetricColumn, *, is_scaled: bool) -> None:
        self._column = column
        self._unit = column.units.values[column.units.codes[0]]
        self._largest = _largest(column.values)
        self.unit, self._divisor = self._unit, 1.0
        if is_scaled:
            self.unit, self._divisor = scaled_unit(self._unit, self._largest)

    def texts(self, places: slice) -> list[str]:
        """Return the cells of launches at some places, empty for those that lack the metric."""
        part = self._column.part(places)
        found = self._texts(part)
        if part.pairs:
            units = [self.unit] * len(found)
            found = _with_pairs(part, found, units, lambda n, _: self._text(n, is_zero=False))
        if len(found) == places.stop - places.start:
            return found
        cells = [""] * (places.stop - places.start)
        for place, text in zip((part.launches - places.start).tolist(), found, strict=True):
            cells[place] = text
        return cells

    def _texts(self, part: MetricColumn) -> list[str]:
        is_zero = self._largest <= 0
        if part.values.dtype.kind == "f" and self._unit and not is_zero:
            return [f"{value:.6f}" for value in (part.values / self._divisor).tolist()]
        return _each(
            part, lambda _, value: self._text(value, is_zero=is_zero), lambda _, text: text
        )

    def _text(self, value: int | float, *, is_zero: bool) -> str:
        if not self._unit:
            return grouped(value)
        if math.isfinite(value) and (is_zero or (self._divisor == 1 and isinstance(value, int))):
            return str(int(value))
        return f"{value / self._divisor:.6f}"


def _largest(values: NDArray[Any]) -> float:
    """Return the largest number among values; 0 without any."""
    if values.dtype.kind == "O":
        numbers = [value for value in values.tolist() if isinstance(value, int | float)]
        return max((n for n in numbers if not math.isnan(n)), default=0.0)
    found = values[~np.isnan(values)]
    largest: float = found.max().item() if len(found) else 0.0
    return largest


def metric_texts(column: MetricColumn, *, is_scaled: bool) -> tuple[list[str], list[str]]:
    """Return units and values of one metric, each as fits the value, as on the details page."""
    unit = column.unit
    if unit is not None and column.values.dtype.kind == "f":
        units, texts = _float_texts(unit, column.values, is_scaled=is_scaled)
    else:
        units, texts = _mixed_texts(column, is_scaled=is_scaled)
    if column.pairs:
        texts = _with_pairs(column, texts, units, lambda n, divisor: grouped(n / divisor))
    return units, texts


def _with_pairs(
    column: MetricColumn,
    texts: Sequence[str],
    units: Sequence[str],
    text_of: Callable[[int | float, float], str],
) -> list[str]:
    """Return texts of values, each followed by the instances in parentheses.

    Args:
        column: The metric.
        texts: What is shown of its values.
        units: The units that these are in.
        text_of: Returns what is shown of the number of an instance, which has the base unit.
            Its second argument is the divisor for the shown unit.
    """
    found = []
    bases = column.units.to_list()
    for place, text, shown, base in zip(column.launches.tolist(), texts, units, bases, strict=True):
        divisor = float(_THOUSAND ** list(unit_steps(base or "")).index(shown))
        pairs = [
            ("" if key is None else f"{key}: ")
            + (text_of(value, divisor) if isinstance(value, int | float) else value or "")
            for key, value in column.pairs.get(place, ())
        ]
        found.append(f"{text} ({'; '.join(pairs)})".lstrip() if pairs else text)
    return found


def _mixed_texts(column: MetricColumn, *, is_scaled: bool) -> tuple[list[str], list[str]]:
    def texts(unit: str, value: int | float) -> tuple[str, str]:
        shown, divisor = scaled_unit(unit, value) if is_scaled else (unit, 1)
        return shown, grouped(value if divisor == 1 else value / divisor)

    found = _each(column, texts, lambda unit, text: (unit, text))
    return [unit for unit, _ in found], [text for _, text in found]


def _float_texts(
    unit: str, values: NDArray[np.float64], *, is_scaled: bool
) -> tuple[list[str], list[str]]:
    steps = unit_steps(unit) if is_scaled else (unit,)
    limits = [float(_THOUSAND**step) for step in range(1, len(steps))]
    places = np.searchsorted(limits, values, side="right")
    places[~np.isfinite(values)] = 0
    scaled = values / np.array([1.0, *limits])[places]
    is_whole = np.isfinite(scaled) & (scaled == np.floor(scaled))
    texts = [
        f"{int(value):,}" if whole else f"{value:,.2f}"
        for value, whole in zip(scaled.tolist(), is_whole.tolist(), strict=True)
    ]
    return [steps[place] for place in places.tolist()], texts


_Made = TypeVar("_Made")


def _each(
    column: MetricColumn,
    of_number: Callable[[str, int | float], _Made],
    of_text: Callable[[str, str], _Made],
) -> list[_Made]:
    """Return what functions make of each value and its unit."""
    known: dict[tuple[type, MetricNumber, int, bool], _Made] = {}  # most launches are alike
    found = []
    has_instances = (column.instances > 0).tolist()
    for value, code, has in zip(
        column.values.tolist(), column.units.codes.tolist(), has_instances, strict=True
    ):
        key = type(value), value, code, has
        made = known.get(key)
        if made is None:
            unit = column.units.values[code]
            if isinstance(value, int | float):
                made = of_number(unit, value)
            else:
                made = of_text(unit, value or ("" if value == "" or has else NO_DATA))
            known[key] = made
        found.append(made)
    return found


def spread_texts(spread: Spread, *, is_scaled: bool) -> tuple[str, str, str, str]:
    """Return unit, minimum, maximum and mean, all in the unit that fits the maximum."""
    unit, divisor = scaled_unit(spread.unit, spread.maximum) if is_scaled else (spread.unit, 1)
    numbers = (spread.minimum, spread.maximum, spread.mean)
    low, high, mean = (grouped(n if divisor == 1 else n / divisor) for n in numbers)
    return unit, low, high, mean


def grouped(value: MetricNumber) -> str:
    """Return a number with separators, and two decimals if it is not whole: ``1,024.50``."""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return value or ""
    if math.isfinite(value) and value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}"


def speedup_text(percent: float | None) -> str:
    """Return an estimated speedup in four digits, as Nsight Compute does: ``1.443``."""
    return "" if percent is None else f"{percent:.4g}"
