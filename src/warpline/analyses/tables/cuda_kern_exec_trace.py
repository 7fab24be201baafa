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
TITLE = "CUDA kernel launch and execution trace"
FIELDS = (
    Field("start_ns", Unit.NS, "When the launch call began.", "API Start (ns)"),
    Field("api_ns", Unit.NS, "How long the call took.", "API Dur (ns)"),
    Field("start_queue_ns", Unit.NS, "When the call had returned.", "Queue Start (ns)"),
    Field("queue_ns", Unit.NS, "From then to the kernel's start.", "Queue Dur (ns)"),
    Field("start_kernel_ns", Unit.NS, "When the kernel began.", "Kernel Start (ns)"),
    Field("kernel_ns", Unit.NS, "How long it ran.", "Kernel Dur (ns)"),
    Field("total_ns", Unit.NS, "From the call's start to the later end.", "Total Dur (ns)"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("tid", Unit.ID, "Thread that launched the kernel.", "TID"),
    Field("device", Unit.ID, "Number of the GPU.", "DevId"),
    Field("api_name", Unit.NONE, "Function that launched it.", "API Function"),
    Field("grid", Unit.NONE, "Blocks in x, y and z.", "GridXYZ"),
    Field("block", Unit.NONE, "Threads of a block in x, y and z.", "BlockXYZ"),
    Field("name", Unit.NONE, "Kernel.", "Kernel Name"),
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
    """Every kernel with its launch: the call, the wait in the queue, the execution.

    What it measures: How long the launch call took, how long the kernel then waited, and how
        long it ran.
    Why it matters: A long queue means that the host is ahead and the device busy; no queue at
        all, kernel after kernel, means that the device waits for launches.
    How it is computed: A kernel and its call match by process and correlation. The queue time is
        from the end of the call to the start of the kernel; a kernel that began earlier has
        none. The total is from the start of the call to the end of kernel or call, whichever is
        later. Rows are in the order of the calls.
    Limits: A kernel is in the queue before its call returns, so the real wait is a little
        longer; and a queue time does not say what the kernel waited for. A kernel whose call was
        not recorded is left out.
    Source: Rows, columns and order of `nsys stats -r cuda_kern_exec_trace`.
    """
    found, names = kernel_launches(trace), kernel_texts(trace, arguments)
    values: dict[str, Values] = {
        "start_ns": Numbers(found.api_start_ns),
        "api_ns": Numbers(found.api_ns),
        "start_queue_ns": Numbers(found.api_start_ns + found.api_ns, found.has_queue),
        "queue_ns": Numbers(found.queue_ns, found.has_queue),
        "start_kernel_ns": Numbers(found.kernel_start_ns),
        "kernel_ns": Numbers(found.kernel_ns),
        "total_ns": Numbers(found.total_ns),
        "pid": Numbers(found.pid),
        "tid": Numbers(found.tid),
        "device": Numbers(found.device),
        "api_name": function_names(trace, found.call),
        "grid": _sizes(trace, "grid", found.kernel),
        "block": _sizes(trace, "block", found.kernel),
        "name": Texts(names.codes[found.kernel], names.values),
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
