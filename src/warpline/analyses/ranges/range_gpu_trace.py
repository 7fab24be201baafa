"""range_gpu_trace: the GPU work of every range."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranges.autograd import AUTOGRAD_ARGUMENT, backward_work
from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.ranges.work import has_work, range_work, work_notes
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.schema.labels import RANGE_STYLES
from warpline.trace import Trace
from warpline.units import Unit

NAME = "range_gpu_trace"
TITLE = "GPU work of each range"
FIELDS = (
    Field("start_ns", Unit.NS, "Start on the CPU.", "Start (ns)"),
    Field("host_ns", Unit.NS, "Duration on the CPU.", "CPU (ns)"),
    Field("first_start_ns", Unit.NS, "Start of its first GPU operation.", "GPU Start (ns)"),
    Field("last_end_ns", Unit.NS, "End of its last GPU operation.", "GPU End (ns)"),
    Field("device_busy_ns", Unit.NS, "GPU busy time of the range's work.", "GPU Busy (ns)"),
    Field("device_span_ns", Unit.NS, "First start to last end.", "GPU Span (ns)"),
    Field("device_idle_ns", Unit.NS, "Span minus busy time.", "GPU Idle (ns)"),
    Field("operations", Unit.COUNT, "Kernels, copies, memsets and CUDA graphs.", "GPU Ops"),
    Field("launches", Unit.COUNT, "CUDA API calls that launch them.", "Launches"),
    Field("self_busy_ns", Unit.NS, "Busy time of work outside nested ranges.", "Self Busy (ns)"),
    Field("self_operations", Unit.COUNT, "Operations outside nested ranges.", "Self Ops"),
    Field("depth", Unit.NONE, "Number of enclosing ranges.", "Lvl"),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("tid", Unit.ID, "Id of the thread that opened the range.", "TID"),
    Field("range_id", Unit.ID, "Id of the range in the recording.", "RangeId"),
    Field("parent_id", Unit.ID, "Id of the directly enclosing range.", "ParentId"),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("name", Unit.NONE, "Range name, prefixed with its domain and a colon.", "Name"),
)

AUTOGRAD_FIELDS = (
    Field("backward_busy_ns", Unit.NS, "Busy time of the backward work.", "Backward Busy (ns)"),
    Field("backward_operations", Unit.COUNT, "Operations of the backward work.", "Backward Ops"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=AUTOGRAD_ARGUMENT,
    missing_hint="add NVTX ranges to the program and profile with --trace=cuda,nvtx",
)
def range_gpu_trace(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU work of every range, by start time.

    What it measures: For each range, its duration on the CPU, start and end of the GPU work
        launched in it, and the GPU's busy and idle time in between.
    Why it matters: The CPU runs ahead of the GPU, so a range's CPU time does not show its GPU
        time. If the GPU is idle inside a range, it waits for the CPU.
    How it is computed: An operation belongs to every range that is open when its launch call
        starts: push/pop ranges of the launching thread, and start/end ranges of the process,
        on whichever thread they end. Kernels of a CUDA graph belong to the range that launches
        the graph. A graph traced at graph level counts as one operation. Busy is the union of the
        operations, and span the time from first start to last end, each per GPU and added over
        GPUs. Busy plus idle is span. Self excludes work launched in ranges opened later on the
        same thread. Start/end ranges do not nest and have no self columns. With
        range_gpu_trace:autograd, backward work is the work that a function of PyTorch's backward
        pass launches on its own thread. It belongs to the operator with the same sequence number,
        and to all push/pop ranges around that.
    Limits: Idle time of one range may contain work of another. Work launched by another thread
        belongs to that thread's ranges. Filters do not shorten times, but the work that they
        remove is missing.
    Source: Warpline. With one GPU, first start to last end is nsys's projected time, for
        push/pop ranges.
    """
    if not has_work(trace):
        return Skipped(NAME, "no GPU work was launched", "profile with --trace=cuda,nvtx")
    columns = trace.columns(
        "range", "start_ns", "end_ns", "process_id", "thread_id", "style", "source_id"
    )
    start, ids = columns["start_ns"].values, columns["source_id"].values
    nests = push_pop_ranges(trace)
    nesting, work, names = range_nesting(trace), range_work(trace), range_names(trace)
    took, worked = work.took, work.operations > 0
    pids = trace.columns("process", "pid")["pid"].values
    tids = trace.columns("thread", "tid")["tid"].values
    values: dict[str, Values] = {
        "start_ns": Numbers(start),
        "host_ns": Numbers(columns["end_ns"].values - start),
        "first_start_ns": Numbers(took.first_start_ns, worked),
        "last_end_ns": Numbers(took.last_end_ns, worked),
        "device_busy_ns": Numbers(took.busy_ns),
        "device_span_ns": Numbers(took.span_ns),
        "device_idle_ns": Numbers(took.span_ns - took.busy_ns),
        "operations": Numbers(work.operations),
        "launches": Numbers(work.launches),
        "self_busy_ns": Numbers(work.self_busy_ns, nests),
        "self_operations": Numbers(work.self_operations, nests),
        "depth": Numbers(nesting.depth.astype(np.int64), nests),
        "pid": Numbers(pids[columns["process_id"].values]),
        "tid": Numbers(tids[columns["thread_id"].values]),
        "range_id": Numbers(ids),
        "parent_id": Numbers(ids[nesting.parent], nesting.has_parent),
        "style": labelled(
            columns["style"].values, [RANGE_STYLES[style] for style in sorted(RANGE_STYLES)]
        ),
        "name": labelled(names.codes, names.texts),
    }
    fields: tuple[Field, ...] = FIELDS
    notes = work_notes(trace)
    if "autograd" in arguments:
        backward = backward_work(trace)
        fields, notes = (*FIELDS, *AUTOGRAD_FIELDS), (*notes, *backward.notes)
        values["backward_busy_ns"] = Numbers(backward.busy_ns)
        values["backward_operations"] = Numbers(backward.operations)
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, fields, values, ("start_ns", "tid", "range_id"), notes)
