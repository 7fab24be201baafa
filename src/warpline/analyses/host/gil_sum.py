"""gil_sum: how long each thread held Python's global interpreter lock, and waited for it."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.gil import GilSpans, holding, waited_for, waiting
from warpline.derived.host.sample_rows import THREAD_FIELDS, thread_columns, thread_keys
from warpline.ops.arrays import I64
from warpline.ops.group import GroupStats, group_stats
from warpline.ops.interval import covered_by_group
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "gil_sum"
TITLE = "Python GIL by thread"
FIELDS = (
    *THREAD_FIELDS,
    Field(
        "held_ratio",
        Unit.RATIO,
        "Share of the recording's time with the GIL.",
        "Held (%)",
        100.0,
        1,
    ),
    Field("held_ns", Unit.NS, "Time with the GIL.", "Held (ns)"),
    Field("held_count", Unit.COUNT, "How often it held the GIL.", "Held Count"),
    Field("longest_held_ns", Unit.NS, "Longest time with the GIL.", "Longest Held (ns)"),
    Field("waited_ns", Unit.NS, "Time in which it waited for the GIL.", "Waited (ns)"),
    Field("waited_count", Unit.COUNT, "How often it waited.", "Waited Count"),
    Field("longest_wait_ns", Unit.NS, "Longest wait.", "Longest Wait (ns)"),
    Field(
        "blocked_others_ns",
        Unit.NS,
        "Time in which other threads waited while it held the GIL; of several, the sum.",
        "Others Waited (ns)",
    ),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("gil_span",),
    missing_hint="profile with --trace=cuda,nvtx,python-gil",
)
def gil_sum(trace: Trace, arguments: Arguments) -> Result:
    """How long each thread held the GIL of its process, waited for it, and made others wait.

    What it measures: Time with Python's global interpreter lock (GIL), time waiting for it, and how
        long other threads waited meanwhile.
    Why it matters: Only one thread of a process runs Python code at a time. A helper thread that
        computes in Python, such as a logger, delays the one that launches GPU work.
    How it is computed: Sums of recorded times. Others Waited is the time of other threads' waits
        that overlaps the times in which this thread held the GIL.
    Limits: Sampled states of the GIL are as exact as samples are frequent. Python without a GIL has
        none.
    Source: Warpline; nsys records the same states with --trace=python-gil.
    """
    count = trace.row_count("thread")
    held, waited = _stats(holding(trace), count), _stats(waiting(trace), count)
    matrix = waited_for(trace)
    others = matrix.sum(axis=0) - np.diagonal(matrix)
    seen = np.flatnonzero(held.count + waited.count)
    ids = thread_keys(trace, seen)
    thread = seen[np.lexsort((*ids, -waited.sum[seen], -held.sum[seen]))]

    def of(values: I64) -> Numbers:
        return Numbers(values[thread])

    holds = holding(trace)
    covered = covered_by_group(holds.start_ns, holds.end_ns, holds.thread, count)
    recorded = max(trace.recorded_ns(), 1)
    values: dict[str, Values] = {
        **thread_columns(trace, thread),
        "held_ratio": Numbers(covered[thread] / recorded),
        "held_ns": of(held.sum),
        "held_count": of(held.count),
        "longest_held_ns": of(held.max),
        "waited_ns": of(waited.sum),
        "waited_count": of(waited.count),
        "longest_wait_ns": of(waited.max),
        "blocked_others_ns": of(others),
    }
    return Result(
        ":".join((NAME, *arguments)), TITLE, FIELDS, values, ("thread_name", "pid", "tid")
    )


def _stats(spans: GilSpans, count: int) -> GroupStats:
    return group_stats(spans.thread, spans.end_ns - spans.start_ns, count)
