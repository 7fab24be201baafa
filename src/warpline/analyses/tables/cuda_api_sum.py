"""cuda_api_sum: CUDA API time by function."""

from __future__ import annotations

from warpline.derived.summaries.events import call_durations, without_version
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_api_sum"
TITLE = "CUDA API summary"
FIELDS = time_fields([Field("name", Unit.NONE, "Function.", "Name")], count="Num Calls")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("api_call",),
    aliases=("cudaapisum",),
    default_rank=3,
    missing_hint="profile with --trace=cuda",
)
def cuda_api_sum(trace: Trace, arguments: Arguments) -> Result:
    """Time in CUDA API calls, by function.

    What it measures: Number of calls of each CUDA runtime and driver function, and their duration
        on the calling thread.
    Why it matters: During a call, the thread cannot launch more work. A large share for a
        synchronization or a blocking copy means that the CPU waits for the GPU.
    How it is computed: End minus start of each call, grouped by the recorded name. A four-digit
        version suffix such as _v7000 is not shown. StdDev is the sample standard deviation.
    Limits: A runtime call and the driver call inside it both count. Calls of several threads
        overlap, so the total can exceed the length of the recording. Two versions of one function
        are two rows with the same name.
    Source: Rows, columns and order of `nsys stats -r cuda_api_sum`; P95 and P99 are added by
        Warpline.
    """
    events = call_durations(trace, "api_call")
    names = [without_version(str(label[0])) for label in events.labels]
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": names})
