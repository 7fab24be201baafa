"""overlap: concurrent and exposed work on each GPU."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, Overlaps, step_overlaps
from warpline.derived.breakdown.partition import rank_owners, ranks_of
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "overlap"
TITLE = "Overlap of compute, communication and copies"
FIELDS = (
    Field("pid", Unit.ID, "The process; empty if several share the GPU.", "PID"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
    Field("measure", Unit.NONE, "Kind of work or overlap.", "Measure"),
    Field("total_ns", Unit.NS, "Total time in the analyzed steps.", "Total Time (ns)"),
    Field("per_step_ns", Unit.NS, "Total time divided by steps.", "Per Step (ns)", digits=1),
    Field("time_ratio", Unit.RATIO, "Share of the GPU's time.", "Of Time (%)", 100.0, 1),
    Field("own_ratio", Unit.RATIO, "Share of the time of `of`.", "Of Kind (%)", 100.0, 1),
    Field("of", Unit.NONE, "The kind of work that own_ratio refers to.", "Kind"),
    Field("meaning", Unit.NONE, "Meaning of the measure.", "Meaning", is_detail=True),
)

_NONE = -1
# The kind of work that a measure is a part of; kinds of work themselves have none.
_WHOLE: Mapping[OverlapKind, OverlapKind] = {
    OverlapKind.COMPUTE_AND_COMMUNICATION: OverlapKind.COMMUNICATION,
    OverlapKind.EXPOSED_COMMUNICATION: OverlapKind.COMMUNICATION,
    OverlapKind.COPY_AND_WORK: OverlapKind.COPY,
    OverlapKind.EXPOSED_COPY: OverlapKind.COPY,
    OverlapKind.SEVERAL_STREAMS: OverlapKind.BUSY,
    OverlapKind.SEVERAL_STREAMS_COMPUTING: OverlapKind.COMPUTE,
}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments=STEP_ARGUMENT,
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def overlap(trace: Trace, arguments: Arguments) -> Result:
    """Overlap of compute, communication and copies on each GPU.

    What it measures: The time of compute, collectives and copies in the included steps, how much of
        it is overlapped or exposed, and the time during which several streams are busy.
    Why it matters: Communication and copies that overlap with compute take little extra time.
        Exposed ones lengthen the step by their full duration.
    How it is computed: Unions, intersections and differences of the operations' intervals on each
        GPU, restricted to the included steps or, without steps, to the time from the first to the
        last operation. Shares are of that time, and of the kind of work in column `of`.
    Limits: Overlapping operations slow each other down, so overlap is not free. Whole graphs count
        as compute, as their content is not recorded. Time in a collective is mostly waiting for
        other ranks.
    Source: Warpline.
    """
    overlaps = step_overlaps(run_of(trace, arguments))
    ranks = ranks_of(overlaps.windows)
    sums = [overlaps.ns[rank.windows].sum(axis=0) for rank in ranks]
    ns = np.array(sums, np.int64).reshape(len(ranks), len(OverlapKind))
    rank, kind = np.nonzero(ns)
    owners = rank_owners(trace, ranks)
    steps = np.array([_step_count(overlaps, each.windows) for each in ranks], np.int64)[rank]
    length = overlaps.windows.end_ns - overlaps.windows.start_ns
    totals = np.array([length[each.windows].sum() for each in ranks], np.int64)[rank]
    values: dict[str, Values] = {
        "pid": Numbers(owners.pid[rank], owners.has_pid[rank]),
        "gpu_index": Numbers(owners.gpu_index[rank]),
        "measure": Texts(kind.astype(np.int32), OverlapKind.labels()),
        "total_ns": Numbers(ns[rank, kind]),
        "per_step_ns": Numbers(ns[rank, kind] / np.maximum(steps, 1), steps > 0),
        "time_ratio": Numbers(ns[rank, kind] / np.maximum(totals, 1)),
        **_shares(ns, rank, kind),
        "meaning": Texts(kind.astype(np.int32), [kind.meaning for kind in OverlapKind]),
    }
    return Result(
        ":".join((NAME, *arguments)), TITLE, FIELDS, values, ("pid", "gpu_index", "measure")
    )


def _step_count(overlaps: Overlaps, windows: I64) -> int:
    return int(np.count_nonzero(overlaps.windows.step[windows] >= 0))


def _shares(ns: I64, rank: I64, kind: I64) -> dict[str, Values]:
    """Return each measure's share of its kind of work."""
    whole = np.array([int(_WHOLE.get(each, _NONE)) for each in OverlapKind], np.int64)[kind]
    has_whole = whole >= 0
    base = ns[rank, np.where(has_whole, whole, 0)]
    return {
        "own_ratio": Numbers(ns[rank, kind] / np.maximum(base, 1), has_whole),
        "of": Texts(whole.astype(np.int32), OverlapKind.labels()),
    }
