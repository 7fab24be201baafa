"""gil-contention: the launching thread waits for Python's GIL while the GPU is idle."""

from __future__ import annotations

from warpline.derived.breakdown.lost_time import how_often, longest_first, without
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.breakdown.stopped import gil_holder, named_thread, stopped
from warpline.derived.idle.os_waits import GIL
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.result import Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "gil-contention"
TITLE = "The launching thread waits for the GIL while the GPU is idle"

# Of the waits: threads that run less Python code still take the GIL now and then.
_REMAINING = Estimate(0.0, 0.0, 0.5)
_LEAST_LINE = 0.1


@rule(name=NAME, title=TITLE)
def gil_contention(run: Run) -> list[Finding]:
    """Idle time of the GPU while the thread that launches work waits for Python's GIL.

    What it finds: Waits for the global interpreter lock of at least 5% of the step, on the thread
        that launches the next operation, while the GPU is idle.
    Why it matters: One thread of a process runs Python code at a time. A thread that computes in
        Python keeps the GIL for 5 ms at a time, and the launching thread launches nothing.
    How it is found: The recorded times in which threads held the GIL and waited for it. The holder
        is the thread with most of the time of these waits, its function that of its samples.
    What to do: Move the work of the other thread to a process, or to code that releases the GIL.
    Limits: Needs the GIL in the recording (--trace=python-gil). It is sampled: short waits may be
        missing, and times are exact to the sampling period.
    Source: Python's documentation of sys.setswitchinterval.
    """
    waits = stopped(run, GIL)
    if waits.share < MEASURABLE_RATIO:
        return []
    scope, times = step_scope(run), ThreadTimes(*waits.waits[:3])
    often, where = how_often(run, TimePart.OS_WAIT)
    return [
        Finding(
            NAME,
            severity_of(waits.share) if often else "low",
            f"The launching thread waits for the GIL while the GPU is idle"
            f" {format_ratio(waits.share)} of the time",
            f"GPU idle {format_ns(waits.ns)}{scope.each} ({format_ratio(waits.share)}) while the"
            f" launching thread waits for Python's GIL.{_holder(run)}{where}",
            (longest_first(plural(len(times.thread), "wait"), times),),
            "Move the Python work of the other thread to another process (multiprocessing), or to"
            " code that releases the GIL, such as NumPy or PyTorch operations on large arrays. Let"
            " it work less often. If it only polls, let it sleep longer.",
            "Profile again with --trace=python-gil: `warpline analyze` shows no gil-contention.",
            changes=without(times, _REMAINING) if often else (),
            share=waits.share,
        )
    ]


def _holder(run: Run) -> str:
    """Return a sentence about the thread that holds the GIL; empty if unknown."""
    other = gil_holder(run)
    if other is None:
        return ""
    line = other.lines.main(_LEAST_LINE)
    where = f", mostly in {line.text}" if line else ""
    thread = named_thread(run.trace, other.thread)
    return f" GIL held by {thread} {format_ratio(other.ratio)} of that time{where}."
