"""Overlap of compute, communication, copies and streams on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import Windows, measure_windows
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, is_repeated
from warpline.ops.group import distinct_values
from warpline.ops.interval import Intervals, concurrency, intersect, subtract, union
from warpline.ops.tiling import Grouped, sum_cuts
from warpline.trace import Run, Trace
from warpline.vocabulary import Vocabulary

COMMUNICATION = (TimePart.COLLECTIVE,)
COPIES = (
    TimePart.COPY_H2D,
    TimePart.COPY_D2H,
    TimePart.COPY_D2D,
    TimePart.COPY_P2P,
    TimePart.COPY_MANAGED,
    TimePart.COPY_OTHER,
)
COPIES_AND_MEMSETS = (*COPIES, TimePart.MEMSET)
# Whole graphs count as compute, as their content is not recorded; memsets are none of these.
COMPUTE = tuple(part for part in BUSY if part not in (*COMMUNICATION, *COPIES_AND_MEMSETS))


class OverlapKind(Vocabulary):
    """Kinds of work and overlap; see `overlaps`."""

    COMPUTE = "compute", "kernels except collectives, and whole graphs"
    COMMUNICATION = "communication", "collectives"
    COMPUTE_AND_COMMUNICATION = "compute-and-communication", "collectives overlapped with compute"
    EXPOSED_COMMUNICATION = "exposed-communication", "collectives without concurrent compute"
    COPY = "copy", "copies to, from, within or between GPUs"
    COPY_AND_WORK = "copy-and-work", "copies overlapped with kernels"
    EXPOSED_COPY = "exposed-copy", "copies without a concurrent kernel"
    SEVERAL_STREAMS = "several-streams", "concurrent operations of two or more streams"
    SEVERAL_STREAMS_COMPUTING = (
        "several-streams-computing",
        "concurrent compute kernels of two or more streams",
    )
    BUSY = "busy", "any operation"


_NEVER = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Overlaps(NamedTuple):
    """Time of each kind of work and overlap, per window.

    Attributes:
        windows: The windows.
        ns: Shape (windows, `OverlapKind`), int64.
    """

    windows: Windows
    ns: I64


@derived
def step_overlaps(run: Run) -> Overlaps:
    """Return `overlaps` in `measure_windows`: the included steps, or the whole recording."""
    return overlaps(run.trace, measure_windows(run))


def overlaps(trace: Trace, windows: Windows) -> Overlaps:
    """Return the time of each kind of work and overlap in each window.

    - ``communication`` is the time of collectives, ``compute`` that of other kernels and whole
      graphs. ``exposed-communication`` is communication without concurrent compute.
    - ``copy`` is the time of copies, ``copy-and-work`` the part with a concurrent kernel
      (including collectives), and ``exposed-copy`` the rest.
    - ``several-streams`` is the time with concurrent operations of two or more streams, of any
      kind. ``several-streams-computing`` considers compute kernels only.
    - ``busy`` is the time of any operation.

    Args:
        trace: The trace.
        windows: They may overlap; each is measured separately.
    """
    count = len(windows.device)
    spans, window = Grouped(windows.start_ns, windows.end_ns, windows.device), np.arange(count)
    ns = np.zeros((count, len(OverlapKind)), np.int64)
    for kind, times in _all_devices(trace).items():
        ns[:, kind] = sum_cuts(spans, times, slot=window, n_slots=count)[:, 0]
    return Overlaps(windows, ns)


@derived
def _all_devices(trace: Trace) -> dict[OverlapKind, Grouped]:
    """Return the times of each kind, by device and start."""
    by_kind: dict[OverlapKind, list[tuple[Intervals, int]]] = {kind: [] for kind in OverlapKind}
    work = operations(trace)
    for first, last in work.bounds_of_devices():
        for kind, times in _of_device(trace, slice(first, last)).items():
            by_kind[kind].append((times, int(work.device[first])))
    return {kind: _joined(parts) for kind, parts in by_kind.items()}


def _of_device(trace: Trace, rows: slice) -> dict[OverlapKind, Intervals]:
    category = operation_categories(trace)[rows]
    compute, communication, copies = (
        np.isin(category, chosen) for chosen in (COMPUTE, COMMUNICATION, COPIES)
    )
    computing, communicating, copying = (
        _union(trace, rows, chosen) for chosen in (compute, communication, copies)
    )
    kernels = (
        _union(trace, rows, compute | communication) if len(communicating.start) else computing
    )
    every = np.ones(len(category), np.bool_)
    return {
        OverlapKind.COMPUTE: computing,
        OverlapKind.COMMUNICATION: communicating,
        OverlapKind.COMPUTE_AND_COMMUNICATION: _both(computing, communicating),
        OverlapKind.EXPOSED_COMMUNICATION: _alone(communicating, computing),
        OverlapKind.COPY: copying,
        OverlapKind.COPY_AND_WORK: _both(copying, kernels),
        OverlapKind.EXPOSED_COPY: _alone(copying, kernels),
        OverlapKind.SEVERAL_STREAMS: _on_several_streams(trace, rows, every),
        OverlapKind.SEVERAL_STREAMS_COMPUTING: _on_several_streams(trace, rows, compute),
        OverlapKind.BUSY: _union(trace, rows, every),
    }


def _union(trace: Trace, rows: slice, chosen: BoolArray) -> Intervals:
    work = operations(trace)
    return union(work.start_ns[rows], work.end_ns[rows], chosen)


def _both(one: Intervals, other: Intervals) -> Intervals:
    # Shortcut: most recordings have no collectives.
    return intersect(one, other) if len(one.start) and len(other.start) else _NEVER


def _alone(one: Intervals, other: Intervals) -> Intervals:
    return subtract(one, other) if len(one.start) and len(other.start) else one


def _on_several_streams(trace: Trace, rows: slice, chosen: BoolArray) -> Intervals:
    """Return when operations of two or more streams ran concurrently."""
    stream = operations(trace).stream[rows]
    if is_repeated(stream):
        return _NEVER
    each = [_union(trace, rows, chosen & (stream == number)) for number in distinct_values(stream)]
    each = [times for times in each if len(times.start)]
    if len(each) < 2:
        return _NEVER
    joined = [np.concatenate(side) for side in zip(*each, strict=True)]
    running = concurrency(*joined)
    several = running.depth >= 2
    ends = np.append(running.time[1:], running.time[-1:])
    return union(running.time[several], ends[several])


def _joined(parts: list[tuple[Intervals, int]]) -> Grouped:
    nothing = np.zeros(0, np.int64)
    return Grouped(
        np.concatenate([nothing, *(times.start for times, _ in parts)]),
        np.concatenate([nothing, *(times.end for times, _ in parts)]),
        np.concatenate([nothing, *(np.full(len(t.start), device) for t, device in parts)]),
    )
