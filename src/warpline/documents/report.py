"""The content of a report: the diagnosis and the tables beside the timeline."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from warpline import progress
from warpline.documents import failures
from warpline.documents.diagnosis import diagnosis
from warpline.documents.tables import compute
from warpline.lazy import lazy
from warpline.result import Diagnosis, Result
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
    *("memory_peak", "collective_kern_sum", "collective_waits", "stragglers", "rank_differences"),
    *("osrt_sum", "steps", "step_differences", "breakdown", "overlap", "device_sum", "process_sum"),
    *("recording", "profiling_cost"),
)


def content(run: Run) -> tuple[Diagnosis, list[pack.TableOfStats]]:
    """Return the diagnosis and the tables of a report, without tables that fail."""
    judged = diagnosis(run, keep_going=True)
    tables = []
    with progress.task("Computing tables", len(_TABLES)) as advance:
        for name in _TABLES:
            tables.append(failures.marked(name, partial(compute, run.trace, name, run.steps)))
            advance(1)
    recordings = shlex.join(path.name for path in run.trace.meta.paths)
    return judged, [
        pack.TableOfStats(item, f"warpline stats -r {shlex.quote(item.name)} {recordings}")
        for item in tables
        if isinstance(item, Result) and len(item)
    ]
