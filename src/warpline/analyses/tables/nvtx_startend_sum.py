"""nvtx_startend_sum: start/end ranges by name."""

from __future__ import annotations

from warpline.derived.summaries.events import range_durations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, Skipped, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "nvtx_startend_sum"
TITLE = "NVTX start/end range summary"
FIELDS = time_fields(
    [Field("name", Unit.NONE, "Range name, prefixed with its domain and a colon.", "Range")]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxsesum", "nvtxsssum"),
    missing_hint="add NVTX ranges to the program and profile with --trace=nvtx",
)
def nvtx_startend_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Duration of NVTX start/end ranges on the CPU, by name.

    What it measures: Number of start/end ranges of each name, and their duration. Such a range may
        start on one thread and end on another.
    Why it matters: Same as nvtx_sum, for ranges that overlap or cross threads, such as requests.
    How it is computed: End minus start of each start/end range, grouped by domain and name.
    Limits: Ranges may overlap, so the shares refer to a sum that counts some time more than once.
    Source: Rows, columns and order of `nsys stats -r nvtx_startend_sum`; P95 and P99 are added by
        Warpline.
    """
    events = range_durations(trace, "StartEnd")
    if not len(events.values):
        return Skipped(NAME, "all recorded ranges are push/pop ranges")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
