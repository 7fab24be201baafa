"""counter_candidates: the kernels that are worth a run with hardware counters."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from warpline.derived.breakdown.partition import window_segments
from warpline.derived.breakdown.segments import device_segments, is_busy
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.steps.times import measure_windows
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize
from warpline.redaction import run_as_typed
from warpline.result import Arguments, Field, Result, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "counter_candidates"
TITLE = "Kernels worth a run with hardware counters"
FIELDS = (
    Field("share_ratio", Unit.RATIO, "Share of the devices' time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Time that is counted for it.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "How often it ran.", "Instances"),
    Field("median_ns", Unit.NS, "Median duration of one.", "Med (ns)", digits=1),
    Field("category", Unit.NONE, "What it computes.", "Category"),
    Field("name", Unit.NONE, "The kernel.", "Name"),
    Field("command", Unit.NONE, "What measures one instance in the middle of the run.", "Command"),
)

_LEAST_SHARE = 0.05
_MOST = 10
_PROGRAM = "PROGRAM"


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments={"name": "name=PATTERN: the ranges that are steps."},
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node if it launches graphs",
)
def counter_candidates(trace: Trace, arguments: Arguments) -> Result:
    """The kernels that are worth a run with hardware counters, and the command for it.

    What it measures: The kernels that took the largest shares of the devices' time, collectives
        left out.
    Why it matters: Hardware counters say why a kernel takes as long as it does, but cost many
        runs of it. A kernel with a small share is not worth them: were it free, the step would be
        hardly shorter.
    How it is computed: Time as in the table breakdown, by the kernel's whole name; at least 5% of
        it, at most ten kernels. The command skips the launches of that name that came before the
        instance whose duration is the median, in its process.
    Limits: Launches are counted from where the recording began. A kernel that waits, such as a
        collective or one that polls memory, tells nothing in a run of its own. The command is
        that of Nsight Compute; it must run where the program ran. Arguments that the recording
        does not hold are '***' in it, to be filled in.
    Source: Warpline; the manual of Nsight Compute's command line on --kernel-name, --launch-skip
        and --launch-count.
    """
    name = next((text.partition("=")[2] for text in arguments if text.startswith("name=")), None)
    rows, times = _counted(trace, name)
    windows = measure_windows(trace, name)
    whole_ns = max(int((windows.end_ns - windows.start_ns).sum()), 1)
    ids = trace.columns("kernel", "name_id")["name_id"].values
    names = factorize(ids[operations(trace).row[rows]])
    sums = np.zeros(names.n_groups, np.int64)
    np.add.at(sums, names.codes, times)
    texts = trace.strings.texts(names.uniques.tolist())
    # Kernels of equal time in the order of their names: the file's numbers of texts do not matter.
    order = sorted(range(names.n_groups), key=lambda code: (-int(sums[code]), texts[code]))[:_MOST]
    found = [
        _candidate(trace, rows[names.codes == code], int(sums[code]), whole_ns)
        for code in order
        if sums[code] >= _LEAST_SHARE * whole_ns
    ]
    columns = {field.name: column_of([row[field.name] for row in found]) for field in FIELDS}
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, columns, ("name",))


def _candidate(trace: Trace, rows: I64, total_ns: int, whole_ns: int) -> dict[str, Any]:
    """Return a row of the table for one kernel.

    Args:
        trace: The trace.
        rows: Its instances that are counted, places in `operations`.
        total_ns: Time that is counted for it.
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
        "category": BUSY_CATEGORIES[int(operation_categories(trace)[typical])],
        "name": trace.strings.text(int(names[work.row[typical]])),
        "command": _command(trace, typical),
    }


def _counted(trace: Trace, name: str | None) -> tuple[I64, I64]:
    """Return kernels that are no collectives, and the time that each is counted for."""
    segments = device_segments(trace)
    pieces = window_segments(trace, measure_windows(trace, name))
    part = segments.part[pieces.row]
    wanted = np.flatnonzero(is_busy(part) & (part != BUSY_CATEGORIES.index("collective")))
    owner = segments.operation[pieces.row[wanted]]
    ns = (pieces.end_ns - pieces.start_ns)[wanted]
    sums = np.zeros(len(operations(trace)), np.int64)
    np.add.at(sums, owner, ns)
    kernels = operations(trace).of_table("kernel")
    kernels = kernels[sums[kernels] > 0]
    return kernels, sums[kernels]


def _command(trace: Trace, operation: int) -> str:
    """Return the command that measures one operation."""
    work = operations(trace)
    short = trace.columns("kernel", "short_name_id")["short_name_id"].values
    kernels = work.of_table("kernel")
    same = kernels[short[work.row[kernels]] == short[work.row[operation]]]
    same = same[work.process[same] == work.process[operation]]
    time = launch_order(trace).time_ns
    before = np.count_nonzero(time[same] < time[operation])
    base = shlex.quote(trace.strings.text(int(short[work.row[operation]])))
    # Several recordings may be of several programs, whose commands are then joined.
    command = trace.meta.command or _PROGRAM
    program = _PROGRAM if len(trace.meta.paths) > 1 and ", " in command else run_as_typed(command)
    return f"ncu --set full --kernel-name {base} --launch-skip {before} --launch-count 1 {program}"
