"""nvtx_pushpop_trace: every push/pop range, with its parent and nesting depth."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.stack_texts import id_stacks, indented_names
from warpline.derived.ranges.threads import thread_range_nesting
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_pushpop_trace"
TITLE = "NVTX push/pop range trace"
FIELDS = (
    Field("start_ns", Unit.NS, "Start, relative to the trace's origin.", "Start (ns)"),
    Field("end_ns", Unit.NS, "End.", "End (ns)"),
    Field("duration_ns", Unit.NS, "Duration.", "Duration (ns)"),
    Field("children_ns", Unit.NS, "Total duration of the direct child ranges.", "DurChild (ns)"),
    Field(
        "self_ns", Unit.NS, "Duration minus that of the direct child ranges.", "DurNonChild (ns)"
    ),
    Field("name", Unit.NONE, "Range name, prefixed with its domain, if any.", "Name"),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("tid", Unit.ID, "Thread id.", "TID"),
    Field("depth", Unit.COUNT, "Number of enclosing ranges.", "Lvl"),
    Field("children", Unit.COUNT, "Number of direct child ranges.", "NumChild"),
    Field("range_id", Unit.ID, "Id of the range in the file.", "RangeId"),
    Field("parent_id", Unit.ID, "Id of the directly enclosing range.", "ParentId"),
    Field("stack", Unit.NONE, "Range ids from the outermost range to this one.", "RangeStack"),
    Field("name_tree", Unit.NONE, "Range name, indented by nesting depth.", "NameTree"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxpptrace",),
    missing_hint="profile with --trace=nvtx",
)
def nvtx_pushpop_trace(trace: Trace, arguments: Arguments) -> Result:
    """Every NVTX push/pop range, by start time.

    What it measures: Start and end of each range on the CPU, its parent and children, and its
        time outside its children (self time).
    Why it matters: The trace shows the order of the program's phases, a single slow step, and the
        time between the ranges of a phase.
    How it is computed: One row per range, by start, then end. A range's parent is the shortest
        range of its thread that contains it. DurNonChild is the duration minus that of the
        direct child ranges.
    Limits: Times are CPU times: GPU work launched in a range may run later. If ranges of two
        domains overlap partially, children may last longer than their parent, and DurNonChild is
        negative.
    Source: Rows, columns and order of `nsys stats -r nvtx_pushpop_trace`.
    """
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id", "source_id")
    start, end, thread, ids = (columns[name].values for name in columns)
    nesting = thread_range_nesting(trace, push_pop_only=True)
    inside = np.flatnonzero(nesting.has_parent)
    children = np.bincount(nesting.parent[inside], minlength=len(start))
    children_ns = np.zeros_like(start)
    np.add.at(children_ns, nesting.parent[inside], (end - start)[inside])
    rows = np.flatnonzero(push_pop_ranges(trace))
    names, nested = range_names(trace), nesting.has_parent[rows]
    threads = trace.columns("thread", "tid", "process_id")
    pids = trace.columns("process", "pid")["pid"].values[threads["process_id"].values]
    duration = (end - start)[rows]
    values: dict[str, Values] = {
        "start_ns": Numbers(start[rows]),
        "end_ns": Numbers(end[rows]),
        "duration_ns": Numbers(duration),
        "children_ns": Numbers(children_ns[rows]),
        "self_ns": Numbers(duration - children_ns[rows]),
        "name": labelled(names.codes[rows], names.texts),
        "pid": Numbers(pids[thread[rows]]),
        "tid": Numbers(threads["tid"].values[thread[rows]]),
        "depth": Numbers(nesting.depth[rows]),
        "children": Numbers(children[rows]),
        "range_id": Numbers(ids[rows]),
        "parent_id": Numbers(ids[nesting.parent[rows]], nested),
        "stack": id_stacks(ids, nesting, rows),
        "name_tree": indented_names(names, nesting.depth, rows),
    }
    return Result(NAME, TITLE, FIELDS, values, ("start_ns", "tid", "range_id"))
