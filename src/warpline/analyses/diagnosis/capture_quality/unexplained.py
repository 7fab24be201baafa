"""Whether idle time of the GPU is explained by what is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.analyses.diagnosis.capture_quality.problem import ROWS_SHOWN, grade, problem
from warpline.analyses.diagnosis.capture_quality.shares import recorded_window
from warpline.derived.breakdown.partition import measured_parts, step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tiling import Cuts
from warpline.result import Evidence, Finding
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

_RATIO = {"medium": 0.20, "low": 0.05}


def unexplained(run: Run) -> Iterator[Finding]:
    """Report idle time of operations launched in time for which nothing recorded is the reason."""
    trace = run.trace
    if not len(operations(trace)):
        return
    windows = step_partition(run).windows
    pieces = measured_parts(run, TimePart.UNKNOWN, TimePart.GRAPH_INTERNAL)
    part, after = (
        column[pieces.row]
        for column in (device_segments(trace).part, device_segments(trace).operation)
    )
    is_launched = (after >= 0) & (operations(trace).call[after] >= 0) & _is_recorded(trace, pieces)
    total_ns = max(int((windows.end_ns - windows.start_ns).sum()), 1)
    yield from _gaps(
        pieces,
        np.flatnonzero(is_launched & (part == TimePart.UNKNOWN)),
        total_ns,
        "Idle time has no recorded cause",
        "before operations that were launched in time, while nothing recorded ran",
        "Record all processes that use the GPU, without other programs on it. Check for host"
        " functions in streams and for waits for events of other processes: they are not recorded.",
    )
    yield from _gaps(
        pieces,
        np.flatnonzero(is_launched & (part == TimePart.GRAPH_INTERNAL)),
        total_ns,
        "CUDA graphs have long gaps",
        "between the recorded operations of one CUDA graph",
        "Check the graph for host functions and for waits for events or memory values: they are"
        " not recorded.",
    )


def _gaps(
    pieces: Cuts, rows: I64, total_ns: int, title: str, where: str, fix: str
) -> Iterator[Finding]:
    """Report gaps, rows of the pieces, if they are much of the analyzed time."""
    length = pieces.end_ns[rows] - pieces.start_ns[rows]
    idle_ns = int(length.sum())
    severity = grade(idle_ns / total_ns, _RATIO)
    if severity is None:
        return
    longest = rows[np.argsort(-length, kind="stable")[:ROWS_SHOWN]]
    shown = zip(pieces.start_ns[longest].tolist(), pieces.end_ns[longest].tolist(), strict=True)
    yield problem(
        severity,
        title,
        f"The GPU is idle for {format_ns(idle_ns)} ({format_ratio(idle_ns / total_ns)}) {where}.",
        Evidence(
            f"{plural(len(rows), 'gap')}, longest first", count=len(rows), windows_ns=tuple(shown)
        ),
        fix,
        "warpline stats -r breakdown RECORDING shows less idle time of this cause.",
    )


def _is_recorded(trace: Trace, pieces: Cuts) -> BoolArray:
    """Return which pieces are within the recorded windows."""
    windows = trace.meta.windows_ns
    if windows is None:
        return np.ones(len(pieces.row), np.bool_)
    nothing = np.iinfo(np.int64).min
    ends = np.array([nothing, *(end for _, end in windows)], np.int64)
    inside: BoolArray = pieces.start_ns < ends[recorded_window(trace, pieces.start_ns)]
    return inside
