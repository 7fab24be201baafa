"""phases: the devices' time by the ranges in which the work was launched."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import COMMUNICATION, COMPUTE
from warpline.derived.breakdown.phases import Phases
from warpline.derived.breakdown.phases import phases as find_phases
from warpline.derived.breakdown.segments import PARTS
from warpline.derived.kernels.categories import BUSY_CATEGORIES
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
from warpline.units import Unit

NAME = "phases"
TITLE = "The devices' time by range"
OUTSIDE = "(outside of all ranges)"
FIELDS = (
    Field("path", Unit.NONE, "Names of the ranges, the outermost first.", "Phase"),
    Field("depth", Unit.COUNT, "How many phases are around it.", "Depth"),
    Field("calls", Unit.COUNT, "Ranges that began in a counted step.", "Calls"),
    Field("time_ratio", Unit.RATIO, "Share of the devices' time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Busy and idle time, with the phases inside.", "Total Time (ns)"),
    Field("self_ns", Unit.NS, "The same without the phases inside.", "Self Time (ns)"),
    Field("compute_ns", Unit.NS, "Time for which it kept a device computing.", "Compute (ns)"),
    Field("communication_ns", Unit.NS, "Time in collectives alone.", "Communication (ns)"),
    Field("copy_ns", Unit.NS, "Time in copies and memory sets alone.", "Copies (ns)"),
    Field("idle_ns", Unit.NS, "Idle time before its work.", "Idle (ns)"),
    Field("largest_part", Unit.NONE, "The largest part of its total time.", "Largest Part"),
    Field("largest_part_ns", Unit.NS, "That part's time.", "Largest Part (ns)"),
)

_COMPUTE = [PARTS.index(name) for name in COMPUTE]
_COMMUNICATION = [PARTS.index(name) for name in COMMUNICATION]
_BUSY = list(range(len(BUSY_CATEGORIES)))
_COPIES = sorted({*_BUSY} - {*_COMPUTE} - {*_COMMUNICATION})
_IDLE = list(range(len(BUSY_CATEGORIES), len(PARTS)))


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments={"name": "name=PATTERN: the ranges that are steps."},
    missing_hint="profile a program that uses a GPU with --trace=cuda,nvtx",
)
def phases(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """The devices' time by the ranges in which the work was launched: forward, layer_7...

    What it measures: For each range name on its path, how long the devices worked for it or were
        idle before its work, over the included steps, or all that was recorded.
    Why it matters: It says in which part of a step, or in which layer, the time of the table
        breakdown went. The outermost phases and what is outside of ranges sum to it exactly.
    How it is computed: Each moment of a device belongs to one operation, as in breakdown: the one
        that it is counted to, or when idle the one that ended the gap. It goes to the innermost
        push/pop range that was open on the launching thread when the launch call began, and to
        all around it. The outermost ranges of a thread that is not the leading one, and launches
        outside of ranges there, go into the range that the leading thread of the process had open:
        so the backward pass, which PyTorch runs on a thread of its own, is in "backward". The
        leading thread is the one with the steps; without steps the one whose ranges last longest.
    Limits: Work that overlaps with other work and is not counted in breakdown is not counted here.
        Start/end ranges are no phases. Idle time before a phase's first operation may have been
        caused by what the host did in the phase before.
    Source: Warpline.
    """
    name = next((text.partition("=")[2] for text in arguments if text.startswith("name=")), None)
    if not trace.has("range") or not trace.row_count("range"):
        return Skipped(NAME, "no ranges were recorded", "profile with --trace=cuda,nvtx")
    found = find_phases(trace, name)
    rows = np.flatnonzero(found.total_ns.any(axis=1) | (found.calls > 0))
    columns = _values(found, rows)
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, columns, ("path",))


def _values(found: Phases, rows: I64) -> dict[str, Values]:
    total = found.total_ns[rows]
    sums = total.sum(axis=1)
    largest = np.argmax(total, axis=1) if len(rows) else np.zeros(0, np.int64)
    largest_ns = total[np.arange(len(rows)), largest]
    whole_ns = int(found.self_ns.sum())
    paths = ["/".join(found.path(row)) or OUTSIDE for row in rows.tolist()]
    parts = np.where(largest_ns > 0, largest, -1).astype(np.int32)
    return {
        "path": column_of(paths) if paths else Texts(np.zeros(0, np.int32), ()),
        "depth": Numbers(found.tree.depth[rows].astype(np.int64)),
        "calls": Numbers(found.calls[rows]),
        "time_ratio": Numbers(sums / max(whole_ns, 1)),
        "total_ns": Numbers(sums),
        "self_ns": Numbers(found.self_ns[rows].sum(axis=1)),
        "compute_ns": Numbers(total[:, _COMPUTE].sum(axis=1)),
        "communication_ns": Numbers(total[:, _COMMUNICATION].sum(axis=1)),
        "copy_ns": Numbers(total[:, _COPIES].sum(axis=1)),
        "idle_ns": Numbers(total[:, _IDLE].sum(axis=1)),
        "largest_part": Texts(parts, PARTS),
        "largest_part_ns": Numbers(largest_ns),
    }
