"""rank_sum: step time, communication and waits of each rank."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, step_overlaps
from warpline.derived.breakdown.partition import ranks_of
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.owners import owner_of
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "rank_sum"
TITLE = "Ranks"
FIELDS = (
    Field("rank", Unit.NONE, "The rank, if known.", "Rank"),
    Field("windows", Unit.COUNT, "Analyzed steps, or parts of the recording.", "Steps"),
    Field("median_ns", Unit.NS, "Median step time.", "Med Step (ns)", digits=1),
    Field("total_ns", Unit.NS, "Sum of the step times.", "Total Time (ns)"),
    Field("busy_ratio", Unit.RATIO, "Busy share.", "Busy (%)", 100.0, 1),
    Field("collective_ns", Unit.NS, "Time in collectives.", "Collectives (ns)"),
    Field("exposed_ns", Unit.NS, "The part without concurrent compute.", "Exposed (ns)"),
    Field("exposed_ratio", Unit.RATIO, "Share of the rank's time.", "Exposed (%)", 100.0, 1),
    Field("wait_ns", Unit.NS, "Kernel time spent waiting for other ranks.", "Waited (ns)"),
    Field("caused_ns", Unit.NS, "Time that other ranks waited for it.", "Others Waited (ns)"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments=STEP_ARGUMENT,
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def rank_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Step time, busy share, communication and waits of each rank.

    What it measures: For each process and GPU, over the included steps: the median and the sum of
        the step times, the busy share, the time in collectives and how much of it is exposed, and
        the waits for other ranks.
    Why it matters: One line per rank shows which one differs, and whether it is slow or waits.
    How it is computed: From the numbers of tables steps, overlap and stragglers. The exposed share
        is of the rank's whole time.
    Limits: Those of these tables. Waits are known only for collectives that are recorded on all
        ranks.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    overlaps, waits = step_overlaps(run), rank_waits(run)
    windows = overlaps.windows
    ranks = ranks_of(windows)
    if not ranks:
        return Skipped(NAME, "no GPU work in the trace", "profile a program that uses a GPU")
    length = windows.end_ns - windows.start_ns
    owners = [owner_of(trace, rank.process, rank.device) for rank in ranks]
    ns = np.array([overlaps.ns[rank.windows].sum(axis=0) for rank in ranks], np.int64)
    total = np.array([length[rank.windows].sum() for rank in ranks], np.int64)
    at = [np.flatnonzero(rank.owns(waits.process, waits.device)) for rank in ranks]
    is_matched = np.array([len(rows) > 0 for rows in at], np.bool_)

    def summed(values: I64) -> Numbers:
        return Numbers(np.array([values[rows].sum() for rows in at], np.int64), is_matched)

    ids = [(owner.rank, owner.pid) for owner in owners]
    values: dict[str, Values] = {
        "rank": _numbers([rank for rank, _ in ids]),
        "windows": Numbers(np.array([len(rank.windows) for rank in ranks], np.int64)),
        "median_ns": Numbers(np.array([np.median(length[rank.windows]) for rank in ranks])),
        "total_ns": Numbers(total),
        "busy_ratio": Numbers(ns[:, OverlapKind.BUSY] / total),
        "collective_ns": Numbers(ns[:, OverlapKind.COMMUNICATION]),
        "exposed_ns": Numbers(ns[:, OverlapKind.EXPOSED_COMMUNICATION]),
        "exposed_ratio": Numbers(ns[:, OverlapKind.EXPOSED_COMMUNICATION] / total),
        "wait_ns": summed(waits.wait_ns),
        "caused_ns": summed(waits.caused_ns),
        "pid": _numbers([pid for _, pid in ids]),
        "gpu_index": Numbers(np.array([owner.gpu_index for owner in owners], np.int64)),
    }
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, ("pid", "gpu_index"))


def _numbers(values: list[int | None]) -> Numbers:
    present = np.array([value is not None for value in values], np.bool_)
    return Numbers(np.array([value or 0 for value in values], np.int64), present)
