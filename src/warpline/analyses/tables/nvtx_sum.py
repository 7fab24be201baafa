"""nvtx_sum: NVTX ranges by name and style."""

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
        Field("name", Unit.NONE, "Range name, prefixed with its domain and a colon.", "Range"),
    ]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    aliases=("nvtxsum",),
    default_rank=1,
    missing_hint="add NVTX ranges to the program and profile with --trace=nvtx",
)
def nvtx_sum(trace: Trace, arguments: Arguments) -> Result:
    """Duration of NVTX ranges on the CPU, by name.

    What it measures: Number of ranges of each name, and their duration on the CPU.
    Why it matters: Ranges show the program's structure: steps, layers, phases. Their spread shows
        steps that are slower than the others.
    How it is computed: End minus start of each range, grouped by domain, name and style. A range
        that is still open ends with its process or with the recording.
    Limits: Times and shares are inclusive: a range includes the ranges nested in it. Times are CPU
        times: GPU work launched in a range may run long after the range ends.
    Source: Rows, columns and order of `nsys stats -r nvtx_sum`; P95 and P99 are added by Warpline.
    """
    events = range_durations(trace)
    labels = {"style": events.texts(1), "name": events.texts(0)}
    return summarize((NAME, *arguments), TITLE, FIELDS, events, labels)
