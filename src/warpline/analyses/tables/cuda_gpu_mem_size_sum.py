"""cuda_gpu_mem_size_sum: bytes copied and set, by operation."""

from __future__ import annotations

from warpline.derived.summaries.events import memory_operations
from warpline.derived.summaries.summary import size_fields, summarize
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_mem_size_sum"
TITLE = "CUDA GPU memory operations summary by size"
FIELDS = size_fields([Field("name", Unit.NONE, "Operation.", "Operation")])


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy", "memset"),
    aliases=("gpumemsizesum",),
    default_rank=6,
    missing_hint="profile with --trace=cuda",
)
def cuda_gpu_mem_size_sum(trace: Trace, arguments: Arguments) -> Result:
    """Bytes of copies and memsets, by direction.

    What it measures: Number and size of the copies in each direction, and of the memsets.
    Why it matters: Many small copies are limited by launch overhead, a few large ones by
        bandwidth. The fixes differ.
    How it is computed: Bytes of each operation, grouped by direction. In text and CSV, 1 MB is
        10**6 bytes. JSON has bytes.
    Limits: Same as cuda_gpu_mem_time_sum.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_mem_size_sum`; P95 and P99 are
        added by Warpline.
    """
    events = memory_operations(trace, "bytes")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
