"""kernel_counter_timeline: profiled launches beside their kernels in a timeline."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters import (
    PEAK_FIELDS,
    launch_columns,
    metric_numbers,
    peak_columns,
)
from warpline.derived.counters.timeline import timeline_kernels
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_counter_timeline"
TITLE = "Profiled kernels in the timeline"
_HINT = (
    "pass a timeline and counters of the same program:"
    " warpline stats -r kernel_counter_timeline timeline.warpline counters.warpline"
)
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch in its report or process.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("start_ns", Unit.NS, "Start in the timeline.", "Start (ns)"),
    Field("duration_ns", Unit.NS, "Duration in the timeline.", "Duration (ns)"),
    Field("profiled_ns", Unit.NS, "Duration when profiled.", "Profiled (ns)"),
    *PEAK_FIELDS,
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("profiled_kernel",),
    missing_hint=_HINT,
)
def kernel_counter_timeline(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Profiled launches beside their kernels in a timeline of the same program.

    What it measures: For each profiled launch, when the same launch ran in the timeline and how
        long, and its throughputs and occupancy.
    Why it matters: Counters say what limits a kernel, the timeline how much time it takes.
    How it is computed: A launch and its kernel have the same name, grid, block, and place among
        the launches of their process, or, if that leads to other kernels, among launches of the
        same name, grid and block. The first process with profiled launches is the first one with
        kernels, and so on.
    Limits: The program must launch the same kernels in both runs. Kernels of CUDA graphs are not
        matched. Launches without a kernel in the timeline have no start and duration.
    Source: Warpline.
    """
    if not trace.has("kernel"):
        return Skipped(NAME, "the trace has no timeline of kernels", _HINT)
    kernel = timeline_kernels(trace)
    is_found = kernel >= 0
    row = np.where(is_found, kernel, 0)
    times = trace.columns("kernel", "start_ns", "end_ns")
    start, end = (
        times[name].values[row] if is_found.any() else np.zeros(len(row), np.int64)
        for name in ("start_ns", "end_ns")
    )
    profiled_ns, has_profiled = metric_numbers(trace, "gpu__time_duration.sum")
    values: dict[str, Values] = {
        **launch_columns(trace, np.arange(len(kernel))),
        "start_ns": Numbers(start, is_found),
        "duration_ns": Numbers(end - start, is_found),
        "profiled_ns": Numbers(np.rint(profiled_ns).astype(np.int64), has_profiled),
    }
    values.update(peak_columns(trace))
    return Result(NAME, TITLE, FIELDS, values, ("launch", "kernel"))
