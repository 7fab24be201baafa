"""cuda_api_gpu_sum: the time of CUDA calls, kernels and memory operations together."""

from __future__ import annotations

from warpline.derived.summaries.events import api_and_device_durations
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_api_gpu_sum"
TITLE = "CUDA summary (calls, kernels and memory operations)"
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
    """The time of CUDA calls on the host and of the work they started on devices.

    What it measures: How often each CUDA function, kernel, copy direction and memory set ran,
        and for how long.
    Why it matters: It sets the cost of launching beside the cost of computing: when the calls
        outweigh the kernels, the program is limited by its launches.
    How it is computed: The rows of cuda_api_sum and cuda_gpu_sum in one ranking; the versions of
        one function are one row here.
    Limits: Host and device run at the same time, so the shares are of a sum of times that
        overlap; compare rows, do not read them as shares of the program.
    Source: Rows, columns and order of `nsys stats -r cuda_api_gpu_sum`; P95 and P99 are ours. A
        kernel that bears the name of a CUDA function stays a row of its own.
    """
    events = api_and_device_durations(trace, arguments)
    labels = {"category": events.texts(1), "name": events.texts(0)}
    return summarize((NAME, *arguments), TITLE, FIELDS, events, labels, graph_notes(trace))
