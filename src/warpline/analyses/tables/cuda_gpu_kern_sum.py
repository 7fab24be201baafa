"""cuda_gpu_kern_sum: the time of kernels by name."""

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
FIELDS = time_fields([Field("name", Unit.NONE, "Kernel.", "Name")])


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
    """The time that kernels ran on devices, by kernel.

    What it measures: How often each kernel ran, and for how long.
    Why it matters: It says which kernels are worth making faster, or fewer. A kernel of a few
        microseconds that runs very often is limited by its launches rather than by the device.
    How it is computed: End minus start of each execution, grouped by the full name; by the bare
        name with :base, by the compiler's name with :mangled.
    Limits: Kernels that ran at the same time are both counted in full, so the total is not the
        time for which the device was busy. Kernels of graphs that were recorded as wholes are
        missing; a note says so.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_kern_sum`; P95 and P99 are ours.
    """
    events = kernel_durations(trace, arguments)
    labels = {"name": events.texts(0)}
    name, notes = (NAME, *arguments), graph_notes(trace)
    return summarize(name, TITLE, FIELDS, events, labels, notes, rarer_first=True)
