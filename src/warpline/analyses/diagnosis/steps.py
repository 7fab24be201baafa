"""steps: how long each step took on host and device, and which steps stand for the run."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import partition
from warpline.derived.breakdown.segments import PARTS, is_busy
from warpline.derived.steps.ranges import STEP_ARGUMENT, step_name
from warpline.derived.steps.times import NO_STEP, Steps, step_of_operations
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, Integers
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
    Field("device_ns", Unit.NS, "Its period on the slowest device.", "Device Time (ns)"),
    Field("host_ns", Unit.NS, "Time to the next step's start on the host.", "Host Time (ns)"),
    Field("busy_ratio", Unit.RATIO, "Busy part of that period.", "Busy (%)", 100.0, 1),
    Field("busy_ns", Unit.NS, "Time in which that device worked.", "Busy (ns)", is_detail=True),
    Field("launches", Unit.COUNT, "Calls in it that launched device work.", "Launches"),
    Field("kernels", Unit.COUNT, "Kernels that it launched.", "Kernels"),
    Field("gpu_index", Unit.ID, "The slowest device.", "GPU"),
    Field("start_ns", Unit.NS, "When it began on the host.", "Start (ns)", is_detail=True),
    Field("range_ns", Unit.NS, "How long it was open on the host.", "Open (ns)", is_detail=True),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("index", Unit.NONE, "Number of the step.", "No.", is_detail=True),
    Field("state", Unit.NONE, "Counted, or why it is not.", "Counted"),
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
    missing_hint="profile with --trace=cuda,nvtx a program that marks its steps with ranges",
)
def steps(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """How long each step of the program took, and which steps stand for the run.

    What it measures: For each step: the time it took on the slowest device that it used, the time
        it took on the host, for how long that device was busy, and what the step launched.
    Why it matters: The time of a step is what an optimization is to reduce. The median of the
        steps that count is that time; the first steps, outliers and the cut ones would spoil it.
    How it is computed: Steps are ranges named as such (step_7, iteration 7, ProfilerStep#7,
        train_step), the outermost ones that hold most of the device work; without any, repetitions
        in the sequence of launches. Device time goes from the start of the first operation
        launched in the step, by any thread, to the start of the first one launched in the next;
        where a device's streams differ in pace the slowest counts. Host time goes from start to
        start. The last step has neither. Left out are leading steps longer than 1.2 medians and
        three standard deviations (1.05 if they load code or allocate), a first one of less than two
        thirds of the median and three deviations less, and later ones longer than
        1.5 medians and three deviations, unless more than a tenth are. The deviation is the
        scaled median absolute one. Jitter is (p95 - p5) / median.
    Limits: Percentiles of few steps are near the longest one. Repetitions of launches may be
        layers instead of steps. Work that is launched outside of any step is in the period of the
        step before. Without calls in the recording, work belongs to the step in which it ran.
    Source: Warpline.
    """
    step_ranges = step_name(arguments)
    found = find_steps(trace, step_ranges)
    if not len(found):
        return Skipped(NAME, "nothing marks or shows steps", "mark each step with a range")
    busy, device = _slowest(trace, found)
    launches, kernels = _launched(trace, step_of_operations(trace, step_ranges), len(found))
    has_period = found.slowest_window >= 0
    period = found.period_ns
    values: dict[str, Values] = {
        "device_ns": Numbers(period, has_period),
        "host_ns": Numbers(found.host_period_ns, found.has_next),
        "busy_ratio": Numbers(busy / np.maximum(period, 1), has_period),
        "busy_ns": Numbers(busy, has_period),
        "launches": Numbers(launches),
        "kernels": Numbers(kernels),
        "gpu_index": Numbers(device, has_period),
        "start_ns": Numbers(found.host_start_ns),
        "range_ns": Numbers(found.host_end_ns - found.host_start_ns),
        "pid": Numbers(trace.columns("process", "pid")["pid"].values[found.process]),
        "index": Numbers(found.index),
        "state": _states(found),
        "step": found.label,
    }
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, values, ("pid", "index"), _notes(found))


def _slowest(trace: Trace, found: Steps) -> tuple[I64, Integers]:
    """Return for each step how long its slowest device was busy, and which it is; 0 for none."""
    busy_ns, gpu_index = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    rows = np.flatnonzero(found.slowest_window >= 0)
    if len(rows):
        chosen = found.slowest_window[rows]
        parts = partition(trace, found.windows(chosen)).ns
        busy_ns[rows] = parts[:, is_busy(np.arange(len(PARTS), dtype=np.int8))].sum(axis=1)
        devices = trace.columns("device", "gpu_index")["gpu_index"].values
        gpu_index[rows] = devices[found.window_device[chosen]]
    return busy_ns, gpu_index


def _launched(trace: Trace, step: I64, n_steps: int) -> tuple[I64, I64]:
    """Return how many calls of each step launched work, and how many kernels it launched."""
    work = operations(trace)
    inside = step != NO_STEP
    kernels = np.bincount(step[inside & (work.table == _KERNEL)], minlength=n_steps)
    known = np.flatnonzero(inside & (work.call >= 0))
    calls = known[factorize_rows(work.call[known]).first]
    return np.bincount(step[calls], minlength=n_steps), kernels


def _states(found: Steps) -> Texts:
    states = [_COUNTED, *dict.fromkeys(reason for _, reason in found.excluded)]
    codes = np.zeros(len(found), np.int32)
    for step, reason in found.excluded:
        codes[step] = states.index(reason)
    return Texts(codes, states)


def _notes(found: Steps) -> tuple[str, ...]:
    times = found.times()
    counted = plural(times.count, "step is", "steps are")
    of_each = " of each process" if found.lane[-1] > 0 else ""
    said = f"{counted} counted{of_each}, from {found.source}"
    if times.median_ns is not None and times.p95_ns is not None:
        said += f": median {format_ns(times.median_ns)}, p95 {format_ns(times.p95_ns)}"
        if times.jitter_ratio is not None:
            said += f", jitter {format_ratio(times.jitter_ratio)}"
        said += " on the slowest device"
    if times.host_median_ns is not None:
        said += f"; host median {format_ns(times.host_median_ns)}"
    return (said, *found.notes)
