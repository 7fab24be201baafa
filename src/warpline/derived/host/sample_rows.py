"""The columns that tables of sampled functions share."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.function_times import NO_LINE, NO_THREAD, FunctionTimes
from warpline.derived.host.functions import functions
from warpline.derived.texts import dimension_texts, number_texts
from warpline.ops.arrays import I64, Integers
from warpline.ops.group import distinct_values
from warpline.ops.stack_sums import FrameSums
from warpline.result import Field, Numbers, Texts, Values
from warpline.trace import Trace
from warpline.units import Unit

LINES, THREADS, PYTHON_ONLY = "lines", "threads", "python"
PLACE_FIELDS = (
    Field("function", Unit.NONE, "Function; [unresolved] without a name.", "Function"),
    Field("file", Unit.NONE, "Source file; library where that is not known.", "File"),
    Field(
        "line",
        Unit.NONE,
        "Line: with :lines that of the row, else that with the most time of the function.",
        "Line",
        is_optional=True,
    ),
    Field(
        "module",
        Unit.NONE,
        "Library or program of native code; the file of Python code.",
        "Module",
        is_detail=True,
    ),
)
THREAD_FIELDS = (
    Field("thread_name", Unit.NONE, "Name of the thread.", "Thread Name"),
    Field("pid", Unit.ID, "Process id.", "Pid"),
    Field("tid", Unit.ID, "Thread id.", "Tid"),
)


def longest_first(trace: Trace, times: FunctionTimes, of: FrameSums) -> I64:
    """Return the order of rows: most by itself, then most in total, then by their texts."""
    known = functions(trace)
    used = distinct_values(times.function)
    symbols, modules = (trace.strings.texts(ids[used]) for ids in (known.symbol, known.module))
    named = list(zip(symbols, modules, known.kind[used].tolist(), strict=True))
    rank = np.empty(len(used), np.int64)
    rank[sorted(range(len(used)), key=named.__getitem__)] = np.arange(len(used))
    by_name = rank[np.searchsorted(used, times.function)]
    places = (times.line, _ranks(trace, times.file))
    return np.lexsort((*thread_keys(trace, times.thread), *places, by_name, -of.total, -of.own))


def _ranks(trace: Trace, ids: I64) -> I64:
    """Return the place of each text among all of them in order."""
    distinct = distinct_values(ids)
    texts = trace.strings.texts(distinct.tolist())
    rank = np.empty(len(texts), np.int64)
    rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return rank[np.searchsorted(distinct, ids)]


def thread_keys(trace: Trace, thread: Integers) -> tuple[I64, I64]:
    """Return the thread id and process id of rows of the thread table, to order rows by."""
    threads = trace.columns("thread", "tid", "process_id")
    pids = trace.columns("process", "pid")["pid"].values
    row = np.maximum(thread, 0)
    if not len(threads["tid"]):
        return row, row
    tid = np.where(thread < 0, -1, threads["tid"].values[row])
    return tid, np.where(thread < 0, -1, pids[threads["process_id"].values[row]])


def place_columns(trace: Trace, times: FunctionTimes, order: I64) -> dict[str, Values]:
    """Return function, file, line and module of rows, in the given order."""
    known = functions(trace)
    function, line = times.function[order], times.line[order]

    def texts(ids: Integers) -> Texts:
        codes, distinct = number_texts(ids, len(trace.strings))
        return Texts(codes, trace.strings.texts(distinct.tolist()))

    return {
        "function": texts(known.symbol[function]),
        "file": texts(times.file[order]),
        "line": Numbers(np.maximum(line, 0), line != NO_LINE),
        "module": texts(known.module[function]),
    }


def thread_columns(trace: Trace, thread: I64) -> dict[str, Values]:
    """Return the name, process id and thread id of rows of the thread table; none for NO_THREAD."""
    threads = trace.columns("thread", "tid", "name_id", "process_id")
    pids = trace.columns("process", "pid")["pid"].values
    known = thread != NO_THREAD
    row = np.maximum(thread, 0)
    names = dimension_texts(trace.strings, threads["name_id"], row)
    return {
        "thread_name": Texts(np.where(known, names.codes, -1).astype(np.int32), names.values),
        "pid": Numbers(pids[threads["process_id"].values[row]], known),
        "tid": Numbers(threads["tid"].values[row], known),
    }


def shares(values: I64, whole: int) -> Numbers:
    """Return the share of each value in a sum; missing if that is 0."""
    return Numbers(values / float(max(whole, 1)), np.full(len(values), whole > 0))
