"""kernel_sum: busy time by kernel."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.events import kernel_durations
from warpline.derived.summaries.kernel_names import KERNEL_NAME_ARGUMENTS
from warpline.derived.texts import labelled
from warpline.derived.work.busy import device_busy_ns, device_work
from warpline.derived.work.graphs import graph_notes
from warpline.ops.group import group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_sum"
TITLE = "Kernels"
FIELDS = (
    Field("busy_ratio", Unit.RATIO, "Share of the GPUs' busy time.", "Busy (%)", 100.0, 1),
    Field("busy_ns", Unit.NS, "Time during which at least one instance runs.", "Busy (ns)"),
    Field("instances", Unit.COUNT, "Number of executions.", "Instances"),
    Field("mean_ns", Unit.NS, "Mean duration.", "Avg (ns)", digits=1),
    Field("max_ns", Unit.NS, "Longest duration.", "Max (ns)"),
    Field("name", Unit.NONE, "Kernel name.", "Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments=KERNEL_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def kernel_sum(trace: Trace, arguments: Arguments) -> Result:
    """GPU busy time by kernel.

    What it measures: For each kernel, the time during which at least one instance runs, and its
        share of the GPUs' busy time.
    Why it matters: Optimizing a kernel saves at most its busy time. Where instances overlap, the
        sum of their durations, as in cuda_gpu_kern_sum, overstates it.
    How it is computed: Union of a kernel's intervals on each GPU, added over GPUs, divided by
        the union of all GPU operations, added over GPUs.
    Limits: Different kernels that run concurrently both count, so shares can add up to more than
        100%. Kernels inside CUDA graphs traced at graph level are missing.
    Source: Warpline.
    """
    events = kernel_durations(trace, arguments)
    n_groups = len(events.labels)
    busy_ns = device_work(trace, "kernel").busy_ns(events.codes, n_groups)
    stats = group_stats(events.codes, events.values, n_groups)
    order = np.argsort(-busy_ns, kind="stable")
    whole_ns = max(int(device_busy_ns(trace).sum()), 1)
    columns: dict[str, Values] = {
        "busy_ratio": Numbers(busy_ns[order] / whole_ns),
        "busy_ns": Numbers(busy_ns[order]),
        "instances": Numbers(stats.count[order]),
        "mean_ns": Numbers(stats.mean[order]),
        "max_ns": Numbers(stats.max[order]),
        "name": labelled(order, events.texts(0)),
    }
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, columns, ("name",), graph_notes(trace))
