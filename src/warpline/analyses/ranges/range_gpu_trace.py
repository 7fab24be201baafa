"""range_gpu_trace: the device work of every single range."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranges.autograd import AUTOGRAD_ARGUMENT, backward_work
from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.ranges.work import has_work, range_work, work_notes
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.schema.tables import RANGE_STYLES
from warpline.trace import Trace
from warpline.units import Unit

NAME = "range_gpu_trace"
TITLE = "Device work of each range"
FIELDS = (
    Field("start_ns", Unit.NS, "When the range began on the host.", "Start (ns)"),
    Field("host_ns", Unit.NS, "How long it was open.", "Host (ns)"),
    Field("first_start_ns", Unit.NS, "When its first operation began.", "Device Start (ns)"),
    Field("last_end_ns", Unit.NS, "When its last operation ended.", "Device End (ns)"),
    Field("device_busy_ns", Unit.NS, "Time in which one of them ran.", "Device Busy (ns)"),
    Field("device_span_ns", Unit.NS, "First start to last end.", "Device Span (ns)"),
    Field("device_idle_ns", Unit.NS, "Span without busy time.", "Device Idle (ns)"),
    Field("operations", Unit.COUNT, "Kernels, copies, memory sets, whole graphs.", "GPU Ops"),
    Field("launches", Unit.COUNT, "Calls that launched them.", "Launches"),
    Field("self_busy_ns", Unit.NS, "Busy time of work in no nested range.", "Self Busy (ns)"),
    Field("self_operations", Unit.COUNT, "Operations in no nested range.", "Self Ops"),
    Field("depth", Unit.NONE, "How many ranges it is nested in.", "Lvl"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("tid", Unit.ID, "Thread that opened it.", "TID"),
    Field("range_id", Unit.ID, "Number of the range in the recording.", "RangeId"),
    Field("parent_id", Unit.ID, "Number of the range it is nested in.", "ParentId"),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("name", Unit.NONE, "Range, after its domain and a colon.", "Name"),
)

AUTOGRAD_FIELDS = (
    Field("backward_busy_ns", Unit.NS, "Busy time of its backward work.", "Backward Busy (ns)"),
    Field("backward_operations", Unit.COUNT, "Operations of its backward work.", "Backward Ops"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=AUTOGRAD_ARGUMENT,
    missing_hint="profile with --trace=cuda,nvtx a program that marks ranges",
)
def range_gpu_trace(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """The device work of every range, in the order in which they began.

    What it measures: For each range, how long it was open on the host; when the device began and
        ended the work that was launched in it, and for how much of that time it was busy.
    Why it matters: The host runs ahead of the device: a range's own length says little about
        what the device did for it. A range whose device is idle inside waits for the host.
    How it is computed: An operation belongs to every range that was open when its launch call
        began: push/pop ranges of the launching thread, and start/end ranges of the process,
        wherever they end. Kernels of a graph belong where the graph was launched; a graph that
        was recorded as a whole counts as one operation. Busy is the union of the operations,
        span the time from first start to last end; both are taken per device and added over
        devices, and busy plus idle is span. Self leaves out work launched in a range that was
        opened later on the same thread; start/end ranges do not nest and have none. Backward
        work, of range_gpu_trace:autograd, is what a function of PyTorch's backward pass launched
        on its own thread: it belongs to the operator with the same sequence number, and to all
        push/pop ranges around that.
    Limits: Idle time of one range may be filled by the work of another. Work that another
        thread launches belongs to that thread's ranges. Times are whole also where a filter
        kept a part of the recording, and then the work that it left out is missing.
    Source: Warpline. With one device, first start to last end is nsys's projected time, for
        push/pop ranges.
    """
    if not has_work(trace):
        return Skipped(NAME, "no launches of device work here", "profile with --trace=cuda,nvtx")
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
