"""cuda_gpu_sum: kernels and memory operations in one summary."""

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
    """GPU time by kernel and memory operation.

    What it measures: Count and time of each kernel, copy direction and memset.
    Why it matters: One ranking shows whether to look at kernels or at copies first.
    How it is computed: The rows of cuda_gpu_kern_sum and cuda_gpu_mem_time_sum in one ranking,
        with shares of their common total.
    Limits: Concurrent operations each count in full, so the total is not the GPU's busy time.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_sum`; P95 and P99 are added by
        Warpline. A kernel with the name of a memory operation keeps its own row.
    """
    events = device_durations(trace, arguments)
    labels = {"category": events.texts(1), "name": events.texts(0)}
    return summarize((NAME, *arguments), TITLE, FIELDS, events, labels, graph_notes(trace))
