"""breakdown: where each device's time went, in parts that sum exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.part_meanings import PART_MEANINGS
from warpline.derived.breakdown.partition import (
    Lane,
    Partition,
    busy_by_origin,
    lane_owners,
    step_partition,
)
from warpline.derived.breakdown.segments import PARTS, is_busy
from warpline.derived.kernels.categories import ORIGINS
from warpline.derived.steps.times import steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "breakdown"
TITLE = "Where the devices' time went"
STEPS, ORIGIN = "steps", "origin"
FIELDS = (
    Field("pid", Unit.ID, "The process; none where several share the device.", "PID"),
    Field("gpu_index", Unit.ID, "The producer's index of the GPU.", "GPU"),
    Field("kind", Unit.NONE, "busy or idle.", "Kind"),
    Field("category", Unit.NONE, "What ran, or why nothing did.", "Category"),
    Field("share_ratio", Unit.RATIO, "Share of the device's time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Time, over all windows that are counted.", "Total Time (ns)"),
    Field("per_step_ns", Unit.NS, "Total divided by the steps.", "Per Step (ns)", digits=1),
    Field("meaning", Unit.NONE, "What the category says.", "Meaning", is_detail=True),
)
_ADDED = {
    STEPS: Field("step", Unit.NONE, "The step.", "Step"),
    ORIGIN: Field("origin", Unit.NONE, "Whose code ran; none for idle time.", "Origin"),
}
_KEYS = {"pid", "gpu_index", "step", "kind", "category", "origin"}
_PART_IS_BUSY = is_busy(np.arange(len(PARTS), dtype=np.int8))


class _Cells(NamedTuple):
    """Parts of the time of some stretches, which are windows or all windows of a lane.

    Attributes:
        stretch: Shape (n,), int64, ascending.
        part: Shape (n,), int64, places in `PARTS`.
        origin: Shape (n,), int64, places in `ORIGINS`, or one after the last where it has none.
        ns: Shape (n,), int64, never 0; falling within busy and idle time.
    """

    stretch: I64
    part: I64
    origin: I64
    ns: I64


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments={
        STEPS: "One row for each step and part.",
        ORIGIN: "Divide busy time further, by whose code ran.",
    },
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def breakdown(trace: Trace, arguments: Arguments) -> Result:
    """Where each device's time went: what ran, and why nothing did.

    What it measures: The time of the included steps on each device, divided into parts: busy by
        what ran, idle by its cause. The parts are whole nanoseconds and sum to the steps' time
        exactly. Without steps it is the time from a device's first operation to its last.
    Why it matters: It says where to look first: faster kernels do not help a device that waits
        for its host, and a faster host does not help a device that is busy.
    How it is computed: Each moment of a device counts once. Where operations overlap it goes to
        computing before collectives, before whole graphs, before copies; within these in the
        order of the categories, then to what began first. A gap has the cause that follows from
        the launch that ended it. If the launch had arrived before the gap began, the operation
        waited on the device (dependency; communication-wait behind a collective). Otherwise the
        host was late, and what held its thread is the cause: a wait (host-sync), a copy from or
        to pageable memory, the allocator, making a graph, loading code, waiting for data, the
        profiler. A wait is also charged for the idle time after it, up to the time that the host
        lost in it while the device was still busy. What is left is launch-bound: the host was
        issuing work, or doing something else. The arrival of a launch is taken from the
        recording: the median latency of launches on an idle device.
    Limits: Which category a kernel has follows from its name. Busy does not mean well used. Time
        inside a collective is mostly waiting for other ranks, which one rank alone cannot tell.
        Without API calls in the recording the causes are unknown. Recording slows the host, so
        that without it less is launch-bound.
    Source: Warpline.
    """
    found, by_step = step_partition(trace), STEPS in arguments
    ns = _by_origin(trace, found) if ORIGIN in arguments else found.ns[:, :, None]
    windows = np.concatenate([np.zeros(0, np.int64), *(lane.windows for lane in found.lanes)])
    lane_of = np.repeat(np.arange(len(found.lanes)), [len(lane.windows) for lane in found.lanes])
    if by_step:
        ns = ns[windows]
    else:
        sums = [ns[lane.windows].sum(axis=0) for lane in found.lanes]
        ns = np.array(sums, np.int64).reshape(len(sums), *ns.shape[1:])
    cells = _cells(ns)
    lane = lane_of[cells.stretch] if by_step else cells.stretch
    owners = lane_owners(trace, found.lanes)
    values = _part_values(cells, ns)
    values["pid"] = Numbers(owners.pid[lane], owners.has_pid[lane])
    values["gpu_index"] = Numbers(owners.gpu_index[lane])
    counts = np.array([_step_count(found, each) for each in found.lanes], np.int64)[lane]
    counts = np.minimum(counts, 1) if by_step else counts
    values["per_step_ns"] = Numbers(cells.ns / np.maximum(counts, 1), counts > 0)
    if by_step:
        values["step"] = _step_labels(trace, found, windows[cells.stretch])
    fields = (*FIELDS, *(_ADDED[name] for name in (STEPS, ORIGIN) if name in arguments))
    columns = {field.name: values[field.name] for field in fields}
    key = tuple(field.name for field in fields if field.name in _KEYS)
    return Result(":".join((NAME, *arguments)), TITLE, fields, columns, key, _notes(trace, found))


def _by_origin(trace: Trace, found: Partition) -> I64:
    """Return the time of each window by part and origin; idle time has the place after the last."""
    split = busy_by_origin(trace, found.windows)
    idle = np.where(_PART_IS_BUSY, 0, found.ns)
    return np.concatenate((split, idle[:, :, None]), axis=2)


def _cells(ns: I64) -> _Cells:
    """Return what is not 0 of times by stretch, part and origin."""
    stretch, part, origin = np.nonzero(ns)
    values = ns[stretch, part, origin]
    order = np.lexsort((origin, part, -values, ~_PART_IS_BUSY[part], stretch))
    return _Cells(stretch[order], part[order], origin[order], values[order])


def _part_values(cells: _Cells, ns: I64) -> dict[str, Values]:
    totals = ns.sum(axis=(1, 2))[cells.stretch]
    kinds = Texts((~_PART_IS_BUSY[cells.part]).astype(np.int32), ["busy", "idle"])
    part = cells.part.astype(np.int32)
    has_origin = _PART_IS_BUSY[cells.part] & (cells.origin < len(ORIGINS))
    origin = np.where(has_origin, cells.origin, -1).astype(np.int32)
    return {
        "kind": kinds,
        "category": Texts(part, PARTS),
        "origin": Texts(origin, ORIGINS),
        "share_ratio": Numbers(cells.ns / totals),
        "total_ns": Numbers(cells.ns),
        "meaning": Texts(part, [PART_MEANINGS[name] for name in PARTS]),
    }


def _step_labels(trace: Trace, found: Partition, window: I64) -> Texts:
    labels = steps(trace).label
    step = found.windows.step[window]
    known = step >= 0
    codes = np.full(len(step), -1, np.int32)
    codes[known] = labels.codes[step[known]]
    return Texts(codes, labels.values)


def _step_count(found: Partition, lane: Lane) -> int:
    """Return how many steps the windows of a lane are; 0 if they are none."""
    return int(np.count_nonzero(found.windows.step[lane.windows] >= 0))


def _notes(trace: Trace, found: Partition) -> tuple[str, ...]:
    """Return what the parts are of."""
    counts = [_step_count(found, lane) for lane in found.lanes]
    if not counts:
        return ()
    if not any(counts):
        return ("no steps were found: this is from a device's first operation to its last",)
    source = steps(trace).source
    each = (
        plural(counts[0], "step")
        if len({*counts}) == 1
        else f"{min(counts)} to {max(counts)} steps"
    )
    return (f"{each} per device, found by {source}; `warpline stats -r steps` lists them",)
