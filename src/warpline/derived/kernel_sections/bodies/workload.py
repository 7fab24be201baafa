"""workload: how evenly units of the GPU were busy."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_sections.columns import Item, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

_UNITS = {
    "SM": "sm__cycles_active",
    "Scheduler": "smsp__cycles_active",
    "L1": "l1tex__cycles_active",
    "L2 slice": "lts__cycles_active",
    "DRAM channel": "dram__cycles_active",
    "Memory controller": "mcc__cycles_active",
}
_ROLLUPS = ("min", "avg", "max", "sum")


@section_body("workload")
def workload(metrics: Metrics) -> Item:
    """Return active cycles over the units of each kind: least, mean, most, and their sum."""
    items = []
    for unit, counter in _UNITS.items():
        rollups = {of: metrics.get(f"{counter}.{of}") for of in _ROLLUPS}
        has_spread = np.logical_and.reduce([rollups[of].is_known for of in ("min", "avg", "max")])
        items.append(Item(has_spread, {"unit": unit, "metric": counter, **rollups}))
    return Item(any_of(items, len(metrics)), items)
