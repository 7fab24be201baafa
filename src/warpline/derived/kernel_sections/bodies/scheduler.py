"""scheduler: warps of each scheduler, from resident to issued."""

from __future__ import annotations

from warpline.derived.kernel_sections.columns import Item
from warpline.derived.kernel_sections.lines import lines
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

_METRICS = (
    "smsp__warps_active.avg.peak_sustained",
    "smsp__maximum_warps_avg_per_active_cycle",
    "smsp__warps_active.avg.per_cycle_active",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__issue_active.avg.per_cycle_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
)
# What follows from the launch alone is no reason for the section.
_COUNTED = _METRICS[2:]


@section_body("scheduler")
def scheduler(metrics: Metrics) -> Item:
    """Return the warps of a scheduler: possible, active, eligible and issued per cycle."""
    return lines(metrics, _METRICS, _COUNTED)
