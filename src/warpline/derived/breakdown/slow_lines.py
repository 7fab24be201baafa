"""Functions of the program that keep the launching thread busy while GPUs wait for launches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.host_idle import of_longest
from warpline.derived.breakdown.host_lines import Line, Lines, has_lines, running_lines
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.host.states import State
from warpline.derived.idle.silences import ThreadTimes, silences
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.time_parts import TimePart
from warpline.ops.tiling import Grouped, cut
from warpline.trace import Run

_MOST_LINES = 3


class SlowLines(NamedTuple):
    """Launch-bound idle time in which the launching thread runs and makes no CUDA API calls.

    Attributes:
        times: When, and the threads, of the process whose GPU waits longest.
        lines: Where the threads are meanwhile.
        steps: Number of steps of that process, at least 1.
    """

    times: ThreadTimes
    lines: Lines
    steps: int

    def slow(self, least_ns: float) -> tuple[Line, ...]:
        """Return the lines of at least a time per step."""
        most = self.lines.lines[:_MOST_LINES]
        return tuple(line for line in most if line.ns >= max(least_ns, 1.0) * self.steps)


@derived
def slow_lines(run: Run) -> SlowLines | None:
    """Return where launching threads run while GPUs wait for launches; None without samples."""
    if not has_lines(run.trace):
        return None
    idle, count = of_longest(run, TimePart.LAUNCH_BOUND)
    busy = idle.taken((idle.state == State.RUNNING) | (idle.state == State.NOT_RECORDED))
    spans = busy.by_thread()
    # Between launches that follow one another closely, the thread launches work.
    silent = silences(run.trace).times
    order = np.lexsort((silent.start_ns, silent.thread))
    silent = silent.taken(order)
    inside = cut(spans, Grouped(*silent))
    times = ThreadTimes(inside.start_ns, inside.end_ns, spans.group[inside.span])
    return SlowLines(times, running_lines(run.trace, Grouped(*times)), count)


def are_slow(run: Run) -> tuple[Line, ...]:
    """Return the functions that take a measurable part of each step."""
    found = slow_lines(run)
    if found is None:
        return ()
    return found.slow(MEASURABLE_RATIO * step_scope(run).with_pauses_ns)
