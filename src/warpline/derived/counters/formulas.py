"""Metrics that are multiples and ratios of counters, as Nsight Compute computes them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.counters.units import unit_of
from warpline.derived import derived
from warpline.derived.counters.launch_metrics import LaunchMetric, launch_metrics
from warpline.derived.counters.stored import is_own, stored_numbers
from warpline.frozen import frozen
from warpline.trace import Trace


@frozen
class Formula:
    """A metric that follows from counters.

    Attributes:
        name: Its name, as in ncu.
        source: The counter that it is a multiple of.
        factor: How many times that.
        divisor: The counter that it is divided by; empty for none.
        is_integer: Whether it is an exact integer.
    """

    name: str
    source: str
    factor: int = 1
    divisor: str = ""
    is_integer: bool = False


def _formulas() -> Iterator[Formula]:
    for end in ("peak_sustained", "per_second"):
        yield Formula(
            f"derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.{end}",
            f"l1tex__lsu_writeback_active_mem_lgds.sum.{end}",
            128,
        )
        yield Formula(
            f"derived__lts__lts2xbar_bytes.sum.{end}", f"lts__lts2xbar_cycles_active.sum.{end}", 32
        )
    # Operations: two of an FMA, and two numbers in a half2.
    for operation, factor in (("dfma", 2), ("ffma", 2), ("hfma", 4)):
        counter = f"sm__sass_thread_inst_executed_op_{operation}_pred_on"
        yield Formula(f"derived__{counter}_x{factor}", f"{counter}.sum.peak_sustained", factor)
    for operation, factor in (("dfma", 2), ("ffma", 2), ("hadd", 2), ("hfma", 4), ("hmul", 2)):
        counter = f"smsp__sass_thread_inst_executed_op_{operation}_pred_on"
        yield Formula(f"derived__{counter}_x{factor}", f"{counter}.sum.per_cycle_elapsed", factor)
    branches = "smsp__inst_executed_op_branch.sum"
    executed = "smsp__inst_executed.sum"
    yield Formula("derived__smsp__inst_executed_op_branch_pct", branches, divisor=executed)
    yield Formula("inst_executed", executed, is_integer=True)
    for space in ("global", "local", "shared"):
        for word, kind in (("loads", "ld"), ("stores", "st")):
            counter = f"smsp__sass_inst_executed_op_{space}_{kind}.sum"
            yield Formula(f"sass__inst_executed_{space}_{word}", counter)


FORMULAS = tuple(_formulas())


@derived
def counter_formulas(trace: Trace) -> tuple[LaunchMetric, ...]:
    """Return the metrics that follow from the counters of launches that Warpline counted."""
    is_counted = is_own(trace)
    found = []
    for formula in FORMULAS if is_counted.any() else ():
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
