"""cuda_gpu_mem_time_sum: the time of copies and sets of memory by kind."""

from __future__ import annotations

from warpline.derived.summaries.events import memory_operations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_mem_time_sum"
TITLE = "CUDA GPU memory operations by time"
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
    """The time of copies and sets of device memory, by direction.

    What it measures: How many copies there were in each direction and how many memory sets, and
        how long they took on the device.
    Why it matters: Copies compete with kernels unless they overlap with them; copies from
        pageable host memory cannot overlap.
    How it is computed: End minus start of each operation, grouped by direction.
    Limits: It does not say whether kernels ran at the same time. Copies that kernels make
        themselves, and copies inside graphs that were recorded as wholes, are not in it.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_mem_time_sum`; P95 and P99 are
        ours.
    """
    events = memory_operations(trace, "duration_ns")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
