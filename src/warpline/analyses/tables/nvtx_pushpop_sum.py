"""nvtx_pushpop_sum: the time of push/pop ranges by name."""

from __future__ import annotations

from warpline.derived.summaries.events import range_durations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, Skipped, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_pushpop_sum"
TITLE = "NVTX push/pop range summary"
FIELDS = time_fields([Field("name", Unit.NONE, "Range, after its domain and a colon.", "Range")])


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxppsum",),
    missing_hint="profile with --trace=nvtx a program that marks ranges",
)
def nvtx_pushpop_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """The time of push/pop ranges, by name.

    What it measures: How often each range that is pushed and popped on one thread was entered,
        and how long it lasted on the host.
    Why it matters: As for nvtx_sum, for the ranges that nest properly.
    How it is computed: End minus start of each push/pop range, grouped by domain and name.
    Limits: Times are inclusive: a range counts what is nested in it, and so do the shares.
    Source: Rows, columns and order of `nsys stats -r nvtx_pushpop_sum`; P95 and P99 are ours.
    """
    events = range_durations(trace, "PushPop")
    if not len(events.values):
        return Skipped(NAME, "the ranges here are all start/end ranges")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
