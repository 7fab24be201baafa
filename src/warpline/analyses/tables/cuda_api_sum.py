"""cuda_api_sum: the time of CUDA calls by function."""

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
    """The time that host threads spent in CUDA functions, by function.

    What it measures: How often each function of the CUDA runtime and driver was called, and how
        long the calls took on the calling thread.
    Why it matters: Time here is time in which the thread cannot launch more work. A large share
        of a synchronisation or a blocking copy says that the host waits for the device.
    How it is computed: End minus start of each call, grouped by the recorded name; a version of
        four digits, such as _v7000, is not shown. The deviation is that of a sample.
    Limits: A runtime call and the driver call inside it are both counted. Calls of several
        threads overlap in time, so the total may exceed the length of the recording. Two
        versions of one function are two rows of the same name.
    Source: Rows, columns and order of `nsys stats -r cuda_api_sum`; P95 and P99 are ours.
    """
    events = call_durations(trace, "api_call")
    names = [without_version(str(label[0])) for label in events.labels]
    return summarize((NAME, *arguments), TITLE, FIELDS, events, {"name": names})
