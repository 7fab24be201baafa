"""steps: duration of each step on GPU and CPU, and which steps are analyzed."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import partition
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import NO_STEP, Steps, step_of_operations
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64, Integers
from warpline.ops.group import factorize_rows
from warpline.result import (
    Arguments,
    Field,
    Numbers,
    Result,
    Skipped,
    Texts,
    Values,
    analysis,
)
from warpline.trace import Trace
from warpline.units import Unit, format_ns, format_ratio, plural

NAME = "steps"
TITLE = "Steps"
FIELDS = (
    Field("device_ns", Unit.NS, "Period on the slowest GPU.", "GPU Time (ns)"),
    Field("host_ns", Unit.NS, "Time to the next step's start on the CPU.", "CPU Time (ns)"),
    Field("busy_ratio", Unit.RATIO, "Busy share of the GPU period.", "Busy (%)", 100.0, 1),
    Field("busy_ns", Unit.NS, "Busy time of the GPU.", "Busy (ns)", is_detail=True),
    Field("launches", Unit.COUNT, "Calls that launched GPU work.", "Launches"),
    Field("kernels", Unit.COUNT, "Kernels launched.", "Kernels"),
    Field("gpu_index", Unit.ID, "The slowest GPU.", "GPU"),
    Field("start_ns", Unit.NS, "Start time on the CPU.", "Start (ns)", is_detail=True),
    Field("range_ns", Unit.NS, "Duration of the range.", "Open (ns)", is_detail=True),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("index", Unit.NONE, "Number of the step.", "No.", is_detail=True),
    Field("state", Unit.NONE, "yes, or the reason for exclusion.", "Analyzed"),
    Field("step", Unit.NONE, "Name of the step.", "Step"),
)
_COUNTED = "yes"
_KERNEL = DEVICE_TABLES.index("kernel")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=(*DEVICE_TABLES, "range"),
    arguments=STEP_ARGUMENT,
    missing_hint="profile a program with step ranges, using --trace=cuda,nvtx",
)
def steps(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Duration of each step on GPU and CPU, and which steps are analyzed.

    What it measures: For each step: its time on the slowest GPU that it used, its CPU time, the
        busy time of that GPU, and the number of launches.
    Why it matters: Optimizations aim to reduce the step time. The median of the included steps
        measures it. Warm-up, outliers and truncated steps would distort it.
    How it is computed: Steps are ranges with names such as step_7, iteration 7, ProfilerStep#7 or
        train_step: the outermost ones that launch most of the GPU work. Without such ranges, steps
        are repetitions in the sequence of launches, unless these are parts of one pass: a call of
        an outermost nn.Module holds several, one range named like a step holds all of them and
        other work, or short ones follow work that occurs once. GPU time lasts from the start of the
        first operation launched in the step, by any thread, to the start of the first one launched
        in the next step. If the streams of a GPU differ in pace, the slowest counts. CPU time lasts
        from start to start. The last step has neither. Excluded are leading steps longer than 1.2
        medians plus three standard deviations (1.05 if they load code or allocate), a first step
        shorter than two thirds of the median minus three deviations, and later steps longer than
        1.5 medians plus three deviations, unless they are more than a tenth. The deviation is the
        scaled median absolute deviation. Jitter is (p95 - p5) / median.
    Limits: Percentiles of few steps are close to the longest one. Repetitions of launches may be
        layers instead of steps. Work launched outside steps counts in the period of the preceding
        step. Without recorded calls, work belongs to the step during which it ran.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    run_steps = find_steps(run)
    if not len(run_steps):
        reason = next(iter(run_steps.notes), "no steps found")
        return Skipped(NAME, reason, "mark each step with a range")
    busy, device = _slowest(trace, run_steps)
    launches, kernels = _launched(trace, step_of_operations(run), len(run_steps))
    has_period = run_steps.slowest_window >= 0
    period = run_steps.period_ns
    values: dict[str, Values] = {
        "device_ns": Numbers(period, has_period),
        "host_ns": Numbers(run_steps.host_period_ns, run_steps.has_next),
        "busy_ratio": Numbers(busy / np.maximum(period, 1), has_period),
        "busy_ns": Numbers(busy, has_period),
        "launches": Numbers(launches),
        "kernels": Numbers(kernels),
        "gpu_index": Numbers(device, has_period),
        "start_ns": Numbers(run_steps.host_start_ns),
        "range_ns": Numbers(run_steps.host_end_ns - run_steps.host_start_ns),
        "pid": Numbers(trace.columns("process", "pid")["pid"].values[run_steps.process]),
        "index": Numbers(run_steps.index),
        "state": _states(run_steps),
        "step": run_steps.label,
    }
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, values, ("pid", "index"), _notes(run_steps))


def _slowest(trace: Trace, run_steps: Steps) -> tuple[I64, Integers]:
    """Return the busy time and the index of each step's slowest device; 0 for none."""
    busy_ns, gpu_index = np.zeros(len(run_steps), np.int64), np.zeros(len(run_steps), np.int64)
    rows = np.flatnonzero(run_steps.slowest_window >= 0)
    if len(rows):
        chosen = run_steps.slowest_window[rows]
        parts = partition(trace, run_steps.windows(chosen)).ns
        busy_ns[rows] = parts[:, np.array([part.is_busy for part in TimePart])].sum(axis=1)
        devices = trace.columns("device", "gpu_index")["gpu_index"].values
        gpu_index[rows] = devices[run_steps.window_device[chosen]]
    return busy_ns, gpu_index


def _launched(trace: Trace, step: I32, n_steps: int) -> tuple[I64, I64]:
    """Return the number of launching calls and of kernels of each step."""
    work = operations(trace)
    inside = step != NO_STEP
    kernels = np.bincount(step[inside & (work.table == _KERNEL)], minlength=n_steps)
    known = np.flatnonzero(inside & (work.call >= 0))
    calls = known[factorize_rows(work.call[known]).first]
    return np.bincount(step[calls], minlength=n_steps), kernels


def _states(run_steps: Steps) -> Texts:
    states = [_COUNTED, *dict.fromkeys(reason for _, reason in run_steps.excluded)]
    codes = np.zeros(len(run_steps), np.int32)
    for step, reason in run_steps.excluded:
        codes[step] = states.index(reason)
    return Texts(codes, states)


def _notes(run_steps: Steps) -> tuple[str, ...]:
    times = run_steps.times()
    counted = plural(times.count, "step is", "steps are")
    of_each = " of each process" if run_steps.loop[-1] > 0 else ""
    source = f"from {run_steps.source}"
    if run_steps.is_inferred:
        source = "inferred from repeating launches"
    text = f"{counted} analyzed{of_each}, {source}"
    if times.median_ns is not None and times.p95_ns is not None:
        text += f": median {format_ns(times.median_ns)}, p95 {format_ns(times.p95_ns)}"
        if times.jitter_ratio is not None:
            text += f", jitter {format_ratio(times.jitter_ratio)}"
        text += " on the slowest GPU"
    if times.host_median_ns is not None:
        text += f"; CPU median {format_ns(times.host_median_ns)}"
    return (text, *run_steps.notes)
