"""nvtx_gpu_proj_sum: NVTX ranges projected onto the GPU, by name."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.projection import projected_ranges
from warpline.derived.summaries.summary import spread, spread_fields
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.ops.arrays import F64, I32, I64
from warpline.ops.group import factorize_rows, group_stats, group_sums
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
    ranges, names = projected_ranges(trace), range_names(trace)
    every = len(ranges.row) == len(names.codes)
    rows = slice(None) if every else ranges.row
    styles = (~push_pop_ranges(trace)[rows]).astype(np.int32)
    groups = factorize_rows(names.codes[rows], styles)
    projected = group_stats(groups.codes, ranges.end_ns - ranges.start_ns, groups.n_groups)
    columns = trace.columns("range", "start_ns", "end_ns")
    lasted = (columns["end_ns"].values - columns["start_ns"].values)[rows]
    order = np.argsort(-projected.sum, kind="stable")
    first = groups.first[order]

    def total(values: I64 | I32) -> I64:
        return group_sums(groups.codes, values, groups.n_groups)[order]

    def mean(values: I64 | I32) -> F64:
        return total(values) / projected.count[order]

    values: dict[str, Values] = {
        "name": labelled(names.codes[ranges.row[first]], names.texts),
        "style": Texts(styles[first], ["PushPop", "StartEnd"]),
        "projected_total_ns": Numbers(projected.sum[order]),
        "range_total_ns": Numbers(total(lasted)),
        "instances": Numbers(projected.count[order]),
        **spread(projected, "projected_", order),
        "launches": Numbers(total(ranges.launches)),
        "launches_mean": Numbers(mean(ranges.launches)),
        "depth_mean": Numbers(mean(ranges.depth)),
        "children_mean": Numbers(mean(ranges.children)),
        **spread(projected, "projected_", order, extra=True),
        "operations": Numbers(total(ranges.operations)),
    }
    return Result(NAME, TITLE, FIELDS, values, ("name", "style"), graph_notes(trace))
