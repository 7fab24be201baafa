"""cpu-oversubscribed: the launching thread could run, but other threads have its CPU core."""

from __future__ import annotations

from warpline.derived.breakdown.lost_time import how_often, longest_first, without
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.breakdown.stopped import named_thread, running_instead, stopped
from warpline.derived.idle.os_waits import PREEMPTED
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.result import Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "cpu-oversubscribed"
TITLE = "The launching thread waits for a CPU core while the GPU is idle"

_REMAINING = Estimate(0.0, 0.0, 0.25)
_MOST = 0.5
_LEAST_LINE = 0.1


@rule(name=NAME, title=TITLE)
def cpu_oversubscribed(run: Run) -> list[Finding]:
    """Idle time of the GPU while the thread that launches work is preempted.

    What it finds: Time in which the thread that launches the next operation could run but was not
        scheduled, of at least 5% of the step, while the GPU is idle.
    Why it matters: More threads want to run than there are CPU cores for them. The GPU waits for
        its launches meanwhile.
    How it is found: Context switches that took a running thread off its core, until the one that
        brought it back, whatever the thread was doing: a CUDA API call in which it is preempted is
        not the cause of that time. What ran instead follows from the context switches of that core.
    What to do: Start fewer threads, or give the program more cores.
    Limits: Needs context switches with the state of the thread (--cpuctxsw=process-tree). A thread
        that was woken up and waits for a core counts as blocked. Threads of other programs are not
        recorded.
    Source: The Linux manual page sched(7).
    """
    waits = stopped(run, PREEMPTED)
    if waits.share < MEASURABLE_RATIO:
        return []
    scope, times = step_scope(run), ThreadTimes(*waits.waits[:3])
    often, where = how_often(run, TimePart.OS_WAIT)
    return [
        Finding(
            NAME,
            severity_of(waits.share) if often else "low",
            f"The launching thread waits for a CPU core while the GPU is idle"
            f" {format_ratio(waits.share)} of the time",
            f"GPU idle {format_ns(waits.ns)}{scope.each} ({format_ratio(waits.share)}) while the"
            f" launching thread could run but is not scheduled.{_instead(run)}{where}",
            (longest_first(plural(len(times.thread), "wait"), times),),
            "Start fewer threads and processes than CPU cores (DataLoader workers, OMP_NUM_THREADS,"
            " torch.set_num_threads). Check which cores the program may use (taskset -p PID) and"
            " the CPU limit of its container. Stop other programs on the machine.",
            "Profile again with --cpuctxsw=process-tree: `warpline analyze` shows no"
            " cpu-oversubscribed.",
            fix_cuda="Start fewer threads than CPU cores. Check which cores the program may use"
            " (taskset -p PID) and the CPU limit of its container. Stop other programs on the"
            " machine.",
            changes=without(times, _REMAINING) if often else (),
            share=waits.share,
        )
    ]


def _instead(run: Run) -> str:
    """Return a sentence about what runs on the core meanwhile."""
    other = running_instead(run)
    if other is None or other.known < _MOST:
        return " Threads of other programs run on its core instead."
    line = other.lines.main(_LEAST_LINE)
    where = f", mostly in {line.text}" if line else ""
    thread = named_thread(run.trace, other.thread)
    return f" Its core runs {thread} {format_ratio(other.ratio)} of that time{where}."
