"""When the host made no call for long while the device had nothing to do, and not for data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import window_segments
from warpline.derived.breakdown.segments import PARTS, device_segments
from warpline.derived.idle.data_waits import SHORTEST_SILENCE_NS, ThreadTimes, silences
from warpline.derived.steps.times import Windows, measure_windows
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, cut
from warpline.trace import Trace

_LEAST_SHARE = 0.15  # of a step


class HostPauses(NamedTuple):
    """Long times without a call, in which a device was idle for want of a launch.

    Attributes:
        times: The pauses, and the thread that made the next call.
        idle_ns: Shape (windows,), int64, how long its device was idle in them, of each window of
            `measure_windows`.
        with_data_ns: Shape (windows,), int64, the same with times before a copy from the host,
            which are of the cause data.
        windows: In how many of these windows they took a good part of the time.
    """

    times: ThreadTimes
    idle_ns: I64
    with_data_ns: I64
    windows: int


@derived
def host_pauses(trace: Trace, name: str | None = None) -> HostPauses:
    """Return the pauses of the host that kept devices waiting.

    Frameworks make short ones in most programs, as before an optimizer's first kernel, and long
    ones in a step in which they prepare something.

    Args:
        trace: The trace.
        name: The name of the ranges that are steps; see `steps`.
    """
    silent = silences(trace)
    silent = silent.taken(silent.end_ns - silent.start_ns >= SHORTEST_SILENCE_NS)
    windows, places = measure_windows(trace, name), _by_device(trace, silent)
    lost, of_window = _lost(trace, windows, places, "launch-bound")
    _, for_data = _lost(trace, windows, places, "input")
    is_long = of_window >= _LEAST_SHARE * (windows.end_ns - windows.start_ns)
    return HostPauses(
        silent.taken(_holds(silent, lost)),
        of_window,
        of_window + for_data,
        int(np.count_nonzero(is_long & (of_window > 0))),
    )


def _lost(trace: Trace, windows: Windows, silent: Grouped, cause: str) -> tuple[Grouped, I64]:
    """Return when devices were idle in silences for a cause, and how long in each window."""
    segments, pieces = device_segments(trace), window_segments(trace, windows)
    idle = segments.part[pieces.row] == PARTS.index(cause)
    span, start, end = (column[idle] for column in (pieces.span, pieces.start_ns, pieces.end_ns))
    inside = cut(Grouped(start, end, windows.device[span]), silent)
    lost = Grouped(inside.start_ns, inside.end_ns, windows.device[span[inside.span]])
    of_window = np.zeros(len(windows.device), np.int64)
    np.add.at(of_window, span[inside.span], lost.end_ns - lost.start_ns)
    return lost, of_window


def _by_device(trace: Trace, times: ThreadTimes) -> Grouped:
    """Return when each device's processes were silent, by device and start."""
    work, process = operations(trace), _process_of(trace, times)
    parts: list[tuple[I64, I64, I64]] = []
    for device in np.unique(work.device).tolist():
        own = np.isin(process, np.unique(work.process[work.device == device]))
        joined = union(times.start_ns[own], times.end_ns[own])
        parts.append((joined.start, joined.end, np.full(len(joined.start), device)))
    none = np.zeros(0, np.int64)
    start, end, group = (
        np.concatenate([none, *(part[place] for part in parts)]) for place in range(3)
    )
    return Grouped(start, end, group)


def _holds(times: ThreadTimes, lost: Grouped) -> BoolArray:
    """Return in which times a device lost some of its own."""
    everywhere = np.zeros(len(times.thread), np.int64)
    joined = union(lost.start_ns, lost.end_ns)
    group = np.zeros(len(joined.start), np.int64)
    shared = cut(
        Grouped(times.start_ns, times.end_ns, everywhere), Grouped(joined.start, joined.end, group)
    )
    found = np.zeros(len(times.thread), np.bool_)
    found[shared.span] = True
    return found


def _process_of(trace: Trace, times: ThreadTimes) -> I64:
    if not len(times.thread):
        return times.thread
    process: I64 = trace.columns("thread", "process_id")["process_id"].values[times.thread]
    return process.astype(np.int64)
