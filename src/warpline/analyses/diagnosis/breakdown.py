"""breakdown: where each GPU's time went, in parts that sum exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import (
    Partition,
    RankWindows,
    busy_by_origin,
    rank_owners,
    step_partition,
)
from warpline.derived.kernels.rules import Origin
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Run, Trace
from warpline.units import Unit, plural

NAME = "breakdown"
TITLE = "Where the GPUs' time went"
STEPS, ORIGIN = "steps", "origin"
FIELDS = (
    Field("pid", Unit.ID, "The process; empty if several share the GPU.", "PID"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
    Field("kind", Unit.NONE, "busy or idle.", "Kind"),
    Field("category", Unit.NONE, "Category, or cause of idle time.", "Category"),
    Field("share_ratio", Unit.RATIO, "Share of the GPU's time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Total time in the analyzed steps.", "Total Time (ns)"),
    Field("per_step_ns", Unit.NS, "Total time divided by steps.", "Per Step (ns)", digits=1),
    Field("meaning", Unit.NONE, "Meaning of the category.", "Meaning", is_detail=True),
)
_ADDED = {
    STEPS: Field("step", Unit.NONE, "The step.", "Step"),
    ORIGIN: Field("origin", Unit.NONE, "Library of the work; empty for idle time.", "Origin"),
}
_KEYS = {"pid", "gpu_index", "step", "kind", "category", "origin"}
_PART_IS_BUSY = np.array([part.is_busy for part in TimePart])


class _Cells(NamedTuple):
    """Parts of the time of intervals, each a single window or all windows of a rank.

    Attributes:
        interval: Shape (n,), int64, ascending.
        part: Shape (n,), int64, members of `TimePart`.
        origin: Shape (n,), int64, members of `Origin`, or its length for idle time.
        ns: Shape (n,), int64, never 0; descending within busy and within idle time.
    """

    interval: I64
    part: I64
    origin: I64
    ns: I64


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments={
        STEPS: "One row per step and part.",
        ORIGIN: "Divide busy time further by library.",
        **STEP_ARGUMENT,
    },
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def breakdown(trace: Trace, arguments: Arguments) -> Result:
    """Where each GPU's time went: busy time by category, idle time by cause.

    What it measures: The time of the included steps on each GPU, divided into busy time by
        category and idle time by cause. The parts are whole nanoseconds and sum exactly to the
        time of the steps. Without steps, the time from the first to the last operation is divided.
    Why it matters: It shows where to look first. Faster kernels do not help a GPU that waits for
        the CPU, and a faster CPU does not help a busy GPU.
    How it is computed: Each moment counts once. Where operations overlap, compute takes precedence
        over collectives, those over whole graphs, and those over copies. Within these, the order
        of the categories decides, then the earlier start. The cause of a gap follows from the
        launch of the operation that ended it. If the launch arrived before the gap began, the
        operation waited on the GPU (dependency, or communication-wait after a collective). Where
        nothing recorded ran that it could wait for, the cause is unknown, or graph-internal between
        operations of one CUDA graph. Otherwise the CPU was late, and the cause is what blocked its
        thread: a synchronization (host-sync), a pageable copy, the allocator, creating a graph,
        loading code, waiting for input, other waits in the operating system (os-wait), or the
        profiler. A blocking call also accounts for idle time after it, up to the
        time that it cost the CPU while the GPU was still busy. The rest is launch-bound: the CPU
        was launching work, or busy elsewhere. A launch arrives after the launch latency: the
        median latency on an idle GPU in the same recording.
    Limits: A kernel's category follows from its name. Busy does not mean efficient. Time inside a
        collective is mostly waiting for other ranks, which needs the recordings of all ranks to
        separate. Without recorded API calls, causes are unknown. Profiling slows the CPU, so
        without it the launch-bound share is smaller.
    Source: Warpline.
    """
    run, by_step = run_of(trace, arguments), STEPS in arguments
    parts = step_partition(run)
    ns = _by_origin(trace, parts) if ORIGIN in arguments else parts.ns[:, :, None]
    windows = np.concatenate([np.zeros(0, np.int64), *(rank.windows for rank in parts.ranks)])
    rank_of = np.repeat(np.arange(len(parts.ranks)), [len(rank.windows) for rank in parts.ranks])
    if by_step:
        ns = ns[windows]
    else:
        sums = [ns[rank.windows].sum(axis=0) for rank in parts.ranks]
        ns = np.array(sums, np.int64).reshape(len(sums), *ns.shape[1:])
    cells = _cells(ns)
    rank = rank_of[cells.interval] if by_step else cells.interval
    owners = rank_owners(trace, parts.ranks)
    values = _part_values(cells, ns)
    values["pid"] = Numbers(owners.pid[rank], owners.has_pid[rank])
    values["gpu_index"] = Numbers(owners.gpu_index[rank])
    counts = np.array([_step_count(parts, each) for each in parts.ranks], np.int64)[rank]
    counts = np.minimum(counts, 1) if by_step else counts
    values["per_step_ns"] = Numbers(cells.ns / np.maximum(counts, 1), counts > 0)
    if by_step:
        values["step"] = _step_labels(run, parts, windows[cells.interval])
    fields = (*FIELDS, *(_ADDED[name] for name in (STEPS, ORIGIN) if name in arguments))
    columns = {field.name: values[field.name] for field in fields}
    key = tuple(field.name for field in fields if field.name in _KEYS)
    return Result(":".join((NAME, *arguments)), TITLE, fields, columns, key, _notes(run, parts))


def _by_origin(trace: Trace, parts: Partition) -> I64:
    """Return the time of each window by part and origin; idle time has the index after the last."""
    split = busy_by_origin(trace, parts.windows)
    idle = np.where(_PART_IS_BUSY, 0, parts.ns)
    return np.concatenate((split, idle[:, :, None]), axis=2)


def _cells(ns: I64) -> _Cells:
    """Return the non-zero times by interval, part and origin."""
    interval, part, origin = np.nonzero(ns)
    values = ns[interval, part, origin]
    order = np.lexsort((origin, part, -values, ~_PART_IS_BUSY[part], interval))
    return _Cells(interval[order], part[order], origin[order], values[order])


def _part_values(cells: _Cells, ns: I64) -> dict[str, Values]:
    totals = ns.sum(axis=(1, 2))[cells.interval]
    kinds = Texts((~_PART_IS_BUSY[cells.part]).astype(np.int32), ["busy", "idle"])
    part = cells.part.astype(np.int32)
    has_origin = _PART_IS_BUSY[cells.part] & (cells.origin < len(Origin))
    origin = np.where(has_origin, cells.origin, -1).astype(np.int32)
    return {
        "kind": kinds,
        "category": Texts(part, TimePart.labels()),
        "origin": Texts(origin, Origin.labels()),
        "share_ratio": Numbers(cells.ns / totals),
        "total_ns": Numbers(cells.ns),
        "meaning": Texts(part, [part.meaning for part in TimePart]),
    }


def _step_labels(run: Run, parts: Partition, window: I64) -> Texts:
    labels = steps(run).label
    step = parts.windows.step[window]
    known = step >= 0
    codes = np.full(len(step), -1, np.int32)
    codes[known] = labels.codes[step[known]]
    return Texts(codes, labels.values)


def _step_count(parts: Partition, rank: RankWindows) -> int:
    """Return the number of steps among the windows of a rank."""
    return int(np.count_nonzero(parts.windows.step[rank.windows] >= 0))


def _notes(run: Run, parts: Partition) -> tuple[str, ...]:
    """Return notes on the time that the parts divide."""
    counts = [_step_count(parts, rank) for rank in parts.ranks]
    if not counts:
        return ()
    if not any(counts):
        return ("no steps found: times run from a GPU's first to its last operation",)
    source = steps(run).source
    each = (
        plural(counts[0], "step")
        if len({*counts}) == 1
        else f"{min(counts)} to {max(counts)} steps"
    )
    return (f"{each} per GPU, from {source}; list them with `warpline stats -r steps`",)
