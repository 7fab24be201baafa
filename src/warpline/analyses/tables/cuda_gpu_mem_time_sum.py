"""cuda_gpu_mem_time_sum: time of copies and memsets, by operation."""

from __future__ import annotations

from warpline.derived.summaries.events import memory_operations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_mem_time_sum"
TITLE = "CUDA GPU memory operations summary by time"
FIELDS = time_fields([Field("name", Unit.NONE, "Operation.", "Operation")], count="Count")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy", "memset"),
    aliases=("gpumemtimesum",),
    default_rank=5,
    missing_hint="profile with --trace=cuda",
)
def cuda_gpu_mem_time_sum(trace: Trace, arguments: Arguments) -> Result:
    """GPU time of copies and memsets, by direction.

    What it measures: Number and duration of the copies in each direction, and of the memsets.
    Why it matters: Copies that do not overlap with kernels delay them. Copies from pageable host
        memory cannot overlap.
    How it is computed: End minus start of each operation, grouped by direction.
    Limits: The table does not show overlap with kernels. Copies done by kernels, and copies inside
        CUDA graphs traced at graph level, are missing.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_mem_time_sum`; P95 and P99 are
        added by Warpline.
    """
    events = memory_operations(trace, "duration_ns")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
