"""occupancy: resident warps of an SM, what limits them, and what other resources would allow."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from warpline.derived.counters.occupancies import (
    BLOCK,
    REGISTERS,
    SHARED,
    Configurations,
    configurations,
    curve,
)
from warpline.derived.kernel_sections.columns import Item, Shared, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

_THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
_ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
_LIMITS = {
    "blocks": "launch__occupancy_limit_blocks",
    "registers": "launch__occupancy_limit_registers",
    "shared_memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "barriers": "launch__occupancy_limit_barriers",
}
_CURVES = {"block_size": BLOCK, "registers": REGISTERS, "shared_bytes": SHARED}


@section_body("occupancy")
def occupancy(metrics: Metrics) -> Item:
    """Return theoretical and achieved occupancy, the limits of blocks per SM, and curves."""
    theoretical, achieved = metrics.get(_THEORETICAL), metrics.get(_ACHIEVED)
    limits = {name: metrics.get(metric) for name, metric in _LIMITS.items()}
    least = np.min([np.where(of.is_known, of.values, np.inf) for of in limits.values()], axis=0)
    is_full = theoretical.is_known & (theoretical.values >= 1)
    items = [
        Item(
            of.is_known,
            {
                "limit": name,
                "metric": _LIMITS[name],
                "blocks": of,
                "is_limiting": of.is_known & (of.values == least) & ~is_full,
            },
        )
        for name, of in limits.items()
    ]
    tree: dict[str, Tree] = {
        "theoretical_metric": _THEORETICAL,
        "theoretical_ratio": theoretical,
        "achieved_metric": _ACHIEVED,
        "achieved_ratio": achieved,
        "limits": items,
        "curves": _curves(metrics),
    }
    has = theoretical.is_known | achieved.is_known | any_of(items, len(metrics))
    return Item(has, tree)


def _curves(metrics: Metrics) -> list[Item]:
    found = configurations(metrics.trace)
    has = found.of_launch >= 0
    codes = np.maximum(found.of_launch, 0)
    return [Item(has, Shared(codes, cache(partial(_curve, found, by)))) for by in _CURVES]


def _curve(found: Configurations, by: str, number: int) -> dict[str, Any]:
    """Return a curve of a configuration, of which the present amount is a point."""
    present = {
        "block_size": found.threads,
        "registers": found.registers,
        "shared_bytes": found.shared_bytes,
    }[by][number]
    points = [[amount, occupancy] for amount, occupancy in curve(found, number, _CURVES[by])]
    return {"by": by, "current": int(present), "points": points}
