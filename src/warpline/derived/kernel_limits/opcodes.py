"""How often launches executed each opcode, where a report has it."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import F64, BoolArray
from warpline.trace import Trace

EXECUTED = "sass__inst_executed_per_opcode"
# With modifiers: HADD2.F32 rather than HADD2.
_WITH_MODIFIERS = "sass__inst_executed_per_opcode_with_modifier_all"
_LARGEST = 2.0**62


class Opcodes:
    """Executed instructions of warps by opcode.

    Attributes:
        has_any: Which launches have counts, shape (launches,).
    """

    def __init__(self, count: int) -> None:
        self.has_any: BoolArray = np.zeros(count, np.bool_)
        self._counts: dict[tuple[str, str], F64] = {}
        self._none = np.zeros(count)

    def add(self, metric: str, opcode: str, launches: np.ndarray, values: F64) -> None:
        """Add the counts of an opcode."""
        counts = self._counts.setdefault((metric, opcode), self._none.copy())
        np.add.at(counts, launches, values)
        self.has_any[launches] = True

    def executed(self, *opcodes: str) -> F64:
        """Return how often warps executed any of the opcodes, shape (launches,).

        An opcode with a dot, such as ``HADD2.F32``, is with its modifiers.
        """
        total = self._none.copy()
        for opcode in opcodes:
            total += self._counts.get((_WITH_MODIFIERS if "." in opcode else EXECUTED, opcode), 0)
        return total

    def starting(self, prefix: str) -> F64:
        """Return how often warps executed opcodes that start so, with modifiers, (launches,)."""
        total = self._none.copy()
        for (metric, opcode), counts in self._counts.items():
            if metric == _WITH_MODIFIERS and opcode.startswith(prefix):
                total += counts
        return total


@derived
def opcodes(trace: Trace) -> Opcodes:
    """Return the counts of opcodes of all profiled launches."""
    found = Opcodes(trace.row_count("profiled_kernel"))
    if not (trace.has("metric_instance") and trace.has("kernel_metric")):
        return found
    metrics = trace.columns("kernel_metric", "profiled_kernel_id", "name_id")
    instances = trace.columns("metric_instance", "kernel_metric_id", "key_text_id", "value")
    names = metrics["name_id"].values[instances["kernel_metric_id"].values]
    is_usable = instances["key_text_id"].is_valid() & instances["value"].is_valid()
    is_usable &= (instances["value"].values >= 1) & (instances["value"].values < _LARGEST)
    for metric in (EXECUTED, _WITH_MODIFIERS):
        row = trace.strings.find(metric)
        chosen = np.flatnonzero(is_usable & (names == row)) if row is not None else ()
        if not len(chosen):
            continue
        launches = metrics["profiled_kernel_id"].values[instances["kernel_metric_id"].values]
        keys = instances["key_text_id"].values[chosen]
        for key in np.unique(keys).tolist():
            of_key = chosen[keys == key]
            found.add(
                metric,
                trace.strings.text(key),
                launches[of_key],
                instances["value"].values[of_key],
            )
    return found
