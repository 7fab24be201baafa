"""The content of a report: the diagnosis and the tables beside the timeline."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from warpline import progress
from warpline.derived import forget, forget_others
from warpline.derived.breakdown.partition import measured_segments
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.efficiency.launch_shapes import blocks_in_x
from warpline.derived.efficiency.products import products
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.paths import range_paths
from warpline.derived.ranges.stacks import innermost_range, range_nesting
from warpline.derived.ranges.work import (
    launched_work,
    range_work,
    work_inside,
    work_timeline,
)
from warpline.derived.steps.times import steps
from warpline.derived.steps.work import step_of_operations
from warpline.derived.work.kernel_launches import kernel_launches
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import rank_of_process
from warpline.documents import failures
from warpline.documents.diagnosis import diagnosis
from warpline.documents.tables import compute
from warpline.lazy import lazy
from warpline.result import Diagnosis, Skipped
from warpline.trace import Run

if TYPE_CHECKING:
    from warpline.viewer import pack
else:
    pack = lazy("warpline.viewer.pack")

# In this order, where the recording has data for them.
_TABLES = (
    *("cuda_gpu_kern_sum", "kernel_class_sum", "cuda_gpu_kern_gb_sum", "cuda_kern_exec_sum"),
    *("cuda_api_sum", "cuda_api_gpu_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
    *("copy_sum", "phases", "layers", "range_gpu_sum", "nvtx_sum", "op_sum", "op_kern_sum"),
    *("memory_peak", "memory_use", "copy_rates", "kernel_durations", "launch_queue"),
    *("rank_sum", "rank_steps", "step_parts", "wait_matrix", "collective_sizes"),
    *("collective_kern_sum", "collective_waits", "stragglers", "rank_differences"),
    *("osrt_sum", "steps", "step_differences", "breakdown", "overlap", "device_sum", "process_sum"),
    *("recording", "profiling_cost"),
)

# These need most memory for a moment: they come first, while little else is kept.
_COMPUTED_FIRST = ("layers", "range_gpu_sum")

# What the timeline is made of.
_OF_TIMELINE = (
    *(operations, operation_categories, device_segments, steps, rank_of_process),
    *(push_pop_ranges, range_nesting, innermost_range),
)
# Large, and only needed for findings.
_OF_FINDINGS = (measured_segments, products, blocks_in_x)
# Large, and not needed after a table.
_LAST_USED_BY: Mapping[str, tuple[Callable[..., object], ...]] = {
    "layers": (range_paths,),
    "range_gpu_sum": (*(range_work, work_inside, work_timeline, launched_work),),
    "launch_queue": (kernel_launches,),
    "step_differences": (step_of_operations,),
}


def content(run: Run) -> tuple[Diagnosis, list[pack.TableOfStats]]:
    """Return the diagnosis and the tables of a report, and why others are missing."""
    judged = diagnosis(run, keep_going=True)
    forget(run.trace, *_OF_FINDINGS)
    tables = {}
    with progress.task("Computing tables", len(_TABLES)) as advance:
        for name in sorted(_TABLES, key=lambda name: name not in _COMPUTED_FIRST):
            tables[name] = failures.marked(name, partial(compute, run.trace, name, run.steps))
            forget(run.trace, *_LAST_USED_BY.get(name, ()))
            advance(1)
    forget_others(run.trace, *_OF_TIMELINE)
    recordings = shlex.join(path.name for path in run.trace.meta.paths)
    return judged, [
        pack.TableOfStats(item, f"warpline stats -r {shlex.quote(item.name)} {recordings}")
        for item in (tables[name] for name in _TABLES)
        if isinstance(item, Skipped) or len(item)
    ]
