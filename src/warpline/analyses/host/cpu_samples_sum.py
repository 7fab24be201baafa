"""cpu_samples_sum: time on the CPU by function, from samples."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.function_times import function_times
from warpline.derived.host.sample_notes import cpu_sample_notes
from warpline.derived.host.sample_rows import (
    LINES,
    PLACE_FIELDS,
    PYTHON_ONLY,
    THREAD_FIELDS,
    THREADS,
    longest_first,
    place_columns,
    shares,
    thread_columns,
)
from warpline.derived.host.samples import CPU_SAMPLES, weights
from warpline.ops.arrays import repeated
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cpu_samples_sum"
TITLE = "CPU samples by function"
FIELDS = (
    Field("self_ratio", Unit.RATIO, "Share of all samples' time.", "Self (%)", 100.0, 1),
    Field("total_ratio", Unit.RATIO, "The same with all it called.", "Total (%)", 100.0, 1),
    Field("self_ns", Unit.NS, "CPU time of the function itself.", "Self (ns)"),
    Field("total_ns", Unit.NS, "CPU time with all that it called.", "Total (ns)"),
    Field("self_samples", Unit.COUNT, "Samples in the function itself.", "Self Samples"),
    Field("total_samples", Unit.COUNT, "Samples with it anywhere in the stack.", "Total Samples"),
    *PLACE_FIELDS,
)
_TIME, _COUNT = "time", "count"
_NO_PYTHON = (
    "the samples have no Python frames; python_samples_sum has the time of Python functions"
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=(CPU_SAMPLES,),
    arguments={
        LINES: "One row per line.",
        THREADS: "One row per function and thread.",
        PYTHON_ONLY: "Python functions only: native code counts for the function that called it.",
    },
    missing_hint="profile with --sample=process-tree",
)
def cpu_samples_sum(trace: Trace, arguments: Arguments) -> Result:
    """CPU time by function, from samples of threads on a CPU.

    What it measures: How much CPU time each function took by itself, and with all that it called.
    Why it matters: A CPU that is too slow to launch work leaves the GPU idle. The functions at the
        top are where its time goes.
    How it is computed: A sample counts for the innermost function of its stack (self), and once
        for each function in it (total), also with recursion. It stands for the sampling period.
        In exports of nsys, samples share the time on the CPU by context switches; without these,
        each stands for the median time between samples of a thread.
    Limits: Threads that wait are not sampled: see offcpu_sum. Times of several threads add up.
        Inlined functions count for the function that they are in, with their own file and line.
        With few samples, small shares are uncertain: of n samples, by about their square root.
        Functions without a name are one row per library.
    Source: Warpline; perf report --children has the same two sums.
    """
    time = weights(trace, CPU_SAMPLES)
    times = function_times(
        trace,
        CPU_SAMPLES,
        ((_TIME, time), (_COUNT, repeated(np.ones(1, np.int64), len(time)))),
        by_line=LINES in arguments,
        by_thread=THREADS in arguments,
        python_only=PYTHON_ONLY in arguments,
    )
    spent, counted, whole = times.sums[_TIME], times.sums[_COUNT], times.whole[_TIME]
    order = longest_first(trace, times, spent)
    values: dict[str, Values] = {
        "self_ratio": shares(spent.own[order], whole),
        "total_ratio": shares(spent.total[order], whole),
        "self_ns": Numbers(spent.own[order]),
        "total_ns": Numbers(spent.total[order]),
        "self_samples": Numbers(counted.own[order]),
        "total_samples": Numbers(counted.total[order]),
        **place_columns(trace, times, order),
    }
    fields: tuple[Field, ...] = FIELDS
    key = ["function", "module"]
    if LINES in arguments:
        key += ["file", "line"]
    if THREADS in arguments:
        values |= thread_columns(trace, times.thread[order])
        fields, key = (*FIELDS, *THREAD_FIELDS), [*key, "thread_name", "pid", "tid"]
    notes = cpu_sample_notes(trace)
    if PYTHON_ONLY in arguments and not len(order):
        notes += (_NO_PYTHON,)
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, fields, values, tuple(key), notes)
