"""nvtx_startend_sum: the time of start/end ranges by name."""

from __future__ import annotations

from warpline.derived.summaries.events import range_durations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, Skipped, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_startend_sum"
TITLE = "NVTX start/end range summary"
FIELDS = time_fields([Field("name", Unit.NONE, "Range, after its domain and a colon.", "Range")])


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxsesum", "nvtxsssum"),
    missing_hint="profile with --trace=nvtx a program that marks ranges",
)
def nvtx_startend_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """The time of start/end ranges, by name.

    What it measures: How often each range that is started and ended by a handle was entered, and
        how long it lasted; it may end on another thread than it began on.
    Why it matters: As for nvtx_sum, for ranges that overlap or cross threads, such as requests.
    How it is computed: End minus start of each start/end range, grouped by domain and name.
    Limits: Ranges may overlap, so the shares are of a sum that counts a time more than once.
    Source: Rows, columns and order of `nsys stats -r nvtx_startend_sum`; P95 and P99 are ours.
    """
    events = range_durations(trace, "StartEnd")
    if not len(events.values):
        return Skipped(NAME, "the ranges here are all push/pop ranges")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
