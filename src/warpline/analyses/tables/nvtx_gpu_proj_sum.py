"""nvtx_gpu_proj_sum: NVTX ranges projected onto the GPU, by name."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.projected_names import projected_names
from warpline.derived.summaries.summary import spread, spread_fields
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.ops.arrays import F64, I64
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_gpu_proj_sum"
TITLE = "NVTX GPU projection summary"
FIELDS = (
    Field("name", Unit.NONE, "Range name, prefixed with its domain, if any.", "Range"),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("projected_total_ns", Unit.NS, "Sum of projected durations.", "Total Proj Time (ns)"),
    Field("range_total_ns", Unit.NS, "Sum of durations on the CPU.", "Total Range Time (ns)"),
    Field("instances", Unit.COUNT, "Ranges that launch GPU work.", "Range Instances"),
    *spread_fields("projected_", "Proj ", "projected duration"),
    Field("launches", Unit.COUNT, "CUDA API calls that launch GPU work.", "Total GPU Ops"),
    Field(
        "launches_mean", Unit.NONE, "Mean number of such calls per range.", "Avg GPU Ops", digits=1
    ),
    Field("depth_mean", Unit.NONE, "Mean number of enclosing ranges.", "Avg Range Lvl", digits=1),
    Field(
        "children_mean",
        Unit.NONE,
        "Mean number of direct child ranges that launch GPU work.",
        "Avg Num Child",
        digits=1,
    ),
    *spread_fields("projected_", "Proj ", "projected duration", extra=True),
    Field("operations", Unit.COUNT, "Kernels, copies and memsets.", "Operations"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    missing_hint="profile with --trace=cuda,nvtx",
)
def nvtx_gpu_proj_sum(trace: Trace, arguments: Arguments) -> Result:
    """NVTX ranges projected onto the GPU, by name.

    What it measures: For each range name, the time from the start of the first GPU operation
        launched in a range to the end of the last.
    Why it matters: The projection shows how long a phase of the program takes on the GPU. The CPU
        may run far ahead.
    How it is computed: The rows of nvtx_gpu_proj_trace, grouped by name and style. As in nsys,
        Total GPU Ops counts launch calls: a CUDA graph launch counts as one.
    Limits: Same as nvtx_gpu_proj_trace: projected times include gaps and other ranges' work. A
        range's time is also part of its enclosing ranges, so do not add totals.
    Source: Rows, columns and order of `nsys stats -r nvtx_gpu_proj_sum`; P95, P99 and Operations
        are added by Warpline.
    """
    found = projected_names(trace)
    stats = found.stats
    order = np.argsort(-stats.sum, kind="stable")

    def mean(total: I64) -> F64:
        return total[order] / stats.count[order]

    values: dict[str, Values] = {
        "name": labelled(found.name[order], found.names),
        "style": Texts(found.style[order].astype(np.int32), ["PushPop", "StartEnd"]),
        "projected_total_ns": Numbers(stats.sum[order]),
        "range_total_ns": Numbers(found.range_ns[order]),
        "instances": Numbers(stats.count[order]),
        **spread(stats, "projected_", order),
        "launches": Numbers(found.launches[order]),
        "launches_mean": Numbers(mean(found.launches)),
        "depth_mean": Numbers(mean(found.depth)),
        "children_mean": Numbers(mean(found.children)),
        **spread(stats, "projected_", order, extra=True),
        "operations": Numbers(found.operations[order]),
    }
    return Result(NAME, TITLE, FIELDS, values, ("name", "style"), graph_notes(trace))
