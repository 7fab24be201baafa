"""cuda_gpu_mem_size_sum: the sizes of copies and sets of memory by kind."""

from __future__ import annotations

from warpline.derived.summaries.events import memory_operations
from warpline.derived.summaries.summary import size_fields, summarize
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_mem_size_sum"
TITLE = "CUDA GPU memory operations by size"
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
    """The sizes of copies and sets of device memory, by direction.

    What it measures: How many copies there were in each direction and how many memory sets, and
        how many bytes they moved or wrote.
    Why it matters: Many small copies cost their launches, few large ones cost bandwidth; they
        are cured differently.
    How it is computed: Bytes of each operation, grouped by direction. In text and CSV an MB is
        10**6 bytes; JSON has bytes.
    Limits: As for cuda_gpu_mem_time_sum.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_mem_size_sum`; P95 and P99 are
        ours.
    """
    events = memory_operations(trace, "bytes")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
