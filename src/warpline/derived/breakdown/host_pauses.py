"""CPU gaps: long times without CUDA API calls during which a GPU waited for a launch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.idle.data_waits import SHORTEST_SILENCE_NS
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.silences import ThreadTimes, silences
from warpline.derived.steps.times import Windows, measure_windows
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, taken
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, cut, rest
from warpline.trace import Run, Trace

_WAITS = (TimePart.INPUT, TimePart.OS_WAIT)
_LEAST_SHARE = 0.15  # of a step


class HostPauses(NamedTuple):
    """CPU gaps: long times without a call, during which a device was idle, launch-bound.

    Attributes:
        times: The gaps without waits, and the thread that made the next call.
        idle_ns: Shape (windows,), int64, idle time of the device during gaps, per window of
            `measure_windows`.
        with_waits_ns: Shape (windows,), int64, the same including gaps whose idle cause is
            ``input`` or ``os-wait``.
        is_much: Shape (windows,), bool, whether gaps are a large share of the window.
    """

    times: ThreadTimes
    idle_ns: I64
    with_waits_ns: I64
    is_much: BoolArray


@derived
def host_pauses(run: Run) -> HostPauses:
    """Return the CPU gaps that left devices idle.

    Frameworks cause short gaps in most programs, for example before an optimizer's first kernel,
    and long ones in steps that prepare something.
    """
    trace = run.trace
    every = silences(trace).times.lasting(SHORTEST_SILENCE_NS)
    silent = _without_waits(trace, every).lasting(SHORTEST_SILENCE_NS)
    windows, places = measure_windows(run), _by_device(trace, silent)
    idle, of_window = _idle(trace, windows, places, TimePart.LAUNCH_BOUND)
    _, in_waits = _idle(trace, windows, _by_device(trace, every), *_WAITS)
    is_long = of_window >= _LEAST_SHARE * (windows.end_ns - windows.start_ns)
    return HostPauses(
        silent.taken(_contain_idle(silent, idle)),
        of_window,
        of_window + in_waits,
        is_long & (of_window > 0),
    )


def _without_waits(trace: Trace, silent: ThreadTimes) -> ThreadTimes:
    """Return the parts of CPU gaps during which the thread did not wait."""
    held, spans = blocking(trace), Grouped(*silent)
    rows = np.flatnonzero(np.isin(held.cause, _WAITS))
    waits = Grouped(held.start_ns[rows], held.end_ns[rows], held.thread[rows])
    left = rest(spans, cut(spans, waits))
    return ThreadTimes(left.start_ns, left.end_ns, silent.thread[left.span])


def _idle(
    trace: Trace, windows: Windows, silent: Grouped, *causes: TimePart
) -> tuple[Grouped, I64]:
    """Return when devices were idle for causes during CPU gaps, and how long in each window."""
    segments = device_segments(trace)
    rows = np.flatnonzero(np.isin(segments.part, causes))
    span, _, start, end = cut(
        Grouped(windows.start_ns, windows.end_ns, windows.device),
        Grouped(segments.start_ns[rows], segments.end_ns[rows], taken(segments.device, rows)),
    )
    inside = cut(Grouped(start, end, windows.device[span]), silent)
    idle = Grouped(inside.start_ns, inside.end_ns, windows.device[span[inside.span]])
    of_window = np.zeros(len(windows.device), np.int64)
    np.add.at(of_window, span[inside.span], idle.end_ns - idle.start_ns)
    return idle, of_window


def _by_device(trace: Trace, times: ThreadTimes) -> Grouped:
    """Return the CPU gaps of each device's processes, by device and start."""
    work, process = operations(trace), _process_of(trace, times)
    parts: list[tuple[I64, I64, I64]] = []
    for low, high in work.bounds_of_devices():
        device = int(work.device[low])
        own = np.isin(process, distinct_values(work.process[low:high]))
        joined = union(times.start_ns[own], times.end_ns[own])
        parts.append((joined.start, joined.end, np.full(len(joined.start), device)))
    none = np.zeros(0, np.int64)
    start, end, group = (
        np.concatenate([none, *(part[place] for part in parts)]) for place in range(3)
    )
    return Grouped(start, end, group)


def _contain_idle(times: ThreadTimes, idle: Grouped) -> BoolArray:
    """Return which gaps contain idle time of a device."""
    everywhere = np.zeros(len(times.thread), np.int64)
    joined = union(idle.start_ns, idle.end_ns)
    group = np.zeros(len(joined.start), np.int64)
    shared = cut(
        Grouped(times.start_ns, times.end_ns, everywhere), Grouped(joined.start, joined.end, group)
    )
    has_idle = np.zeros(len(times.thread), np.bool_)
    has_idle[shared.span] = True
    return has_idle


def _process_of(trace: Trace, times: ThreadTimes) -> I64:
    if not len(times.thread):
        return times.thread
    process: I64 = trace.columns("thread", "process_id")["process_id"].values[times.thread]
    return process.astype(np.int64)
