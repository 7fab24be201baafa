"""What findings about lost CPU time share: their evidence, their changes, and in how many steps."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.result import Evidence
from warpline.result.changes import RemoveHostTime
from warpline.trace import Run
from warpline.units import plural

_SHOWN = 5
MOST_STEPS = 0.5  # of the steps: a wait in fewer steps does not affect the median step


def longest_first(text: str, times: ThreadTimes) -> Evidence:
    """Return times of threads as evidence, the longest first."""
    longest = np.argsort(times.start_ns - times.end_ns, kind="stable")[:_SHOWN]
    windows = zip(times.start_ns[longest].tolist(), times.end_ns[longest].tolist(), strict=True)
    return Evidence(f"{text}, longest first", None, (), len(times.thread), tuple(windows))


def without(times: ThreadTimes, remaining: Estimate) -> tuple[RemoveHostTime, ...]:
    """Return the changes that remove times of threads, except for a share that may remain."""
    threads = np.unique(times.thread).tolist()
    of_threads = [(thread, times.taken(times.thread == thread)) for thread in threads]
    return tuple(
        RemoveHostTime(thread, own.start_ns, own.end_ns, remaining) for thread, own in of_threads
    )


def how_often(run: Run, cause: TimePart) -> tuple[bool, str]:
    """Return whether most steps wait for a cause, as a saving requires, and a sentence if not."""
    parts, scope = step_partition(run), step_scope(run)
    idle_ns = parts.ns[:, cause]
    length = parts.windows.end_ns - parts.windows.start_ns
    many = int(np.count_nonzero((idle_ns >= MEASURABLE_RATIO * length) & (idle_ns > 0)))
    if not scope.has_steps or many > MOST_STEPS * len(length):
        return True, ""
    return False, f" Affects only {many:,} of {plural(len(length), 'step')}."
