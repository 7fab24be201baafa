"""Metrics that follow from the counters of a launch."""

from __future__ import annotations

import numpy as np

from warpline.counters.formulas import FORMULAS
from warpline.counters.units import unit_of
from warpline.derived import derived
from warpline.derived.counters.launch_metrics import LaunchMetric, launch_metrics
from warpline.derived.counters.stored import is_own, stored_numbers
from warpline.trace import Trace


@derived
def counter_formulas(trace: Trace) -> tuple[LaunchMetric, ...]:
    """Return the metrics that follow from the counters of launches that Warpline counted."""
    is_counted = is_own(trace)
    found = []
    for formula in FORMULAS.values() if is_counted.any() else ():
        values, is_known = stored_numbers(trace, formula.source)
        is_known &= is_counted & ~stored_numbers(trace, formula.name)[1]
        values = values * formula.factor
        if formula.divisor:
            divisors, has_divisor = stored_numbers(trace, formula.divisor)
            is_known &= has_divisor & (divisors != 0)
            values = values / np.where(divisors == 0, 1, divisors)
        if formula.is_integer:
            is_known &= values == np.floor(values)
        if is_known.any():
            numbers = values.astype(np.int64) if formula.is_integer else values
            found.append(LaunchMetric(formula.name, unit_of(formula.name), numbers, is_known))
    return tuple(found)


@derived
def added_metrics(trace: Trace) -> tuple[LaunchMetric, ...]:
    """Return all metrics that follow from the launch and its counters."""
    return (*launch_metrics(trace), *counter_formulas(trace))
