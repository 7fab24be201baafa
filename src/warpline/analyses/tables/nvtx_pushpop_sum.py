"""nvtx_pushpop_sum: push/pop ranges by name."""

from __future__ import annotations

from warpline.derived.summaries.events import range_durations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, Skipped, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_pushpop_sum"
TITLE = "NVTX push/pop range summary"
FIELDS = time_fields(
    [Field("name", Unit.NONE, "Range name, prefixed with its domain and a colon.", "Range")]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxppsum",),
    missing_hint="add NVTX ranges to the program and profile with --trace=nvtx",
)
def nvtx_pushpop_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Duration of NVTX push/pop ranges on the CPU, by name.

    What it measures: Number of push/pop ranges of each name, and their duration on the CPU.
    Why it matters: Same as nvtx_sum, for ranges that nest properly on one thread.
    How it is computed: End minus start of each push/pop range, grouped by domain and name.
    Limits: Times and shares are inclusive: a range includes the ranges nested in it.
    Source: Rows, columns and order of `nsys stats -r nvtx_pushpop_sum`; P95 and P99 are added by
        Warpline.
    """
    events = range_durations(trace, "PushPop")
    if not len(events.values):
        return Skipped(NAME, "all recorded ranges are start/end ranges")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
