"""Page faults of unified memory in the analyzed windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.memory.pages import CPU_FAULTS, GPU_FAULTS
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped
from warpline.trace import Run


class PageFaults(NamedTuple):
    """Page faults that begin in the analyzed windows.

    Attributes:
        on_gpu: Number of page faults of GPUs.
        handling: When GPUs' page faults were handled; each group is a device. May overlap.
        rows: Shape (n,), int64, the rows of um_gpu_page_fault.
        on_cpu: Number of page faults of the CPU.
        function: The function with the most of these, if one is known.
        in_function: Number of page faults in that function.
    """

    on_gpu: int
    handling: Grouped
    rows: I64
    on_cpu: int
    function: str | None
    in_function: int


def page_faults(run: Run) -> PageFaults:
    """Return the page faults; none if they were not recorded."""
    rows, on_gpu, handling = _on_gpu(run)
    on_cpu, function, in_function = _on_cpu(run)
    return PageFaults(on_gpu, handling, rows, on_cpu, function, in_function)


def _on_gpu(run: Run) -> tuple[I64, int, Grouped]:
    if not run.trace.has(GPU_FAULTS):
        nothing = np.zeros(0, np.int64)
        return nothing, 0, Grouped(nothing, nothing, nothing)
    columns = run.trace.columns(GPU_FAULTS, "start_ns", "end_ns", "device_id", "faults")
    rows = np.flatnonzero(_is_analyzed(run, columns["start_ns"].values))
    start, end, device, faults = (column.values[rows] for column in columns.values())
    return rows, int(faults.sum()), Grouped(start, end, device.astype(np.int64))


def _on_cpu(run: Run) -> tuple[int, str | None, int]:
    if not run.trace.has(CPU_FAULTS):
        return 0, None, 0
    columns = run.trace.columns(CPU_FAULTS, "time_ns", "function_id")
    analyzed = _is_analyzed(run, columns["time_ns"].values)
    functions = columns["function_id"].filled(-1)[analyzed]
    named = functions[functions >= 0]
    if not len(named):
        return len(functions), None, 0
    counts = np.bincount(named)
    most = int(counts.argmax())
    return len(functions), run.trace.strings.text(most), int(counts[most])


def _is_analyzed(run: Run, times_ns: I64) -> BoolArray:
    """Return whether each time is in a window of any device."""
    windows = step_partition(run).windows
    analyzed = union(windows.start_ns, windows.end_ns)
    place = np.searchsorted(analyzed.start, times_ns, "right") - 1
    ends = np.append(analyzed.end, np.iinfo(np.int64).min)
    inside: BoolArray = times_ns < ends[place]  # the last one stands for the time before all
    return inside
