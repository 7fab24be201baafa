"""cuda_gpu_kern_sum: kernel time by name."""

from __future__ import annotations

from warpline.derived.summaries.events import kernel_durations
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_kern_sum"
TITLE = "CUDA GPU kernel summary"
FIELDS = time_fields([Field("name", Unit.NONE, "Kernel name.", "Name")])


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    aliases=("gpukernsum",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    default_rank=4,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_gpu_kern_sum(trace: Trace, arguments: Arguments) -> Result:
    """GPU time by kernel.

    What it measures: Number of executions of each kernel, and their duration.
    Why it matters: The table shows which kernels to make faster or to launch less often. A kernel
        of a few microseconds that runs very often is usually launch-bound.
    How it is computed: End minus start of each execution, grouped by the full name. With :base,
        grouped by the base name. With :mangled, grouped by the mangled name.
    Limits: Concurrent kernels each count in full, so the total is not the GPU's busy time. Kernels
        inside CUDA graphs traced at graph level are missing; a note gives their time.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_kern_sum`; P95 and P99 are added by
        Warpline.
    """
    events = kernel_durations(trace, arguments)
    labels = {"name": events.texts(0)}
    name, notes = (NAME, *arguments), graph_notes(trace)
    return summarize(name, TITLE, FIELDS, events, labels, notes, rarer_first=True)
