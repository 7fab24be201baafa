"""Records that were dropped, cut off, or not read, and ranks that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from warpline.analyses.diagnosis.capture_quality.problem import ROWS_SHOWN, grade, problem
from warpline.lazy import lazy_pattern
from warpline.ops.group import distinct_values
from warpline.result import Evidence, Finding
from warpline.schema import TABLES
from warpline.trace import Trace
from warpline.units import plural

_DROPPED_RATIO = {"high": 0.01, "medium": 0.0001}
_TRUNCATED_RATIO = 0.01
_ESSENTIAL = ("kernel", "memcpy", "memset", "graph_launch", "api_call", "range")
_MATTERS = lazy_pattern(
    r"UNIFIED_MEMORY|_UM_|PAGE_FAULT|MPI|UCX|NVSHMEM|OPENSHMEM|OPENACC|OPENMP", re.IGNORECASE
)


def dropped(trace: Trace) -> Iterator[Finding]:
    """Report dropped records."""
    if not trace.meta.lost:
        return
    recorded = sum(trace.row_count(name) for name in trace.tables if TABLES[name].order)
    for subject, count in trace.meta.lost.items():
        ratio = 0.0 if count is None else count / max(count + recorded, 1)
        severity = "medium" if count is None else grade(ratio, _DROPPED_RATIO) or "low"
        what = f"An unknown number of {subject}" if count is None else f"{count:,} {subject}"
        verb = "was" if count == 1 else "were"
        yield problem(
            severity,
            "Records were dropped",
            f"{what} {verb} dropped. Idle time may include unrecorded work.",
            Evidence(f"Reported by the producer: {subject} dropped", count=count or 0),
            "Record a shorter part of the run, or fewer kinds of events.",
            "Profile again: no dropped records are reported.",
        )


def damaged(trace: Trace) -> Iterator[Finding]:
    """Report tables that could not be read."""
    for table, why in trace.meta.damaged.items():
        yield problem(
            "high" if table in _ESSENTIAL else "low",
            f"Table {table} is unreadable",
            f"The rows of table {table} are missing from the analysis: {why}.",
            Evidence(f"{table}: {why}"),
            "Copy or export the file again. If that does not help, profile again.",
            "warpline summary RECORDING lists no damaged tables.",
        )


def truncated(trace: Trace) -> Iterator[Finding]:
    """Report ranges without a recorded end."""
    if not trace.has("range") or not trace.row_count("range"):
        return
    columns = trace.columns("range", "start_ns", "end_ns", "is_truncated")
    rows = np.flatnonzero(columns["is_truncated"].values)
    every = trace.row_count("range")
    if len(rows) and len(rows) >= _TRUNCATED_RATIO * every:
        first = rows[:ROWS_SHOWN].tolist()
        windows = tuple(
            (int(columns["start_ns"].values[row]), int(columns["end_ns"].values[row]))
            for row in first
        )
        yield problem(
            "info",
            "Ranges still open at the end",
            f"{len(rows):,} of {plural(every, 'range')} have no recorded end. They are cut off at"
            " the end of their process or of the recording.",
            Evidence(
                f"{plural(len(rows), 'range')} cut off", "range", tuple(first), len(rows), windows
            ),
            "Pop or end ranges that are never closed. Otherwise no action is needed.",
            "warpline query RECORDING 'SELECT * FROM range WHERE is_truncated'",
        )


def missing_ranks(trace: Trace) -> Iterator[Finding]:
    """Report ranks that are not in the recording."""
    if not trace.has("collective") or not trace.row_count("collective"):
        return
    columns = trace.columns("collective", "communicator_id", "rank", "rank_count")
    known = columns["rank"].is_valid() & columns["rank_count"].is_valid()
    if not known.any():
        return
    communicator = columns["communicator_id"].filled(-1)[known].astype(np.int64)
    rank, size = columns["rank"].values[known], columns["rank_count"].values[known]
    widest = int(np.argmax(size))
    same = communicator == communicator[widest]
    present = len(distinct_values(rank[same]))
    ranks = f"{present} of {int(size[widest])} ranks"
    if present < int(size[widest]):
        yield problem(
            "info",
            "Some ranks are missing",
            f"{ranks} of a communicator are recorded. Waiting for other ranks cannot be separated"
            " from data transfer.",
            Evidence(ranks, "collective", count=int(same.sum())),
            "Analyze the recordings of all ranks together: warpline analyze RANK0 RANK1 ...",
            "This finding is gone with all ranks.",
        )


def unread(trace: Trace) -> Iterator[Finding]:
    """Report tables that Warpline does not read."""
    tables = {name: rows for name, rows in trace.meta.unread.items() if _MATTERS.search(name)}
    if tables:
        listed = ", ".join(f"{name} ({rows:,} rows)" for name, rows in sorted(tables.items()))
        yield problem(
            "info",
            "Possibly relevant tables are not read",
            f"Warpline does not read these tables of the file: {listed}.",
            Evidence(listed, count=sum(tables.values())),
            "View them in the profiler that wrote the file.",
            "warpline summary RECORDING lists the tables that are not read.",
        )
