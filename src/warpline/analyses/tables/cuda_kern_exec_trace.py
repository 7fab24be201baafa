"""cuda_kern_exec_trace: every kernel with its launch."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.call_names import function_names
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS, kernel_texts
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.kernel_launches import kernel_launches
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_kern_exec_trace"
TITLE = "CUDA kernel launch and execution time trace"
FIELDS = (
    Field("start_ns", Unit.NS, "Start of the launch call.", "API Start (ns)"),
    Field("api_ns", Unit.NS, "Duration of the launch call.", "API Dur (ns)"),
    Field("start_queue_ns", Unit.NS, "End of the launch call.", "Queue Start (ns)"),
    Field("queue_ns", Unit.NS, "From the end of the call to the kernel's start.", "Queue Dur (ns)"),
    Field("start_kernel_ns", Unit.NS, "Start of the kernel.", "Kernel Start (ns)"),
    Field("kernel_ns", Unit.NS, "Duration of the kernel.", "Kernel Dur (ns)"),
    Field(
        "total_ns",
        Unit.NS,
        "From the start of the call to the end of call or kernel, whichever is later.",
        "Total Dur (ns)",
    ),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("tid", Unit.ID, "Id of the launching thread.", "TID"),
    Field("device", Unit.ID, "GPU index.", "DevId"),
    Field("api_name", Unit.NONE, "CUDA API function that launches the kernel.", "API Function"),
    Field("grid", Unit.NONE, "Grid size: blocks in x, y and z.", "GridXYZ"),
    Field("block", Unit.NONE, "Block size: threads in x, y and z.", "BlockXYZ"),
    Field("name", Unit.NONE, "Kernel name.", "Kernel Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    aliases=("kernexectrace",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_kern_exec_trace(trace: Trace, arguments: Arguments) -> Result:
    """Launch, queue and execution time of every kernel.

    What it measures: For each kernel, the duration of the launch call, the queue time and the
        execution time.
    Why it matters: A long queue time means that the CPU runs ahead and the GPU is busy. If kernel
        after kernel has no queue time, the GPU waits for launches.
    How it is computed: Kernels and calls match by process and correlation id. Queue time runs from
        the end of the call to the start of the kernel. A kernel that starts earlier has none. The
        total runs from the start of the call to the end of kernel or call, whichever is later.
        Rows are in the order of the calls.
    Limits: A kernel is queued before its call returns, so the real queue time is a little longer.
        The cause of the wait is not shown. Kernels without a recorded launch call are not listed.
    Source: Rows, columns and order of `nsys stats -r cuda_kern_exec_trace`.
    """
    launches, names = kernel_launches(trace), kernel_texts(trace, arguments)
    values: dict[str, Values] = {
        "start_ns": Numbers(launches.api_start_ns),
        "api_ns": Numbers(launches.api_ns),
        "start_queue_ns": Numbers(launches.api_start_ns + launches.api_ns, launches.has_queue),
        "queue_ns": Numbers(launches.queue_ns, launches.has_queue),
        "start_kernel_ns": Numbers(launches.kernel_start_ns),
        "kernel_ns": Numbers(launches.kernel_ns),
        "total_ns": Numbers(launches.total_ns),
        "pid": Numbers(launches.pid),
        "tid": Numbers(launches.tid),
        "device": Numbers(launches.device),
        "api_name": function_names(trace, launches.call),
        "grid": _sizes(trace, "grid", launches.kernel),
        "block": _sizes(trace, "block", launches.kernel),
        "name": Texts(names.codes[launches.kernel], names.values),
    }
    key = ("start_ns", "tid", "start_kernel_ns", "name")
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, key, graph_notes(trace))


def _sizes(trace: Trace, kind: str, rows: I64) -> Texts:
    columns = trace.columns("kernel", *(f"{kind}_{axis}" for axis in "xyz"))
    parts = [column.values[rows] for column in columns.values()]
    groups = factorize_rows(*parts)
    sizes = zip(*(part[groups.first].tolist() for part in parts), strict=True)
    texts = [" ".join(f"{part:>4}" for part in size) for size in sizes]
    return Texts(groups.codes.astype(np.int32), texts)
