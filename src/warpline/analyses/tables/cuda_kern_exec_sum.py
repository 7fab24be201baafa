"""cuda_kern_exec_sum: launch, queue and execution time, by thread and kernel."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.call_names import function_names
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS, kernel_texts
from warpline.derived.summaries.summary import spread, spread_fields
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.kernel_launches import kernel_launches
from warpline.ops.arrays import I32, I64
from warpline.ops.group import GroupStats, factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_kern_exec_sum"
TITLE = "CUDA kernel launch and execution time summary"
_PHASES = {
    "total_": ("T", "total time"),
    "api_": ("A", "launch call duration"),
    "queue_": ("Q", "queue time"),
    "kernel_": ("K", "execution time"),
}
FIELDS = (
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("tid", Unit.ID, "Id of the launching thread.", "TID"),
    Field("device", Unit.ID, "GPU index.", "DevId"),
    Field("instances", Unit.COUNT, "Number of kernels.", "Count"),
    Field("queued", Unit.COUNT, "Kernels that start after their launch call returns.", "QCount"),
    *(field for prefix, phase in _PHASES.items() for field in spread_fields(prefix, *phase)),
    Field("api_name", Unit.NONE, "CUDA API function that launches them.", "API Name"),
    Field("name", Unit.NONE, "Kernel name.", "Kernel Name"),
    *(
        field
        for prefix, phase in _PHASES.items()
        for field in spread_fields(prefix, *phase, extra=True)
    ),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    aliases=("kernexecsum",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_kern_exec_sum(trace: Trace, arguments: Arguments) -> Result:
    """Launch, queue and execution time of kernels, by thread, GPU, API function and kernel.

    What it measures: For each kernel, the duration of the launch call (A), the queue time from the
        end of the call to the kernel's start (Q), the execution time (K), and the total (T).
    Why it matters: If launch calls take longer than the kernels, the GPU waits for launches. A
        long queue time is good: the CPU runs ahead of the GPU.
    How it is computed: The rows of cuda_kern_exec_trace, grouped, sorted by decreasing mean T. Q
        includes only kernels that start after their launch call returns (QCount).
    Limits: Same as cuda_kern_exec_trace: the real queue time is a little longer than Q, T is not
        the sum of A, Q and K, and kernels without a recorded launch call are not listed.
    Source: Rows, columns and order of `nsys stats -r cuda_kern_exec_sum`; P95 and P99 are added by
        Warpline.
    """
    launches = kernel_launches(trace)
    functions, names = function_names(trace, launches.call), kernel_texts(trace, arguments)
    kernel = names.codes[launches.kernel]
    keys = launches.pid, launches.tid, launches.device, functions.codes, _ascending(names)[kernel]
    groups = factorize_rows(*keys)
    queued = np.flatnonzero(launches.has_queue)

    def stats(values: I64, codes: I32 = groups.codes) -> GroupStats:
        return group_stats(codes, values, groups.n_groups)

    total = stats(launches.total_ns)
    queue = stats(launches.queue_ns[queued], groups.codes[queued])
    phases = {
        "total_": total,
        "api_": stats(launches.api_ns),
        "queue_": queue,
        "kernel_": stats(launches.kernel_ns),
    }
    order = np.argsort(-total.mean, kind="stable")
    first = groups.first[order]
    values: dict[str, Values] = {
        "pid": Numbers(launches.pid[first]),
        "tid": Numbers(launches.tid[first]),
        "device": Numbers(launches.device[first]),
        "instances": Numbers(total.count[order]),
        "queued": Numbers(queue.count[order]),
        **_spreads(phases, order, extra=False),
        "api_name": Texts(functions.codes[first], functions.values),
        "name": Texts(kernel[first], names.values),
        **_spreads(phases, order, extra=True),
    }
    key = ("pid", "tid", "device", "api_name", "name")
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, key, graph_notes(trace))


def _spreads(phases: dict[str, GroupStats], order: I64, *, extra: bool) -> dict[str, Values]:
    """Return the statistics of each phase; a phase without values has only StdDev, which is 0."""
    return {
        name: Numbers(values.values, None if "stddev" in name else stats.count[order] > 0)
        for prefix, stats in phases.items()
        for name, values in spread(stats, prefix, order, extra=extra).items()
        if isinstance(values, Numbers)
    }


def _ascending(names: Texts) -> I64:
    """Return the rank of each distinct text in ascending order."""
    order = sorted(range(len(names.values)), key=names.values.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
