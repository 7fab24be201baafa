"""overlap: what ran at the same time on each device, and what was exposed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.derived.breakdown.overlaps import KINDS, Overlaps, step_overlaps
from warpline.derived.breakdown.partition import lane_owners, lanes_of
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "overlap"
TITLE = "What ran at the same time"
FIELDS = (
    Field("pid", Unit.ID, "The process; none where several share the device.", "PID"),
    Field("gpu_index", Unit.ID, "The producer's index of the GPU.", "GPU"),
    Field("measure", Unit.NONE, "What ran.", "Measure"),
    Field("total_ns", Unit.NS, "Time, over all windows that are counted.", "Total Time (ns)"),
    Field("per_step_ns", Unit.NS, "Total divided by the steps.", "Per Step (ns)", digits=1),
    Field("time_ratio", Unit.RATIO, "Share of the device's time.", "Of Time (%)", 100.0, 1),
    Field("own_ratio", Unit.RATIO, "Share of the kind of work named.", "Of Kind (%)", 100.0, 1),
    Field("of", Unit.NONE, "The kind of work that the share before is of.", "Kind"),
    Field("meaning", Unit.NONE, "What the measure says.", "Meaning", is_detail=True),
)

# The kind that a measure is a part of; nothing where it is one itself.
_WHOLE: Mapping[str, str | None] = {
    "compute": None,
    "communication": None,
    "compute-and-communication": "communication",
    "exposed-communication": "communication",
    "copy": None,
    "copy-and-work": "copy",
    "exposed-copy": "copy",
    "several-streams": "busy",
    "several-streams-computing": "compute",
    "busy": None,
}
_MEANINGS: Mapping[str, str] = {
    "compute": "kernels ran that are no collectives, or whole graphs",
    "communication": "collectives ran",
    "compute-and-communication": "collectives ran behind computing",
    "exposed-communication": "collectives ran, and nothing was computed",
    "copy": "bytes were copied to, from, within or between devices",
    "copy-and-work": "copies ran behind kernels",
    "exposed-copy": "copies ran, and no kernel did",
    "several-streams": "operations of at least two streams ran",
    "several-streams-computing": "computing kernels of at least two streams ran",
    "busy": "anything ran",
}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def overlap(trace: Trace, arguments: Arguments) -> Result:
    """What ran at the same time on each device, and what nothing else hid.

    What it measures: For how long kernels computed, collectives and copies ran, and for how long
        they ran together or alone, in the included steps; for how long several streams ran.
    Why it matters: Communication and copies that run behind computing cost little. Those that are
        exposed make the step longer by their whole time.
    How it is computed: Unions of the operations' intervals on each device, their intersections
        and differences, cut to the included steps; without steps, from a device's first operation
        to its last. The shares are of that time, and of the kind of work named beside them.
    Limits: Operations that share a device also slow each other down: hidden is not free. Whole
        graphs count as computing, as the recording does not say what is in them. Time in a
        collective is mostly waiting for other ranks.
    Source: Warpline.
    """
    found = step_overlaps(trace)
    lanes = lanes_of(found.windows)
    sums = [found.ns[lane.windows].sum(axis=0) for lane in lanes]
    ns = np.array(sums, np.int64).reshape(len(lanes), len(KINDS))
    lane, kind = np.nonzero(ns)
    owners = lane_owners(trace, lanes)
    steps = np.array([_step_count(found, each.windows) for each in lanes], np.int64)[lane]
    length = found.windows.end_ns - found.windows.start_ns
    totals = np.array([length[each.windows].sum() for each in lanes], np.int64)[lane]
    values: dict[str, Values] = {
        "pid": Numbers(owners.pid[lane], owners.has_pid[lane]),
        "gpu_index": Numbers(owners.gpu_index[lane]),
        "measure": Texts(kind.astype(np.int32), KINDS),
        "total_ns": Numbers(ns[lane, kind]),
        "per_step_ns": Numbers(ns[lane, kind] / np.maximum(steps, 1), steps > 0),
        "time_ratio": Numbers(ns[lane, kind] / np.maximum(totals, 1)),
        **_shares(ns, lane, kind),
        "meaning": Texts(kind.astype(np.int32), [_MEANINGS[name] for name in KINDS]),
    }
    return Result(NAME, TITLE, FIELDS, values, ("pid", "gpu_index", "measure"))


def _step_count(found: Overlaps, windows: I64) -> int:
    return int(np.count_nonzero(found.windows.step[windows] >= 0))


def _shares(ns: I64, lane: I64, kind: I64) -> dict[str, Values]:
    """Return each measure's share of the kind of work that it is a part of."""
    whole = np.array([_place(_WHOLE[name]) for name in KINDS], np.int64)[kind]
    has_whole = whole >= 0
    base = ns[lane, np.where(has_whole, whole, 0)]
    return {
        "own_ratio": Numbers(ns[lane, kind] / np.maximum(base, 1), has_whole),
        "of": Texts(whole.astype(np.int32), KINDS),
    }


def _place(name: str | None) -> int:
    return -1 if name is None else KINDS.index(name)
