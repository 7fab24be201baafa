"""counter_candidates: kernels to profile with Nsight Compute."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from warpline.derived.breakdown.kernel_times import kernel_sums, kernel_times
from warpline.derived.efficiency.profiler import NSIGHT_COMPUTE, counter_profiler
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.redaction import run_as_typed
from warpline.result import Arguments, Field, Result, Skipped, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "counter_candidates"
TITLE = "Kernels to profile with Nsight Compute"
FIELDS = (
    Field("share_ratio", Unit.RATIO, "Share of the GPUs' time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Time attributed to the kernel.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "Number of instances.", "Instances"),
    Field("median_ns", Unit.NS, "Median duration of an instance.", "Med (ns)", digits=1),
    Field("category", Unit.NONE, "Category of the kernel.", "Category"),
    Field("name", Unit.NONE, "The kernel.", "Name"),
    Field("command", Unit.NONE, "Command that profiles one typical instance.", "Command"),
)

_LEAST_SHARE = 0.05
_MOST = 10
_PROGRAM = "PROGRAM"


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments=STEP_ARGUMENT,
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node for CUDA graphs",
)
def counter_candidates(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Kernels to profile with Nsight Compute, each with its command.

    What it measures: The kernels with the largest shares of the GPUs' time, except collectives.
    Why it matters: Hardware counters show why a kernel takes its time, but need many replays of
        it. A kernel with a small share is not worth the effort: without it, the step would hardly
        be shorter.
    How it is computed: Time as in table breakdown, by full kernel name: at least 5% of it, at most
        ten kernels. The command skips the launches of that name that precede the instance of
        median duration in its process.
    Limits: Launches are counted from the start of the recording. Do not profile kernels that wait,
        such as collectives or kernels that poll memory, in isolation. The command is for Nsight
        Compute and must run where the program ran. It shows '***' for arguments that the recording
        does not contain. Fill them in.
    Source: Warpline; the Nsight Compute CLI manual on --kernel-name, --launch-skip and
        --launch-count.
    """
    if (profiler := counter_profiler(trace)) != NSIGHT_COMPUTE:
        return Skipped(NAME, "Nsight Compute does not profile AMD GPUs", f"use {profiler}")
    run = run_of(trace, arguments)
    rows, sums = kernel_times(run).kernel, kernel_sums(run)
    windows = measure_windows(run)
    whole_ns = max(int((windows.end_ns - windows.start_ns).sum()), 1)
    candidates = [
        _candidate(trace, rows[sums.group == place], total_ns, whole_ns)
        for place, total_ns in enumerate(sums.ns[:_MOST].tolist())
        if total_ns >= _LEAST_SHARE * whole_ns
    ]
    columns = {field.name: column_of([row[field.name] for row in candidates]) for field in FIELDS}
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, columns, ("name",))


def _candidate(trace: Trace, rows: I64, total_ns: int, whole_ns: int) -> dict[str, Any]:
    """Return a row of the table for one kernel.

    Args:
        trace: The trace.
        rows: Its counted instances, indices into `operations`.
        total_ns: Time attributed to it.
        whole_ns: Time of all devices.
    """
    work = operations(trace)
    lengths = (work.end_ns - work.start_ns)[rows]
    typical = int(rows[np.argsort(lengths, kind="stable")[len(rows) // 2]])
    names = trace.columns("kernel", "name_id")["name_id"].values
    return {
        "share_ratio": total_ns / whole_ns,
        "total_ns": total_ns,
        "instances": len(rows),
        "median_ns": float(np.median(lengths)),
        "category": TimePart.at(int(operation_categories(trace)[typical])).label,
        "name": trace.strings.text(int(names[work.row[typical]])),
        "command": _command(trace, typical),
    }


def _command(trace: Trace, operation: int) -> str:
    """Return the command that profiles one operation."""
    work = operations(trace)
    short = trace.columns("kernel", "short_name_id")["short_name_id"].values
    kernels = work.of_table("kernel")
    same = kernels[short[work.row[kernels]] == short[work.row[operation]]]
    same = same[work.process[same] == work.process[operation]]
    time = launch_order(trace).time_ns
    before = np.count_nonzero(time[same] < time[operation])
    base = shlex.quote(trace.strings.text(int(short[work.row[operation]])))
    # Recordings of several programs have their commands joined.
    command = trace.meta.command or _PROGRAM
    program = _PROGRAM if len(trace.meta.paths) > 1 and ", " in command else run_as_typed(command)
    return f"ncu --set full --kernel-name {base} --launch-skip {before} --launch-count 1 {program}"
