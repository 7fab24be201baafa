"""phases: GPU time by the ranges that launched the work."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import COMMUNICATION, COMPUTE, COPIES_AND_MEMSETS
from warpline.derived.breakdown.phases import Phases
from warpline.derived.breakdown.phases import phases as find_phases
from warpline.derived.breakdown.warm_up import excluded_steps
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import IDLE, TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64
from warpline.result import (
    Arguments,
    Field,
    Numbers,
    Result,
    Skipped,
    Texts,
    Values,
    analysis,
    column_of,
)
from warpline.trace import Trace
from warpline.trace.recorder import table_hint
from warpline.units import Unit

NAME = "phases"
TITLE = "GPU time by range"
OUTSIDE = "(outside ranges)"
FIELDS = (
    Field("path", Unit.NONE, "Names of the ranges, outermost first.", "Phase"),
    Field("depth", Unit.COUNT, "Nesting depth.", "Depth"),
    Field("calls", Unit.COUNT, "Ranges that began in an analyzed step.", "Calls"),
    Field("time_ratio", Unit.RATIO, "Share of the GPUs' time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Busy and idle time, including nested phases.", "Total Time (ns)"),
    Field("self_ns", Unit.NS, "Busy and idle time, without nested phases.", "Self Time (ns)"),
    Field("compute_ns", Unit.NS, "Compute time.", "Compute (ns)"),
    Field("communication_ns", Unit.NS, "Time in exposed collectives.", "Communication (ns)"),
    Field("copy_ns", Unit.NS, "Time in exposed copies and memsets.", "Copies (ns)"),
    Field("idle_ns", Unit.NS, "Idle time before its work.", "Idle (ns)"),
    Field("largest_part", Unit.NONE, "Category or idle cause with the most time.", "Largest Part"),
    Field("largest_part_ns", Unit.NS, "Time of the largest part.", "Largest Part (ns)"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments=STEP_ARGUMENT,
    missing_hint="profile a program that uses a GPU with --trace=cuda,nvtx",
)
def phases(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU time by the ranges that launched the work: forward, layer_7...

    What it measures: For each path of range names, the busy time of its work and the idle time
        before it, in the included steps or, without steps, in the whole recording.
    Why it matters: It shows in which part of a step, or in which layer, the time of table
        breakdown went. The outermost phases and the work outside ranges sum to it exactly.
    How it is computed: As in breakdown, each moment of a GPU belongs to one operation: the running
        one, or for idle time the one that ends the gap. Its time goes to the innermost push/pop
        range open on the launching thread when the launch call began, and to all enclosing ranges.
        On other threads than the main one, outermost ranges, and launches outside ranges, belong
        to the range open on the main thread of the process. So the backward pass, which PyTorch
        runs on a separate thread, is in "backward". The main thread is the one with the steps or,
        without steps, the one with the longest total time in ranges.
    Limits: Overlapped work that breakdown does not count is not counted here. Start/end ranges are
        not phases. Idle time before a phase's first operation may be caused by CPU work in the
        previous phase.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    if not trace.has("range") or not trace.row_count("range"):
        hint = table_hint(trace, ("range",), "profile with --trace=cuda,nvtx")
        return Skipped(NAME, "no ranges were recorded", hint)
    tree_times = find_phases(run)
    rows = np.flatnonzero(tree_times.total_ns.any(axis=1) | (tree_times.calls > 0))
    columns = _values(tree_times, rows)
    notes = (excluded_steps(run),) if steps(run).included.any() else ()
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, columns, ("path",), notes)


def _values(tree_times: Phases, rows: I64) -> dict[str, Values]:
    total = tree_times.total_ns[rows]
    sums = total.sum(axis=1)
    largest = np.argmax(total, axis=1) if len(rows) else np.zeros(0, np.int64)
    largest_ns = total[np.arange(len(rows)), largest]
    whole_ns = int(tree_times.self_ns.sum())
    paths = ["/".join(tree_times.path(row)) or OUTSIDE for row in rows.tolist()]
    parts = np.where(largest_ns > 0, largest, -1).astype(np.int32)
    return {
        "path": column_of(paths) if paths else Texts(np.zeros(0, np.int32), ()),
        "depth": Numbers(tree_times.tree.depth[rows].astype(np.int64)),
        "calls": Numbers(tree_times.calls[rows]),
        "time_ratio": Numbers(sums / max(whole_ns, 1)),
        "total_ns": Numbers(sums),
        "self_ns": Numbers(tree_times.self_ns[rows].sum(axis=1)),
        "compute_ns": Numbers(total[:, COMPUTE].sum(axis=1)),
        "communication_ns": Numbers(total[:, COMMUNICATION].sum(axis=1)),
        "copy_ns": Numbers(total[:, COPIES_AND_MEMSETS].sum(axis=1)),
        "idle_ns": Numbers(total[:, IDLE].sum(axis=1)),
        "largest_part": Texts(parts, TimePart.labels()),
        "largest_part_ns": Numbers(largest_ns),
    }
