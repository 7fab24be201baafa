"""osrt_sum: OS runtime calls by function."""

from __future__ import annotations

from warpline.derived.summaries.events import call_durations
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "osrt_sum"
TITLE = "OS runtime summary"
FIELDS = time_fields([Field("name", Unit.NONE, "Function.", "Name")], count="Num Calls")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("os_call",),
    aliases=("osrtsum",),
    default_rank=2,
    missing_hint="profile with --trace=osrt",
)
def osrt_sum(trace: Trace, arguments: Arguments) -> Result:
    """Time in OS runtime calls, by function.

    What it measures: Number and duration of calls of the C library's blocking or slow functions:
        locks, condition variables, polling, file and network access.
    Why it matters: A launching thread that is blocked in a lock or a read delays the GPU. Waits of
        helper threads, such as a poll in a background thread, are harmless.
    How it is computed: End minus start of each call, grouped by the recorded name.
    Limits: A nested call also counts in the call around it. nsys does not record short calls.
        Calls of several threads overlap, so shares refer to the listed time, not to the
        program's.
    Source: Rows, columns and order of `nsys stats -r osrt_sum`; P95 and P99 are added by Warpline.
    """
    events = call_durations(trace, "os_call")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
