"""When steps began, as the agents count them on the control page."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

from warpline.capture.session.control import CONTROL_STEPS, Counters

_MOST = 1000  # steps of which the median is taken
_LEAST = 5  # before, there is no median: the first ones warm up


class StepClock:
    """Follows the steps of a program, or of the ranks of one in lockstep.

    Args:
        kept: How many steps back a time may be asked for.

    Attributes:
        last: The number of the step under way, from 0; -1 before the first.
    """

    def __init__(self, kept: int) -> None:
        self._begins: deque[tuple[int, int]] = deque(maxlen=max(kept, 1) + 2)  # step and time
        self._durations: deque[int] = deque()
        self._sorted: list[int] = []  # the same
        self.last = -1

    def look(self, counters: Counters) -> list[tuple[int, int]]:
        """Return the steps that have ended since the last look: number and duration in ns.

        Where there were more than the page has, the first of them are one.
        """
        ranks = max(counters.step_processes, 1)
        newest = (counters.steps_begun - 1) // ranks
        oldest = (counters.steps_begun - CONTROL_STEPS) // ranks + 1
        ended = []
        for step in range(max(self.last + 1, oldest), newest + 1):
            # The ranks begin it one after another: it begins with the first.
            began_ns = counters.step_ns[step * ranks % CONTROL_STEPS]
            before_ns = self._begins[-1][1] if self._begins else began_ns
            if began_ns < before_ns or not began_ns:
                break  # its time is not there yet
            if self._begins:
                ended.append((step - 1, began_ns - before_ns))
            self.last = step
            self._begins.append((step, began_ns))
        return ended

    def add(self, took_ns: int) -> None:
        """Count a step's duration among those whose median is taken."""
        self._durations.append(took_ns)
        insort(self._sorted, took_ns)
        if len(self._durations) > _MOST:
            del self._sorted[bisect_left(self._sorted, self._durations.popleft())]

    @property
    def median_ns(self) -> float | None:
        """The median duration; None before there are enough steps."""
        count = len(self._sorted)
        middle = self._sorted[(count - 1) // 2] + self._sorted[count // 2] if count else 0
        return middle / 2 if count >= _LEAST else None

    def began_ns(self, back: int) -> int | None:
        """Return when the step so many before the one under way began; None: not known."""
        return next((ns for step, ns in reversed(self._begins) if step <= self.last - back), None)
