"""launch: the shape of the launch and its resources."""

from __future__ import annotations

from warpline.derived.kernel_sections.columns import Item
from warpline.derived.kernel_sections.lines import lines
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

_METRICS = (
    "launch__grid_size",
    "launch__block_size",
    "launch__thread_count",
    "launch__cluster_size",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_driver",
    "launch__shared_mem_config_size",
    "launch__stack_size",
    "launch__sm_count",
    "launch__waves_per_multiprocessor",
)


@section_body("launch")
def launch(metrics: Metrics) -> Item:
    """Return grid, block and what a block and a thread use."""
    return lines(metrics, _METRICS, _METRICS)
