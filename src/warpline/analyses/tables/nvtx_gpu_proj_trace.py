"""nvtx_gpu_proj_trace: every NVTX range projected onto the GPU."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.projection import projected_ranges
from warpline.derived.ranges.stack_texts import id_stacks
from warpline.derived.ranges.threads import thread_range_nesting
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.ops.arrays import I64, taken
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_gpu_proj_trace"
TITLE = "NVTX GPU projection trace"
FIELDS = (
    Field("name", Unit.NONE, "Range name, prefixed with its domain, if any.", "Name"),
    Field("start_ns", Unit.NS, "Start of its first GPU operation.", "Projected Start (ns)"),
    Field(
        "projected_ns",
        Unit.NS,
        "From the start of its first to the end of its last GPU operation.",
        "Projected Duration (ns)",
    ),
    Field("start_range_ns", Unit.NS, "Start on the CPU.", "Orig Start (ns)"),
    Field("range_ns", Unit.NS, "Duration on the CPU.", "Orig Duration (ns)"),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("tid", Unit.ID, "Thread id.", "TID"),
    Field("launches", Unit.COUNT, "CUDA API calls that launch GPU work.", "NumGPUOps"),
    Field("depth", Unit.COUNT, "Number of enclosing ranges.", "Lvl"),
    Field("children", Unit.COUNT, "Direct child ranges that launch GPU work.", "NumChild"),
    Field("range_id", Unit.ID, "Id of the range in the file.", "RangeId"),
    Field("parent_id", Unit.ID, "Id of the directly enclosing range.", "ParentId"),
    Field("stack", Unit.NONE, "Range ids from the outermost range to this one.", "RangeStack"),
    Field("operations", Unit.COUNT, "Kernels, copies and memsets.", "Operations"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxgpuproj",),
    missing_hint="profile with --trace=cuda,nvtx",
)
def nvtx_gpu_proj_trace(trace: Trace, arguments: Arguments) -> Result:
    """Every NVTX range that launches GPU work, projected onto the GPU.

    What it measures: For each range, the time from the start of the first GPU operation launched
        in it to the end of the last.
    Why it matters: Launches are asynchronous, so a range's CPU time does not show its GPU time.
        The projection shows when its GPU work runs.
    How it is computed: An operation belongs to every range, of either style, that contains its
        whole launch call on the same thread. As in nsys, NumGPUOps counts these calls: a CUDA
        graph launch counts as one, however many kernels it has. Rows are by range start.
    Limits: The projected time includes gaps and other ranges' work, so it is not the GPU's busy
        time. Work launched by another thread, such as a backward pass, belongs to that thread's
        ranges only. Ranges that end on another thread, and kernels inside CUDA graphs traced at
        graph level, are not included.
    Source: Rows, columns and order of `nsys stats -r nvtx_gpu_proj_trace`; Operations is added by
        Warpline.
    """
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id", "source_id")
    projected = projected_ranges(trace)
    in_order = _by_start(
        columns["start_ns"].values[projected.row], columns["source_id"].values[projected.row]
    )
    rows = projected.row[in_order]
    names, nesting = range_names(trace), thread_range_nesting(trace, push_pop_only=False)
    every = isinstance(in_order, slice) and len(rows) == len(names.codes)
    listed = slice(None) if every else rows  # mostly all: then no column is copied
    start, end, thread, ids = (columns[name].values[listed] for name in columns)
    threads = trace.columns("thread", "tid", "process_id")
    pids = trace.columns("process", "pid")["pid"].values[threads["process_id"].values]
    every_id = columns["source_id"].values
    styles = (~push_pop_ranges(trace)[listed]).astype(np.int32)
    projected_start = projected.start_ns[in_order]
    values: dict[str, Values] = {
        "name": labelled(names.codes[listed], names.texts),
        "start_ns": Numbers(projected_start),
        "projected_ns": Numbers(projected.end_ns[in_order] - projected_start),
        "start_range_ns": Numbers(start),
        "range_ns": Numbers(end - start),
        "style": Texts(styles, ["PushPop", "StartEnd"]),
        "pid": Numbers(taken(pids, thread)),
        "tid": Numbers(taken(threads["tid"].values, thread)),
        "launches": Numbers(projected.launches[in_order]),
        "depth": Numbers(projected.depth[in_order]),
        "children": Numbers(projected.children[in_order]),
        "range_id": Numbers(ids),
        "parent_id": Numbers(every_id[nesting.parent[listed]], nesting.has_parent[listed]),
        "stack": id_stacks(every_id, nesting, rows),
        "operations": Numbers(projected.operations[in_order]),
    }
    key = ("start_range_ns", "tid", "range_id")
    return Result(NAME, TITLE, FIELDS, values, key, graph_notes(trace))


def _by_start(start_ns: I64, ids: I64) -> I64 | slice:
    """Return the order by start and id, which most recordings have."""
    later, tied = start_ns[1:] > start_ns[:-1], start_ns[1:] == start_ns[:-1]
    if bool((later | (tied & (ids[1:] > ids[:-1]))).all()):
        return slice(None)
    return np.lexsort((ids, start_ns))
