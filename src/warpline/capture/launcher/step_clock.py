"""When steps began, as the agents count them on the control page."""

from __future__ import annotations

import statistics
from collections import deque

from warpline.capture.session.control import Counters

_MOST = 1000  # steps of which the median is taken
_LEAST = 5  # before, there is no median: the first ones warm up


class StepClock:
    """Follows the steps of a program, or of the ranks of one in lockstep.

    Args:
        kept: How many steps back a time may be asked for.
    """

    def __init__(self, kept: int) -> None:
        self._begins: deque[tuple[int, int]] = deque(maxlen=max(kept, 1) + 2)  # step and time
        self._durations: deque[int] = deque(maxlen=_MOST)
        self.last_ns = 0
        self.last_step = 0

    def look(self, counters: Counters) -> int | None:
        """Take note of the counters. Return how long a step took that has just ended, in ns."""
        ranks = max(counters.step_processes, 1)
        step, began_ns = counters.steps_begun // ranks, counters.step_ns
        if not counters.steps_begun or not self.last_step:
            self._note(step, began_ns)
            return None
        passed = step - self.last_step
        if passed <= 0 or began_ns <= self.last_ns:
            return None
        took = (began_ns - self.last_ns) // passed
        self._note(step, began_ns)
        return took

    def add(self, took_ns: int) -> None:
        """Count a step's duration among those whose median is taken."""
        self._durations.append(took_ns)

    @property
    def median_ns(self) -> float | None:
        """The median duration; None before there are enough steps."""
        return statistics.median(self._durations) if len(self._durations) >= _LEAST else None

    def began_ns(self, back: int) -> int | None:
        """Return when the step so many before the one under way began; None: not seen.

        Where several began between two looks, it is the time of an earlier one.
        """
        found = None
        for step, time_ns in self._begins:
            if step <= self.last_step - back:
                found = time_ns
        return found

    def _note(self, step: int, began_ns: int) -> None:
        if step:
            self.last_step, self.last_ns = step, began_ns
            self._begins.append((step, began_ns))
