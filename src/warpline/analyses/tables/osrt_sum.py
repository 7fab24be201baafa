"""osrt_sum: the time of operating-system calls by function."""

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
    """The time that host threads spent in functions of the operating system, by function.

    What it measures: How often each blocking or slow function of the C library was called, and
        how long the calls took: locks, condition variables, polling, file and network access.
    Why it matters: A thread that feeds the device and waits in a lock or a read delays it.
        Waiting of helper threads, such as a poll in a background thread, is harmless.
    How it is computed: End minus start of each call, grouped by the recorded name.
    Limits: Calls nested in other calls are counted in both. Short calls are not recorded by
        nsys at all. Threads overlap, so shares are of the listed time, not of the program's.
    Source: Rows, columns and order of `nsys stats -r osrt_sum`; P95 and P99 are ours.
    """
    events = call_durations(trace, "os_call")
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": events.texts(0)})
