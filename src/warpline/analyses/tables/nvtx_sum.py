"""nvtx_sum: the time of ranges by name and style."""

from __future__ import annotations

from warpline.derived.summaries.events import range_durations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_sum"
TITLE = "NVTX range summary"
FIELDS = time_fields(
    [
        Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
        Field("name", Unit.NONE, "Range, after its domain and a colon.", "Range"),
    ]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxsum",),
    default_rank=1,
    missing_hint="profile with --trace=nvtx a program that marks ranges",
)
def nvtx_sum(trace: Trace, arguments: Arguments) -> Result:
    """The time of the ranges that a program marked, by name.

    What it measures: How often each range was entered, and how long it lasted on the host.
    Why it matters: Ranges are the program's own words: steps, layers, phases. Their spread
        shows steps that are slower than the others.
    How it is computed: End minus start of each range, grouped by domain, name and style. A range
        that was still open ends with its process, or where the recording ends.
    Limits: Times are inclusive: a range counts what is nested in it, and so do the shares. It is
        host time; the device may run what was launched in a range long after it ended.
    Source: Rows, columns and order of `nsys stats -r nvtx_sum`; P95 and P99 are ours.
    """
    events = range_durations(trace)
    labels = {"style": events.texts(1), "name": events.texts(0)}
    return summarize((NAME, *arguments), TITLE, FIELDS, events, labels)
