"""osrt_trace: every OS runtime call, in order."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.lines import NO_FRAME, leaf_places, place_texts
from warpline.derived.texts import dimension_texts, number_texts
from warpline.ops.group import distinct_values
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "osrt_trace"
TITLE = "OS runtime trace"
FIELDS = (
    Field("start_ns", Unit.NS, "Start of the call, relative to the trace's origin.", "Start (ns)"),
    Field("duration_ns", Unit.NS, "Duration of the call.", "Duration (ns)"),
    Field("name", Unit.NONE, "Function.", "Name"),
    Field("result", Unit.NONE, "Return value.", "Result"),
    Field("pid", Unit.ID, "Process id.", "Pid"),
    Field("tid", Unit.ID, "Thread id.", "Tid"),
    Field("thread_priority", Unit.NONE, "Scheduling priority of the thread.", "T-Pri"),
    Field("thread_name", Unit.NONE, "Thread name.", "Thread Name"),
    Field("nesting_level", Unit.COUNT, "Number of enclosing calls.", "Level", is_optional=True),
    Field("line", Unit.NONE, "Line of the program that made the call.", "Line", is_optional=True),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("os_call",),
    aliases=("osrttrace",),
    missing_hint="profile with --trace=osrt",
)
def osrt_trace(trace: Trace, arguments: Arguments) -> Result:
    """Every recorded call of the C library's blocking or slow functions, by start time.

    What it measures: Start, duration, return value, thread and line of each call.
    Why it matters: The trace shows which call delayed a step, where a summary shows how many there
        were.
    How it is computed: One row per recorded call, by start, then end, thread and name. The line is
        that of the innermost function of the program's own Python code in the backtrace, else of
        Python, else the innermost native function with a name.
    Limits: Short calls are not recorded (--osrt-threshold). Backtraces are recorded of long calls
        only.
    Source: Columns as in `nsys stats -r cuda_api_trace`; nsys has no such table of OS calls.
    """
    columns = trace.columns(
        "os_call",
        *("start_ns", "end_ns", "name_id", "return_value"),
        *("process_id", "thread_id", "nesting_level", "stack_id"),
    )
    start, thread = columns["start_ns"].values, columns["thread_id"].values
    threads = trace.columns("thread", "tid", "priority", "name_id")
    pids = trace.columns("process", "pid")["pid"].values
    priority = threads["priority"].take(thread.astype(np.int64))
    codes, distinct = number_texts(columns["name_id"].values, len(trace.strings))
    level = columns["nesting_level"]
    frame = leaf_places(trace, columns["stack_id"].filled(-1)).frame
    frames = distinct_values(frame)
    place = np.where(frame == NO_FRAME, -1, np.searchsorted(frames, frame))
    values: dict[str, Values] = {
        "start_ns": Numbers(start),
        "duration_ns": Numbers(columns["end_ns"].values - start),
        "name": Texts(codes, trace.strings.texts(distinct.tolist())),
        "result": Numbers(columns["return_value"].values),
        "pid": Numbers(pids[columns["process_id"].values]),
        "tid": Numbers(threads["tid"].values[thread]),
        "thread_priority": Numbers(priority.values, priority.valid),
        "thread_name": dimension_texts(trace.strings, threads["name_id"], thread),
        "nesting_level": Numbers(level.values, level.valid),
        "line": Texts(place.astype(np.int32), place_texts(trace, frames)),
    }
    return Result(NAME, TITLE, FIELDS, values, ("start_ns", "tid", "name"))
