"""nvtx_gpu_proj_trace: every range as it appears on the devices."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.projection import projected_ranges
from warpline.derived.ranges.stack_texts import id_stacks
from warpline.derived.ranges.threads import thread_range_nesting
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_gpu_proj_trace"
TITLE = "NVTX GPU projection trace"
FIELDS = (
    Field("name", Unit.NONE, "Range, after its domain if it has one.", "Name"),
    Field("start_ns", Unit.NS, "When its first device operation began.", "Projected Start (ns)"),
    Field(
        "projected_ns",
        Unit.NS,
        "From then to the end of its last device operation.",
        "Projected Duration (ns)",
    ),
    Field("start_range_ns", Unit.NS, "When it began on the host.", "Orig Start (ns)"),
    Field("range_ns", Unit.NS, "How long it lasted on the host.", "Orig Duration (ns)"),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("tid", Unit.ID, "Thread.", "TID"),
    Field("launches", Unit.COUNT, "Calls that launched device work.", "NumGPUOps"),
    Field("depth", Unit.COUNT, "Number of ranges around it.", "Lvl"),
    Field("children", Unit.COUNT, "Ranges directly inside that hold operations.", "NumChild"),
    Field("range_id", Unit.ID, "Number of the range in the file.", "RangeId"),
    Field("parent_id", Unit.ID, "Number of the range directly around it.", "ParentId"),
    Field("stack", Unit.NONE, "Numbers from the outermost range to it.", "RangeStack"),
    Field("operations", Unit.COUNT, "Kernels, copies and sets of memory.", "Operations"),
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
    """Every range that launched device work, with the time from that work's start to its end.

    What it measures: When the device operations that were launched in a range ran: from the
        start of the first to the end of the last.
    Why it matters: Launches return before the device is done, so that a range's time on the
        host says little about the device. The projection shows when its work really ran.
    How it is computed: An operation belongs to every range, of either style, that contains its
        whole launch call on the same thread. NumGPUOps counts these calls, as nsys does: the
        launch of a graph is one however many kernels it has. Rows are in the order in which
        ranges began.
    Limits: The projected time also holds gaps and other ranges' work that ran in between: it is
        not the time for which the device was busy. Work that another thread launched, such as a
        backward pass, belongs to that thread's ranges only. A range that ended on another thread
        and the kernels of graphs that were recorded as wholes are left out.
    Source: Rows, columns and order of `nsys stats -r nvtx_gpu_proj_trace`; Operations is ours.
    """
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id", "source_id")
    projected = projected_ranges(trace)
    in_order = np.lexsort(
        (columns["source_id"].values[projected.row], columns["start_ns"].values[projected.row])
    )
    rows = projected.row[in_order]
    start, end, thread, ids = (columns[name].values[rows] for name in columns)
    names, nesting = range_names(trace), thread_range_nesting(trace, push_pop_only=False)
    threads = trace.columns("thread", "tid", "process_id")
    pids = trace.columns("process", "pid")["pid"].values[threads["process_id"].values]
    every_id = columns["source_id"].values
    styles = (~push_pop_ranges(trace)[rows]).astype(np.int32)
    projected_start = projected.start_ns[in_order]
    values: dict[str, Values] = {
        "name": labelled(names.codes[rows], names.texts),
        "start_ns": Numbers(projected_start),
        "projected_ns": Numbers(projected.end_ns[in_order] - projected_start),
        "start_range_ns": Numbers(start),
        "range_ns": Numbers(end - start),
        "style": Texts(styles, ["PushPop", "StartEnd"]),
        "pid": Numbers(pids[thread]),
        "tid": Numbers(threads["tid"].values[thread]),
        "launches": Numbers(projected.launches[in_order]),
        "depth": Numbers(projected.depth[in_order]),
        "children": Numbers(projected.children[in_order]),
        "range_id": Numbers(ids),
        "parent_id": Numbers(every_id[nesting.parent[rows]], nesting.has_parent[rows]),
        "stack": id_stacks(every_id, nesting, rows),
        "operations": Numbers(projected.operations[in_order]),
    }
    key = ("start_range_ns", "tid", "range_id")
    return Result(NAME, TITLE, FIELDS, values, key, graph_notes(trace))
