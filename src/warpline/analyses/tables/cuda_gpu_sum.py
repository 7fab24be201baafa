"""cuda_gpu_sum: the time of kernels and memory operations together."""

from __future__ import annotations

from warpline.derived.summaries.events import device_durations
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_sum"
TITLE = "CUDA GPU summary (kernels and memory operations)"
FIELDS = time_fields(
    [
        Field("category", Unit.NONE, "CUDA_KERNEL or MEMORY_OPER.", "Category"),
        Field("name", Unit.NONE, "Kernel or memory operation.", "Operation"),
    ]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel", "memcpy", "memset"),
    aliases=("gpusum",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_gpu_sum(trace: Trace, arguments: Arguments) -> Result:
    """The time of everything that ran on devices, by kernel or memory operation.

    What it measures: How often each kernel, copy direction and memory set ran, and for how long.
    Why it matters: One ranking shows whether computing or copying is worth looking at first.
    How it is computed: The rows of cuda_gpu_kern_sum and cuda_gpu_mem_time_sum in one ranking,
        with shares of their common total.
    Limits: Operations that ran at the same time are counted in full, so the total is not the
        time for which the device was busy.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_sum`; P95 and P99 are ours. A
        kernel that bears the name of a memory operation stays a row of its own.
    """
    events = device_durations(trace, arguments)
    labels = {"category": events.texts(1), "name": events.texts(0)}
    return summarize((NAME, *arguments), TITLE, FIELDS, events, labels, graph_notes(trace))
