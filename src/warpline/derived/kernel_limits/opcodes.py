"""How often launches executed each opcode, where a report has it."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.trace import Trace

EXECUTED = "sass__inst_executed_per_opcode"
_LARGEST = 2.0**62


class Opcodes:
    """Executed instructions of warps by opcode.

    Attributes:
        has_any: Which launches have counts, shape (launches,).
    """

    def __init__(self, count: int) -> None:
        self.has_any: BoolArray = np.zeros(count, np.bool_)
        self._counts: dict[str, F64] = {}
        self._none = np.zeros(count)

    def add(self, opcode: str, launches: I64, values: F64) -> None:
        """Add the counts of an opcode in some launches, shape (n,) each."""
        np.add.at(self._counts.setdefault(opcode, self._none.copy()), launches, values)
        self.has_any[launches] = True

    def names(self) -> list[str]:
        """Return the opcodes that any launch executed."""
        return [*self._counts]

    def executed(self, *opcodes: str) -> F64:
        """Return how often warps executed any of the opcodes, shape (launches,)."""
        total = self._none.copy()
        for opcode in opcodes:
            total += self._counts.get(opcode, 0)
        return total


@derived
def opcodes(trace: Trace) -> Opcodes:
    """Return the counts of opcodes of all profiled launches."""
    found = Opcodes(trace.row_count("profiled_kernel"))
    if not (trace.has("metric_instance") and trace.has("kernel_metric")):
        return found
    metrics = trace.columns("kernel_metric", "profiled_kernel_id", "name_id")
    instances = trace.columns("metric_instance", "kernel_metric_id", "key_text_id", "value")
    name = trace.strings.find(EXECUTED)
    if name is None:
        return found
    values, owners = instances["value"].values, instances["kernel_metric_id"].values
    is_count = metrics["name_id"].values[owners] == name
    is_count &= instances["key_text_id"].is_valid() & instances["value"].is_valid()
    is_count &= (values >= 1) & (values < _LARGEST)
    rows = np.flatnonzero(is_count)
    launches = metrics["profiled_kernel_id"].values[owners[rows]].astype(np.int64)
    keys = instances["key_text_id"].values[rows]
    for key in np.unique(keys).tolist():
        of_key = keys == key
        found.add(trace.strings.text(key), launches[of_key], values[rows[of_key]])
    return found
