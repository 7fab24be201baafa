"""python_samples_sum: time by Python function, running and blocked, from samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived.host.function_times import function_times
from warpline.derived.host.sample_notes import python_sample_notes
from warpline.derived.host.sample_rows import (
    LINES,
    PLACE_FIELDS,
    THREAD_FIELDS,
    THREADS,
    longest_first,
    place_columns,
    shares,
    thread_columns,
)
from warpline.derived.host.samples import PYTHON_SAMPLES, weights
from warpline.ops.arrays import I64, Integers, repeated
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "python_samples_sum"
TITLE = "Python samples by function"
FIELDS = (
    Field("self_ratio", Unit.RATIO, "Share of all samples' time.", "Self (%)", 100.0, 1),
    Field("total_ratio", Unit.RATIO, "The same with all it called.", "Total (%)", 100.0, 1),
    Field("self_ns", Unit.NS, "Time in the function and in native code below.", "Self (ns)"),
    Field("total_ns", Unit.NS, "Time with all that it called.", "Total (ns)"),
    Field(
        "running_ns", Unit.NS, "The part of the total on a CPU.", "Running (ns)", is_optional=True
    ),
    Field(
        "blocked_ns",
        Unit.NS,
        "The part of the total off the CPU.",
        "Blocked (ns)",
        is_optional=True,
    ),
    Field(
        "gil_ns", Unit.NS, "The part of the total with the GIL.", "GIL Held (ns)", is_optional=True
    ),
    Field("total_samples", Unit.COUNT, "Rows of samples with it in the stack.", "Total Samples"),
    *PLACE_FIELDS,
)
_TIME, _COUNT = "time", "count"
_PARTS = {  # column of the table -> its flag, and the value that counts
    "running_ns": ("is_running", True),
    "blocked_ns": ("is_running", False),
    "gil_ns": ("has_gil", True),
}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=(PYTHON_SAMPLES,),
    arguments={LINES: "One row per line.", THREADS: "One row per function and thread."},
    missing_hint="profile with --python-sampling=true",
)
def python_samples_sum(trace: Trace, arguments: Arguments) -> Result:
    """Time by Python function, whether it ran or waited, from samples of all Python threads.

    What it measures: How long each Python function took by itself, and with all that it called:
        on the CPU, off it, and with the GIL.
    Why it matters: A function that waits, as for a file, a queue or the GIL, delays launches as
        much as one that computes, but needs another fix.
    How it is computed: A sample counts for the innermost Python function of its stack (self), and
        once for each function in it (total), also with recursion, for the time to the next sample.
        Running, blocked and GIL are parts of the total by the state at the time of the sample.
    Limits: Threads that always wait, such as those of idle pools, are at the top: see :threads.
        Times of threads add up. A sample of nsys stands for the time to the next one, and has no
        state of the GIL.
    Source: Warpline.
    """
    times = function_times(
        trace,
        PYTHON_SAMPLES,
        _values(trace),
        by_line=LINES in arguments,
        by_thread=THREADS in arguments,
    )
    spent, whole = times.sums[_TIME], times.whole[_TIME]
    order = longest_first(trace, times, spent)
    missing = Numbers(np.zeros(len(order), np.int64), np.zeros(len(order), np.bool_))
    columns: dict[str, Values] = {
        "self_ratio": shares(spent.own[order], whole),
        "total_ratio": shares(spent.total[order], whole),
        "self_ns": Numbers(spent.own[order]),
        "total_ns": Numbers(spent.total[order]),
        **{
            name: Numbers(times.sums[name].total[order]) if name in times.sums else missing
            for name in _PARTS
        },
        "total_samples": Numbers(times.sums[_COUNT].total[order]),
        **place_columns(trace, times, order),
    }
    fields: tuple[Field, ...] = FIELDS
    key = ["function", "module"]
    if LINES in arguments:
        key += ["file", "line"]
    if THREADS in arguments:
        columns |= thread_columns(trace, times.thread[order])
        fields, key = (*FIELDS, *THREAD_FIELDS), [*key, "thread_name", "pid", "tid"]
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, fields, columns, tuple(key), python_sample_notes(trace))


def _values(trace: Trace) -> Iterator[tuple[str, Integers]]:
    """Yield the time of samples, its parts that are known, and a count of 1."""
    yield _TIME, weights(trace, PYTHON_SAMPLES)
    for name in _PARTS:
        if _is_known(trace, name):
            yield name, _part(trace, name)
    yield _COUNT, repeated(np.ones(1, np.int64), trace.row_count(PYTHON_SAMPLES))


def _is_known(trace: Trace, name: str) -> bool:
    """Return whether any sample has the state."""
    column, _ = _PARTS[name]
    valid = trace.columns(PYTHON_SAMPLES, column)[column].valid
    return valid is None or bool(valid.any())


def _part(trace: Trace, name: str) -> I64:
    """Return the time of samples in a state, 0 for others."""
    column, wanted = _PARTS[name]
    flag = trace.columns(PYTHON_SAMPLES, column)[column]
    is_wanted = (flag.values != 0) == wanted
    if flag.valid is not None:
        is_wanted &= flag.valid
    time: I64 = weights(trace, PYTHON_SAMPLES) * is_wanted
    return time
