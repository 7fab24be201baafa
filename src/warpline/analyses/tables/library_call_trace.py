"""library_call_trace: every call of a library, in order."""

from __future__ import annotations

from warpline.derived.library_calls.launched import launched_kernels
from warpline.derived.texts import dimension_texts, labelled, number_texts
from warpline.ops.arrays import Integers
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import ColumnData, Trace
from warpline.units import Unit

NAME = "library_call_trace"
TITLE = "Library call trace"
FIELDS = (
    Field("start_ns", Unit.NS, "Start of the call, relative to the trace's origin.", "Start (ns)"),
    Field("duration_ns", Unit.NS, "Duration of the call.", "Duration (ns)"),
    Field("library", Unit.NONE, "Library.", "Library"),
    Field("name", Unit.NONE, "Function.", "Name"),
    Field("arguments", Unit.NONE, "Arguments, a JSON object.", "Arguments", is_optional=True),
    Field("result", Unit.NONE, "Return value.", "Result", is_optional=True),
    Field("gpu_ns", Unit.NS, "Time of the kernels launched in the call.", "GPU Time (ns)"),
    Field("kernels", Unit.COUNT, "Kernels launched in the call.", "Kernels"),
    Field("pid", Unit.ID, "Process id.", "Pid"),
    Field("tid", Unit.ID, "Thread id.", "Tid"),
    Field("thread_name", Unit.NONE, "Thread name.", "Thread Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("library_call",),
    missing_hint="profile with --trace=cuda,cublas, or another library: cudnn, nccl, mpi, openmp",
)
def library_call_trace(trace: Trace, arguments: Arguments) -> Result:
    """Every call of a library, by start time.

    What it measures: Start, duration, arguments, result and thread of each call, and the kernels
        launched in it.
    Why it matters: The trace shows what a summary hides: the order of calls, the shape of a slow
        GEMM, a call that failed.
    How it is computed: One row per recorded call, by start, then end and thread. Kernels belong
        to the innermost call, as in library_call_sum.
    Limits: Arguments of GEMMs need `--trace=cublas-verbose`; other functions have none. The result
        is the number that the function returned: 0 is success in NVIDIA's libraries and in MPI.
    Source: Warpline; nsys has no table of library calls.
    """
    columns = trace.columns(
        "library_call",
        *("start_ns", "end_ns", "library_id", "name_id", "arguments_id", "return_value"),
        *("process_id", "thread_id"),
    )
    thread = columns["thread_id"].values
    threads = trace.columns("thread", "tid", "name_id")
    pids = trace.columns("process", "pid")["pid"].values
    result, launched = columns["return_value"], launched_kernels(trace)
    values: dict[str, Values] = {
        "start_ns": Numbers(columns["start_ns"].values),
        "duration_ns": Numbers(columns["end_ns"].values - columns["start_ns"].values),
        "library": _texts(trace, columns["library_id"]),
        "name": _texts(trace, columns["name_id"]),
        "arguments": _texts(trace, columns["arguments_id"]),
        "result": Numbers(result.values, result.valid),
        "gpu_ns": Numbers(launched.gpu_ns),
        "kernels": Numbers(launched.kernels),
        "pid": Numbers(pids[columns["process_id"].values]),
        "tid": Numbers(threads["tid"].values[thread]),
        "thread_name": dimension_texts(trace.strings, threads["name_id"], thread),
    }
    return Result(NAME, TITLE, FIELDS, values, ("start_ns", "tid", "name"))


def _texts(trace: Trace, column: ColumnData) -> Texts:
    present = column.is_valid()
    ids: Integers = column.filled(0)
    if not len(trace.strings):
        return Texts(ids - 1, ())
    codes, distinct = number_texts(ids, len(trace.strings))
    return labelled(codes, trace.strings.texts(distinct.tolist()), present)
