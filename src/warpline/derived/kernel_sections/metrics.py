"""The metrics of launches, and formulas of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.counters.units import unit_of
from warpline.derived.counters import metric_numbers
from warpline.derived.counters.known import Known, ratio, scaled, total
from warpline.frozen import frozen
from warpline.hardware.measured import MeasuredCeilings
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

_PERCENT = 0.01


@frozen
class Value:
    """A number of launches and how it follows from metrics.

    Attributes:
        metric: Name of a metric, or a formula of such names: ``32 * (a + b) / c``.
        known: The numbers.
    """

    metric: str
    known: Known


class Metrics:
    """The metrics of all launches of a trace.

    Attributes:
        trace: The trace.
        measured: What `warpline bench` measured on GPUs.
        none: Numbers that no launch has.
    """

    def __init__(self, trace: Trace, measured: Sequence[MeasuredCeilings] = ()) -> None:
        self.trace = trace
        self.measured = measured
        self._known: dict[str, Known] = {}
        # Most launches lack most metrics.
        self.none = Known(np.zeros(len(self)), np.zeros(len(self), np.bool_))

    def __len__(self) -> int:
        return self.trace.row_count("profiled_kernel")

    def get(self, name: str) -> Known:
        """Return a metric in its base unit; a percentage as a ratio, 1 for 100%."""
        if name not in self._known:
            values, is_known = metric_numbers(self.trace, name)
            known = Known(values, is_known & (values >= 0))  # others are of a damaged report
            if not known.is_known.any():
                known = self.none
            elif unit_of(name) == "%":
                known = scaled(known, _PERCENT)
            self._known[name] = known
        return self._known[name]

    def has(self, name: str) -> bool:
        """Return whether any launch has a metric."""
        return self.get(name) is not self.none

    def every(self) -> BoolArray:
        """Return that all launches have something, shape (launches,)."""
        return np.ones(len(self), np.bool_)

    def value(
        self, *names: str, per: Sequence[str] = (), times: int = 1, of_all: bool = False
    ) -> Value:
        """Return the sum of metrics, or its ratio to another sum.

        Metrics that the GPU lacks, and so no launch has, are left out.

        Args:
            names: The metrics; `name|other` is the first of both that any launch has.
            per: Metrics whose sum it is divided by; none for no division.
            times: Factor of the sum.
            of_all: Whether a launch must have every metric that is named, also those that the GPU
                lacks.
        """
        chosen, divisors = self._collected(names), self._collected(per)
        lacks_some = len(chosen) < len(names) or len(divisors) < len(per)
        if not chosen or (per and not divisors) or (of_all and lacks_some):
            return Value("", self.none)
        known = total(*map(self.get, chosen))
        known = scaled(known, times) if times != 1 else known
        text = " + ".join(chosen)
        if times != 1:
            text = f"{times} * ({text})" if len(chosen) > 1 else f"{times} * {text}"
        elif per and len(chosen) > 1:
            text = f"({text})"
        if not per:
            return Value(text, known)
        divisor = " + ".join(divisors)
        divisor = f"({divisor})" if len(divisors) > 1 else divisor
        return Value(f"{text} / {divisor}", ratio(known, total(*map(self.get, divisors))))

    def _collected(self, names: Sequence[str]) -> list[str]:
        found = []
        for choices in names:
            found += [name for name in choices.split("|") if self.has(name)][:1]
        return found


def ended(names: Sequence[str], end: str) -> tuple[str, ...]:
    """Return names of `Metrics.value` with an end, each of their choices."""
    return tuple("|".join(choice + end for choice in name.split("|")) for name in names)
