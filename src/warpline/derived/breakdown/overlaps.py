"""Overlap of compute, communication, copies and streams on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.steps.times import Windows, measure_windows
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import Intervals, concurrency, intersect, subtract, union
from warpline.ops.tiling import Grouped, cut
from warpline.trace import Run, Trace

COMMUNICATION: tuple[str, ...] = ("collective",)
COPIES: tuple[str, ...] = tuple(name for name in BUSY_CATEGORIES if name.startswith("copy-"))
# Whole graphs count as compute, as their content is not recorded; memsets are none of these.
COMPUTE: tuple[str, ...] = tuple(
    name for name in BUSY_CATEGORIES if name not in (*COMMUNICATION, *COPIES, "memset")
)

KINDS: tuple[str, ...] = (
    "compute",
    "communication",
    "compute-and-communication",
    "exposed-communication",
    "copy",
    "copy-and-work",
    "exposed-copy",
    "several-streams",
    "several-streams-computing",
    "busy",
)


_NEVER = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Overlaps(NamedTuple):
    """Time of each kind of work and overlap, per window.

    Attributes:
        windows: The windows.
        ns: Shape (windows, `KINDS`), int64.
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
    ns = np.zeros((len(windows.device), len(KINDS)), np.int64)
    for place, kind in enumerate(KINDS):
        found = _all_devices(trace)[kind]
        pieces = cut(Grouped(windows.start_ns, windows.end_ns, windows.device), found)
        np.add.at(ns[:, place], pieces.span, pieces.end_ns - pieces.start_ns)
    return Overlaps(windows, ns)


@derived
def _all_devices(trace: Trace) -> dict[str, Grouped]:
    """Return the times of each kind, by device and start."""
    found: dict[str, list[tuple[Intervals, int]]] = {kind: [] for kind in KINDS}
    work = operations(trace)
    bounds = np.append(np.flatnonzero(np.diff(work.device, prepend=-1)), len(work))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for kind, times in _of_device(trace, slice(first, last)).items():
            found[kind].append((times, int(work.device[first])))
    return {kind: _joined(parts) for kind, parts in found.items()}


def _of_device(trace: Trace, rows: slice) -> dict[str, Intervals]:
    category = operation_categories(trace)[rows]
    compute, communication, copies = (
        np.isin(category, [BUSY_CATEGORIES.index(name) for name in names])
        for names in (COMPUTE, COMMUNICATION, COPIES)
    )
    computing, communicating, copying = (
        _union(trace, rows, chosen) for chosen in (compute, communication, copies)
    )
    kernels = _union(trace, rows, compute | communication)
    return {
        "compute": computing,
        "communication": communicating,
        "compute-and-communication": _both(computing, communicating),
        "exposed-communication": _alone(communicating, computing),
        "copy": copying,
        "copy-and-work": _both(copying, kernels),
        "exposed-copy": _alone(copying, kernels),
        "several-streams": _on_several_streams(trace, rows, np.ones(len(category), np.bool_)),
        "several-streams-computing": _on_several_streams(trace, rows, compute),
        "busy": _union(trace, rows, np.ones(len(category), np.bool_)),
    }


def _union(trace: Trace, rows: slice, chosen: BoolArray) -> Intervals:
    work = operations(trace)
    return union(work.start_ns[rows][chosen], work.end_ns[rows][chosen])


def _both(one: Intervals, other: Intervals) -> Intervals:
    # Shortcut: most recordings have no collectives.
    return intersect(one, other) if len(one.start) and len(other.start) else _NEVER


def _alone(one: Intervals, other: Intervals) -> Intervals:
    return subtract(one, other) if len(one.start) and len(other.start) else one


def _on_several_streams(trace: Trace, rows: slice, chosen: BoolArray) -> Intervals:
    """Return when operations of two or more streams ran concurrently."""
    stream = operations(trace).stream[rows][chosen]
    if not len(stream) or stream.min() == stream.max():
        return _NEVER
    stream = operations(trace).stream[rows]
    each = [_union(trace, rows, chosen & (stream == number)) for number in np.unique(stream)]
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
