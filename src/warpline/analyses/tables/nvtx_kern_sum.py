"""nvtx_kern_sum: kernel time by the range that launched the kernels."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.kernel_names import KERNEL_NAME_ARGUMENTS, kernel_name_column
from warpline.derived.summaries.range_kernels import range_kernels
from warpline.derived.summaries.summary import spread, spread_fields
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_kern_sum"
TITLE = "NVTX range kernel summary"
FIELDS = (
    Field(
        "range",
        Unit.NONE,
        "Range name, prefixed with its domain; empty outside all ranges.",
        "NVTX Range",
    ),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("pid", Unit.ID, "Id of the launching process.", "PID"),
    Field("tid", Unit.ID, "Id of the launching thread.", "TID"),
    Field("ranges", Unit.COUNT, "Ranges that launch at least one of the kernels.", "NVTX Inst"),
    Field("instances", Unit.COUNT, "Number of kernels.", "Kern Inst"),
    Field("total_ns", Unit.NS, "Sum of the kernel durations.", "Total Time (ns)"),
    *spread_fields("", ""),
    Field("name", Unit.NONE, "Kernel name.", "Kernel Name"),
    *spread_fields("", "", extra=True),
)
_HINT = "profile with --trace=cuda,nvtx, and add --cuda-graph-trace=node for CUDA graphs"


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxkernsum",),
    arguments=KERNEL_NAME_ARGUMENTS,
    missing_hint=_HINT,
)
def nvtx_kern_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU time of kernels, by the NVTX range that launched them.

    What it measures: For each range name and thread, the kernels launched in the range, their
        number and their duration.
    Why it matters: The table leads from an expensive kernel to the code that launches it, and from
        a slow phase to its kernels.
    How it is computed: A kernel belongs to every range, of either style, that contains its whole
        launch call on the same thread. Kernels are grouped by range name, style, thread and
        kernel name. Each kernel counts once per group. Kernels outside all ranges have no range.
    Limits: A kernel counts for every range that encloses its launch, so do not add totals of
        different ranges. Work launched by another thread, such as a backward pass, belongs to
        that thread's ranges only. Kernels inside CUDA graphs traced at graph level are missing; a
        note gives their time.
    Source: Rows, columns and order of `nsys stats -r nvtx_kern_sum`; P95 and P99 are added by
        Warpline.
    """
    name = ":".join((NAME, *arguments))
    if not trace.has("kernel"):
        return Skipped(name, "no kernels were recorded", _HINT)
    kernels = range_kernels(trace, kernel_name_column(arguments))
    stats = kernels.stats
    threads = trace.columns("thread", "tid", "process_id")
    pids = trace.columns("process", "pid")["pid"].values[threads["process_id"].values]
    known = kernels.thread >= 0
    pid, tid = (
        np.append(ids, 0)[np.where(known, kernels.thread, -1)]
        for ids in (pids, threads["tid"].values)
    )
    order = np.lexsort(
        (kernels.kernel_name, kernels.style, -stats.sum, tid, pid, known, kernels.range_name)
    )
    styles = kernels.style[order].astype(np.int32)
    values: dict[str, Values] = {
        "range": labelled(
            kernels.range_name[order], kernels.range_names, kernels.range_name[order] >= 0
        ),
        "style": Texts(styles, ["PushPop", "StartEnd"]),
        "pid": Numbers(pid[order], known[order]),
        "tid": Numbers(tid[order], known[order]),
        "ranges": Numbers(kernels.ranges[order]),
        "instances": Numbers(stats.count[order]),
        "total_ns": Numbers(stats.sum[order]),
        **spread(stats, "", order),
        "name": labelled(kernels.kernel_name[order], kernels.kernel_names),
        **spread(stats, "", order, extra=True),
    }
    key = ("range", "style", "pid", "tid", "name")
    return Result(name, TITLE, FIELDS, values, key, graph_notes(trace))
