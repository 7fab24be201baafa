"""profiled_kernels: one line per profiled launch."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters import (
    PEAK_FIELDS,
    launch_columns,
    metric_numbers,
    peak_columns,
)
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "profiled_kernels"
TITLE = "Profiled kernels"
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch in its report or process.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("duration_ns", Unit.NS, "Duration when profiled.", "Duration (ns)"),
    *PEAK_FIELDS,
    Field("registers", Unit.COUNT, "Registers per thread.", "Registers"),
    Field("blocks", Unit.COUNT, "Blocks of the grid.", "Blocks"),
    Field("threads", Unit.COUNT, "Threads of a block.", "Threads"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("profiled_kernel",),
    missing_hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
)
def profiled_kernels(trace: Trace, arguments: Arguments) -> Result:
    """One line per profiled launch.

    What it measures: Duration, throughput of SMs and memory as shares of their peaks, achieved
        occupancy, and launch shape of each profiled kernel launch.
    Why it matters: A kernel near the peak of memory or of the SMs needs less work; one far from
        both waits for latency or has too few blocks.
    How it is computed: From the metrics gpu__time_duration, sm__throughput,
        gpu__compute_memory_throughput, gpu__dram_throughput and sm__warps_active. Empty if they
        were not collected.
    Limits: Profiling serializes launches and may flush caches and lock clocks, so durations differ
        from those of a normal run.
    Source: Warpline.
    """
    axes = [f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"]
    sizes = trace.columns("profiled_kernel", *axes, "is_range")
    is_launch = ~sizes["is_range"].filled(0).astype(np.bool_)
    count = trace.row_count("profiled_kernel")
    grid, block = ([sizes[f"{of}_{axis}"].values for axis in "xyz"] for of in ("grid", "block"))
    duration_ns, has_duration = metric_numbers(trace, "gpu__time_duration.sum")
    registers, has_registers = metric_numbers(trace, "launch__registers_per_thread")
    values: dict[str, Values] = {
        **launch_columns(trace, np.arange(count)),
        "duration_ns": Numbers(np.rint(duration_ns).astype(np.int64), has_duration),
    }
    values.update(peak_columns(trace))
    values["registers"] = Numbers(registers.astype(np.int64), has_registers)
    values["blocks"], values["threads"] = (
        Numbers(np.prod(axes_of, axis=0), is_launch) for axes_of in (grid, block)
    )
    return Result(NAME, TITLE, FIELDS, values, ("launch", "kernel"))
