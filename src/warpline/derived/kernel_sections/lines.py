"""Lists of metrics with labels."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.counters.labels import LABELS
from warpline.derived.kernel_sections.columns import Item, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.words import label_of, unit_in_json

# Of metrics that no section of `LABELS` heads.
_LABELS = {
    "launch__cluster_size": "Blocks per Cluster",
    "launch__shared_mem_per_block_driver": "Driver Shared Memory per Block",
    "launch__shared_mem_config_size": "Shared Memory Configured per SM",
    "launch__stack_size": "Stack Size",
    "smsp__warps_active.avg.peak_sustained": "Most Warps per Scheduler",
    "smsp__maximum_warps_avg_per_active_cycle": "Theoretical Warps per Scheduler",
}


def line(metrics: Metrics, metric: str) -> Item:
    """Return a metric of the launches that have it, with its label and unit."""
    value = metrics.get(metric)
    label = LABELS.get(metric) or _LABELS.get(metric) or label_of(metric)
    tree: dict[str, Tree] = {
        "label": label,
        "metric": metric,
        "value": value,
        "unit": unit_in_json(metric),
    }
    return Item(value.is_known, tree)


def lines(metrics: Metrics, names: Sequence[str], needed: Sequence[str]) -> Item:
    """Return the metrics that launches have, of those that have any of the needed ones."""
    items = {name: line(metrics, name) for name in names}
    return Item(any_of([items[name] for name in needed], len(metrics)), [*items.values()])
