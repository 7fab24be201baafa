"""cuda_api_gpu_sum: CUDA API calls, kernels and memory operations in one summary."""

from __future__ import annotations

from warpline.derived.summaries.events import api_and_device_durations
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_api_gpu_sum"
TITLE = "CUDA summary (API, kernels and memory operations)"
FIELDS = time_fields(
    [
        Field("category", Unit.NONE, "CUDA_API, CUDA_KERNEL or MEMORY_OPER.", "Category"),
        Field("name", Unit.NONE, "Function, kernel or memory operation.", "Operation"),
    ]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("api_call", "kernel", "memcpy", "memset"),
    aliases=("apigpusum",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_api_gpu_sum(trace: Trace, arguments: Arguments) -> Result:
    """CUDA API calls on the CPU and GPU operations, in one ranking.

    What it measures: Count and time of each CUDA API function, kernel, copy direction and memset.
    Why it matters: The table compares API time with GPU time. If API calls take longer than
        kernels, the program may be launch-bound.
    How it is computed: The rows of cuda_api_sum and cuda_gpu_sum in one ranking. Versions of one
        function share a row.
    Limits: CPU and GPU run concurrently, so the shares refer to a sum of overlapping times. Compare
        rows. Do not read them as shares of the program's time.
    Source: Rows, columns and order of `nsys stats -r cuda_api_gpu_sum`; P95 and P99 are added by
        Warpline. A kernel with the name of a CUDA function keeps its own row.
    """
    events = api_and_device_durations(trace, arguments)
    labels = {"category": events.texts(1), "name": events.texts(0)}
    return summarize((NAME, *arguments), TITLE, FIELDS, events, labels, graph_notes(trace))
