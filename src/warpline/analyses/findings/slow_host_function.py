"""slow-host-function: one function of the program keeps the CPU busy while the GPU is idle."""

from __future__ import annotations

from warpline.derived.breakdown.fault_time import fault_time
from warpline.derived.breakdown.host_lines import Line
from warpline.derived.breakdown.lost_time import how_often, longest_first, without
from warpline.derived.breakdown.slow_lines import SlowLines, are_slow, slow_lines
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.ops.tiling import Grouped
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "slow-host-function"
TITLE = "One function keeps the CPU busy while the GPU is idle"

# Of the function's time: work that moves to another thread takes none, a faster function some.
_STAYS_AT_MOST = 0.5
_SHOWN = 5


@rule(name=NAME, title=TITLE)
def slow_host_function(run: Run) -> list[Finding]:
    """A function on the launching thread that takes at least 5% of the step while the GPU is idle.

    What it finds: Up to three functions of the program in which the launching thread runs, without
        a CUDA API call for at least 50 us, while the GPU is launch-bound.
    Why it matters: The GPU waits for this function, and does not wait if it runs elsewhere.
    How it is found: CPU samples of the thread in these times, or else the running ones of its
        Python samples. A sample counts for the innermost function of the program's own code: for
        time in a library, the line that called it.
    What to do: Make the function faster, run it less often, or move it to another thread or
        process.
    Limits: Needs samples (-s process-tree --python-sampling=true). Shares of samples have an error:
        100 samples give a share to about 10%. The upper bound of the saving assumes that the
        function takes no time.
    Source: Warpline.
    """
    found, lines = slow_lines(run), are_slow(run)
    if found is None:
        return []
    return [_finding(run, found, line) for line in lines]


def _finding(run: Run, found: SlowLines, line: Line) -> Finding:
    scope, ns = step_scope(run), line.ns / found.steps
    share, part = scope.share_of_all(ns), line.ns / max(found.lines.ns, 1.0)
    often, where = how_often(run, TimePart.LAUNCH_BOUND)
    faults = fault_time(run.trace, Grouped(*found.times))
    stays = Estimate(1 - part, 1 - part, 1 - part * _STAYS_AT_MOST)
    samples = Evidence(
        f"{plural(found.lines.samples, 'sample')} in the CPU gaps",
        found.lines.table,
        found.lines.rows[:_SHOWN],
        found.lines.samples,
    )
    return Finding(
        NAME,
        severity_of(share) if often else "low",
        f"The GPU waits {format_ratio(share)} of the time for {line.text}",
        f"GPU idle {format_ns(ns)}{scope.each} ({format_ratio(share)}) while the launching thread"
        f" runs {line.text}, without a CUDA API call.{faults.claim}{where}",
        (samples, longest_first(plural(len(found.times.thread), "CPU gap"), found.times)),
        "Make this function faster, call it less often, or move it to another thread or process,"
        f" so that it does not delay launches.{faults.fix}",
        "Profile again with -s process-tree --python-sampling=true: `warpline analyze` shows less"
        " time in this function.",
        fix_cuda="Make this function faster, call it less often, or move it to another thread, so"
        f" that it does not delay launches.{faults.fix}",
        changes=without(found.times, stays) if often else (),
        share=share,
    )
