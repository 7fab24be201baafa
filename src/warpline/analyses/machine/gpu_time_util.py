"""gpu_time_util: how busy each GPU and its parts are over time, or in steps and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.metrics.columns import (
    CLOCK_FIELDS,
    LINK_FIELDS,
    MEMORY_FIELDS,
    SM_FIELDS,
    of_device,
    shown,
)
from warpline.derived.metrics.known import known_series
from warpline.derived.metrics.means import Integral
from warpline.derived.ranges.device_ranges import ranges_on_device
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import measure_windows, steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.interval import Intervals, covered_until, union
from warpline.result import Arguments, Field, Result, Skipped, Values, analysis, column_of
from warpline.trace import Run, Trace
from warpline.units import Unit

NAME = "gpu_time_util"
TITLE = "GPU utilization over time"
STEPS, RANGES = "steps", "ranges"
BINS = 30  # as Nsight Systems
_METRICS = (*SM_FIELDS, *MEMORY_FIELDS, *LINK_FIELDS, *CLOCK_FIELDS)
FIELDS = (
    Field("gpu_index", Unit.NONE, "Index of the GPU, as recorded.", "GPU"),
    Field("of", Unit.NONE, "time, step or range.", "Of"),
    Field("name", Unit.NONE, "Name of the step or range; number of the time.", "Name"),
    Field("instances", Unit.COUNT, "How many of that name.", "Instances"),
    Field("start_ns", Unit.NS, "Start of the first one.", "Start (ns)", is_detail=True),
    Field("mean_ns", Unit.NS, "Mean duration of one.", "Avg (ns)", digits=0),
    Field(
        "busy_ratio",
        Unit.RATIO,
        "Share of the time with a kernel, copy or memset.",
        "GPU Busy (%)",
        100.0,
        1,
    ),
    *_METRICS,
)


class _Spans(NamedTuple):
    """Spans of a GPU that share a name.

    Attributes:
        of: What they are.
        name: Their name.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
    """

    of: str
    name: str | None
    start_ns: I64
    end_ns: I64


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    aliases=("cuda_gpu_time_util_map", "gpu_metric_util_map"),
    arguments={
        STEPS: "One row per step.",
        RANGES: "One row per range name, of ranges that launch GPU work.",
        **STEP_ARGUMENT,
    },
    missing_hint="profile with -t cuda",
)
def gpu_time_util(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """How busy each GPU is, and its SMs, Tensor Cores, memory and links, over time.

    What it measures: For each GPU, the share of time with work, and the mean of each sampled metric
        that is known, in 30 equal parts of the time from its first to its last operation. With
        :steps or :ranges, in each step, or in the ranges of each name.
    Why it matters: A GPU that is busy all of the time may use few of its SMs. Phases with low
        activity show where.
    How it is computed: Busy time is the union of kernels, copies and memsets, so overlapped work
        counts once. Means of metrics are by time: of a sample, the part inside counts. Ranges are
        from their first GPU operation to the end of the last. Parts that are shorter than two
        samples, or of which less than half was sampled, have no mean.
    Limits: Without sampled metrics, only busy time is known. Samples at the edges of short steps
        include work next to them. Ranges include other work on the GPU meanwhile. Nsight Systems
        adds up overlapped work, which may exceed 100%, and lists only parts below 50%.
    Source: Warpline; Nsight Systems: rule gpu_time_util, recipes cuda_gpu_time_util_map and
        gpu_metric_util_map.
    """
    run = run_of(trace, arguments)
    made: list[dict[str, Any]] = []
    for low, high in operations(trace).bounds_of_devices():
        device = int(operations(trace).device[low])
        made += _of_device(run, device, slice(low, high), arguments)
    if not made:
        return Skipped(NAME, "no steps or ranges with GPU work", "mark them with NVTX ranges")
    values: dict[str, Values] = {
        field.name: column_of([row.get(field.name) for row in made]) for field in FIELDS
    }
    key = ("gpu_index", "of", "name")
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, key)


def _of_device(run: Run, device: int, rows: slice, arguments: Arguments) -> list[dict[str, Any]]:
    trace, work = run.trace, operations(run.trace)
    busy = union(work.start_ns[rows], work.end_ns[rows])
    index = int(trace.columns("device", "gpu_index")["gpu_index"].values[device])
    every = [*_every(run, device, busy, arguments)]
    made = [
        {"gpu_index": index, **_times(spans), "busy_ratio": ratio}
        for spans, ratio in zip(every, _busy_ratios(every, busy), strict=True)
    ]
    # One metric after the other: the sums of all of them would take much memory.
    for name, each in of_device(known_series(trace), device, _METRICS).items():
        for row, mean in zip(made, _means(Integral(each.samples), every), strict=True):
            row[name] = shown(mean, each.meaning.unit)
    return made


def _means(integral: Integral, every: Sequence[_Spans]) -> list[float | None]:
    """Return the mean of a metric in each of some spans."""
    if any(len(spans.start_ns) != 1 for spans in every):
        return [integral.mean_of(spans.start_ns, spans.end_ns) for spans in every]
    start = np.array([spans.start_ns[0] for spans in every], np.int64)
    found = integral.means_in(start, np.array([spans.end_ns[0] for spans in every], np.int64))
    known = zip(found.value.tolist(), found.is_known.tolist(), strict=True)
    return [value if is_known else None for value, is_known in known]


def _times(spans: _Spans) -> dict[str, Any]:
    """Return the columns about the times of some spans."""
    return {
        "of": spans.of,
        "name": spans.name,
        "instances": len(spans.start_ns),
        "start_ns": int(spans.start_ns.min()),
        "mean_ns": float((spans.end_ns - spans.start_ns).mean()),
    }


def _busy_ratios(every: Sequence[_Spans], busy: Intervals) -> list[float | None]:
    """Return which share of each of some spans a GPU is busy."""
    united = [union(spans.start_ns, spans.end_ns) for spans in every]
    if not united:
        return []
    start, end = (np.concatenate([pair[side] for pair in united]) for side in (0, 1))
    row = np.repeat(np.arange(len(united)), [len(pair.start) for pair in united])
    busy_ns = covered_until(busy, end) - covered_until(busy, start)
    sums = (np.bincount(row, ns, len(united)).tolist() for ns in (busy_ns, end - start))
    return [ns / whole if whole else None for ns, whole in zip(*sums, strict=True)]


def _every(run: Run, device: int, busy: Intervals, arguments: Arguments) -> Iterator[_Spans]:
    if STEPS in arguments:
        yield from _steps(run, device)
    if RANGES in arguments:
        for ranges in ranges_on_device(run.trace, device):
            yield _Spans("range", *ranges)
    if STEPS not in arguments and RANGES not in arguments and len(busy[0]):
        first, last = int(busy[0][0]), int(busy[1][-1])
        edges = first + (last - first) * np.arange(BINS + 1) // BINS
        for number, (start, end) in enumerate(pairwise(edges.tolist()), 1):
            yield _Spans("time", f"{number}", np.array([start]), np.array([end]))


def _steps(run: Run, device: int) -> Iterator[_Spans]:
    windows, labels = measure_windows(run), steps(run).label.to_list()
    for row in np.flatnonzero((windows.device == device) & (windows.step >= 0)).tolist():
        own = slice(row, row + 1)
        label = labels[int(windows.step[row])]
        yield _Spans("step", label, windows.start_ns[own], windows.end_ns[own])
