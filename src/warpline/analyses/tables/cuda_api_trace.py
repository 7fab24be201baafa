"""cuda_api_trace: every CUDA API call, in order."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.events import without_version
from warpline.derived.texts import dimension_texts, number_texts
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_api_trace"
TITLE = "CUDA API trace"
FIELDS = (
    Field("start_ns", Unit.NS, "Start of the call, relative to the trace's origin.", "Start (ns)"),
    Field("duration_ns", Unit.NS, "Duration of the call.", "Duration (ns)"),
    Field("name", Unit.NONE, "CUDA API function.", "Name"),
    Field("result", Unit.NONE, "Return value; 0 is success.", "Result"),
    Field(
        "correlation_id", Unit.ID, "Correlation id; links to the launched GPU operation.", "CorrID"
    ),
    Field("pid", Unit.ID, "Process id.", "Pid"),
    Field("tid", Unit.ID, "Thread id.", "Tid"),
    Field("thread_priority", Unit.NONE, "Scheduling priority of the thread.", "T-Pri"),
    Field("thread_name", Unit.NONE, "Thread name.", "Thread Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("api_call",),
    aliases=("cudaapitrace",),
    missing_hint="profile with --trace=cuda",
)
def cuda_api_trace(trace: Trace, arguments: Arguments) -> Result:
    """Every CUDA runtime and driver call, by start time.

    What it measures: Start, duration, return value and thread of each call.
    Why it matters: The trace shows what a summary hides: the order of calls, a single slow call,
        a failed call.
    How it is computed: One row per recorded call, by start, then end, thread and correlation id.
    Limits: nsys does not record every function. The failure of an unrecorded call may only show
        in the result of the next one.
    Source: Rows, columns and order of `nsys stats -r cuda_api_trace`. Calls with the same start
        may be ordered differently, and a thread with two names gives one row per call.
    """
    columns = trace.columns(
        "api_call",
        *("start_ns", "end_ns", "name_id", "return_value"),
        *("correlation_id", "process_id", "thread_id"),
    )
    start, thread = columns["start_ns"].values, columns["thread_id"].values
    threads = trace.columns("thread", "tid", "priority", "name_id")
    pids = trace.columns("process", "pid")["pid"].values
    priority = threads["priority"].take(thread.astype(np.int64))
    correlation = columns["correlation_id"]
    values: dict[str, Values] = {
        "start_ns": Numbers(start),
        "duration_ns": Numbers(columns["end_ns"].values - start),
        "name": _function_names(trace, columns["name_id"].values),
        "result": Numbers(columns["return_value"].values),
        "correlation_id": Numbers(correlation.values, correlation.valid),
        "pid": Numbers(pids[columns["process_id"].values]),
        "tid": Numbers(threads["tid"].values[thread]),
        "thread_priority": Numbers(priority.values, priority.valid),
        "thread_name": dimension_texts(trace.strings, threads["name_id"], thread),
    }
    return Result(NAME, TITLE, FIELDS, values, ("start_ns", "tid", "correlation_id"))


def _function_names(trace: Trace, ids: np.typing.NDArray[np.int32]) -> Texts:
    codes, distinct = number_texts(ids, len(trace.strings))
    return Texts(codes, [without_version(name) for name in trace.strings.texts(distinct.tolist())])
