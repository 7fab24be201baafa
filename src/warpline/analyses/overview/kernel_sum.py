"""kernel_sum: which kernels keep the devices busy."""

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
    Field("busy_ratio", Unit.RATIO, "Share of the devices' busy time.", "Busy (%)", 100.0, 1),
    Field("busy_ns", Unit.NS, "Time in which at least one of them ran.", "Busy (ns)"),
    Field("instances", Unit.COUNT, "How many there were.", "Instances"),
    Field("mean_ns", Unit.NS, "Mean duration.", "Avg (ns)", digits=1),
    Field("max_ns", Unit.NS, "Longest duration.", "Max (ns)"),
    Field("name", Unit.NONE, "Kernel.", "Name"),
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
    """Which kernels keep the devices busy.

    What it measures: For each kernel, the time in which at least one of its executions ran, and
        its share of the time for which the devices were busy.
    Why it matters: A kernel can save at most the time in which it ran. Where executions overlap,
        the sum of their durations, as in cuda_gpu_kern_sum, promises more than there is.
    How it is computed: Union of a kernel's intervals on each device, added over devices, divided
        by the union of all operations, added over devices.
    Limits: Different kernels that ran at the same time are both counted, so shares may add up to
        more than 100%. Kernels of graphs that were recorded as wholes are missing.
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
