"""Values of metrics as Nsight Compute prints them: units that fit, and its digits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from warpline.result.kernel_pages import KernelMetric, MetricNumber, Spread

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
    if unit == "ns":
        return _step(largest, _TIMES)
    if unit == "hz":
        name, divisor = _step(largest, _STEPS[:4])
        return f"{name}hz", divisor
    if "byte" in unit:
        prefix, divisor = _step(largest, _STEPS)
        return unit.replace("byte", f"{prefix}byte", 1), divisor
    rate = _PER_SECOND.fullmatch(unit)
    if rate is not None:
        period, divisor = _step(largest, _PERIODS)
        return f"{rate[1]}/{period}", divisor
    return unit, 1


def _step(largest: float, names: Sequence[str]) -> tuple[str, float]:
    place, divisor = 0, 1
    while place + 1 < len(names) and largest >= divisor * _THOUSAND and largest < math.inf:
        place, divisor = place + 1, divisor * _THOUSAND
    return names[place], divisor


def column_texts(
    unit: str, metrics: Iterable[KernelMetric | None], *, is_scaled: bool
) -> tuple[str, list[str]]:
    """Return the unit and the cells of one metric of several launches, as on the raw page.

    Args:
        unit: Base unit.
        metrics: The metric of each launch; None where it was not collected.
        is_scaled: Whether to take the unit that fits the largest value.
    """
    listed = list(metrics)
    numbers = [m.value for m in listed if m is not None and isinstance(m.value, int | float)]
    largest = max((n for n in numbers if not math.isnan(n)), default=0.0)
    shown, divisor = scaled_unit(unit, largest) if is_scaled else (unit, 1)
    cells = []
    for metric in listed:
        if metric is None:
            cells.append("")
        elif metric.value is None:
            cells.append("" if metric.instances else NO_DATA)
        elif isinstance(metric.value, str):
            cells.append(metric.value)
        elif not unit:
            cells.append(grouped(metric.value))
        else:
            cells.append(_plain(metric.value, divisor, is_zero=largest <= 0))
    return shown, cells


def metric_text(metric: KernelMetric, *, is_scaled: bool) -> tuple[str, str]:
    """Return unit and value of one metric, as on the details page."""
    value = metric.value
    if value is None:
        return metric.unit, "" if metric.instances else NO_DATA
    if isinstance(value, str):
        return metric.unit, value
    unit, divisor = scaled_unit(metric.unit, value) if is_scaled else (metric.unit, 1)
    return unit, grouped(value if divisor == 1 else value / divisor)


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


def _plain(value: int | float, divisor: float, *, is_zero: bool) -> str:
    if math.isfinite(value) and (is_zero or (divisor == 1 and isinstance(value, int))):
        return str(int(value))
    return f"{value / divisor:.6f}"
