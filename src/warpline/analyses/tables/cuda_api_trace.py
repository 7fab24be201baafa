"""cuda_api_trace: every CUDA call, in order."""

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
    Field("start_ns", Unit.NS, "When the call began, from the trace's origin.", "Start (ns)"),
    Field("duration_ns", Unit.NS, "How long it took.", "Duration (ns)"),
    Field("name", Unit.NONE, "Function.", "Name"),
    Field("result", Unit.NONE, "Value returned; 0 is success.", "Result"),
    Field("correlation_id", Unit.ID, "Links to the device work it started.", "CorrID"),
    Field("pid", Unit.ID, "Process.", "Pid"),
    Field("tid", Unit.ID, "Thread.", "Tid"),
    Field("thread_priority", Unit.NONE, "Scheduling priority of the thread.", "T-Pri"),
    Field("thread_name", Unit.NONE, "Name of the thread.", "Thread Name"),
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
    """Every call of the CUDA runtime and driver, in the order in which they began.

    What it measures: When each call began, how long it took, what it returned, and on which
        thread it ran.
    Why it matters: It shows what a summary hides: the order of calls, the one slow call, the
        call that failed.
    How it is computed: One row per recorded call, by start, then end, thread and correlation.
    Limits: nsys does not record every function; a call that fails may appear only in the next
        one's result.
    Source: Rows, columns and order of `nsys stats -r cuda_api_trace`. Calls that began at the
        same time may come in another order, and a thread with two names gives one row per call.
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
