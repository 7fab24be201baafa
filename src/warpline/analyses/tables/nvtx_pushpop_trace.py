"""nvtx_pushpop_trace: every push/pop range, and where it stands."""

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
    Field("start_ns", Unit.NS, "When it began, from the trace's origin.", "Start (ns)"),
    Field("end_ns", Unit.NS, "When it ended.", "End (ns)"),
    Field("duration_ns", Unit.NS, "How long it lasted.", "Duration (ns)"),
    Field("children_ns", Unit.NS, "Time of the ranges directly inside.", "DurChild (ns)"),
    Field("self_ns", Unit.NS, "Its duration less that of those.", "DurNonChild (ns)"),
    Field("name", Unit.NONE, "Range, after its domain if it has one.", "Name"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("tid", Unit.ID, "Thread.", "TID"),
    Field("depth", Unit.COUNT, "Number of ranges around it.", "Lvl"),
    Field("children", Unit.COUNT, "Number of ranges directly inside.", "NumChild"),
    Field("range_id", Unit.ID, "Number of the range in the file.", "RangeId"),
    Field("parent_id", Unit.ID, "Number of the range directly around it.", "ParentId"),
    Field("stack", Unit.NONE, "Numbers from the outermost range to it.", "RangeStack"),
    Field("name_tree", Unit.NONE, "Its name, set in by its depth.", "NameTree"),
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
    """Every range that was pushed and popped on a thread, in the order in which they began.

    What it measures: When each range began and ended on the host, which ranges stand around it
        and inside it, and how much of its time none of those inside explains.
    Why it matters: It is the program's own account of what it did when: the order of phases,
        the one slow step, the time between the ranges of a phase.
    How it is computed: One row per range, by start, then end. A range's parent is the shortest
        range of its thread that contains it. DurNonChild is the duration less that of the
        ranges directly inside.
    Limits: Times are the host's: device work that was only launched in a range may run later.
        Where ranges of two domains partly overlap, those inside may last longer than the range,
        and DurNonChild is negative.
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
