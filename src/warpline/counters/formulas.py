"""Metrics of Nsight Compute that are multiples and ratios of counters.

Each was found to be exactly that in reports of 19 launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warpline.frozen import frozen


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

    @property
    def is_equal(self) -> bool:
        """Whether it is another name of its counter."""
        return self.factor == 1 and not self.divisor

    @property
    def counters(self) -> list[str]:
        """The counters that it follows from."""
        return [self.source, self.divisor] if self.divisor else [self.source]


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


FORMULAS: Mapping[str, Formula] = {formula.name: formula for formula in _formulas()}
