"""Step sampling: which steps of a long run are recorded, and what happens when no step is seen.

The agents count steps and turn themselves on and off. The launcher steps in twice: while no process
has begun a step it records by time instead, and it ends a sample in which no further step begins.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpline.capture.control import ControlFile, State

WINDOW_S = 0.5  # recorded at a time while no step is seen
FIRST_S = 2.0  # the first of these begins so long after the program's first call of NVTX or CUDA
_POLL_S = 0.05
_STALLED_S = 60.0  # a sample in which no step begins for so long rests until one does


@dataclass(frozen=True)
class Sampling:
    """What was asked for.

    Attributes:
        steps: Steps to record of each `every`; 0: chosen from how long steps take.
        every: See there; 0: chosen.
        duty: The share of the steps that is recorded.
        range_name: The NVTX range that begins a step; None for usual names.
        range_domain: Its domain; None for any.
        by_calls: Whether cudaProfilerStart begins a step instead.
    """

    steps: int
    every: int
    duty: float
    range_name: str | None = None
    range_domain: str | None = None
    by_calls: bool = False

    @classmethod
    def of(
        cls,
        steps: int | None,
        every: int | None,
        duty: float | None,
        *,
        step_range: tuple[str, str | None] | None,
        by_calls: bool,
    ) -> Sampling:
        """Return what the flags ask for, where they do not contradict each other."""
        if duty is None:
            steps, every = steps or 1, every or 1
            duty = steps / every
        elif steps is not None:
            every = math.ceil(steps / duty)
        name, domain = step_range or (None, None)
        if name is not None and domain is None:
            domain = "default"
        return cls(steps or 0, every or 0, duty, name, domain, by_calls)


class TimeSampling:
    """What the launcher does while a sampled program runs; `look` it up often.

    Args:
        control: The session's control page.
        sampling: What was asked for.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        control: ControlFile,
        sampling: Sampling,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._period = WINDOW_S / sampling.duty
        self._now = now
        self._first: float | None = None  # when the first window begins, once that is known
        self._steps = 0
        self._step_at = now()
        self._is_stalled = False
        self._opened_ns: int | None = None
        self.windows: list[tuple[int, int]] = []

    def look(self) -> None:
        """Do what is due."""
        counters = self._control.counters()
        if counters.step_processes:
            self._close()
            self._guard(counters.steps_begun, is_open=bool(counters.windows_open))
            return
        if self._first is None and counters.attached:
            self._first = self._now() + min(self._period - WINDOW_S, FIRST_S)
        passed = -1.0 if self._first is None else self._now() - self._first
        wants = passed >= 0 and passed % self._period < WINDOW_S
        state = self._control.state
        if wants and state is State.RECORDING:
            self._opened_ns = time.monotonic_ns()
            self._control.resume(State.TIME_WINDOW)
        elif not wants:
            self._close()

    def next(self) -> float:
        """Return how many seconds may pass until `look` is due again, at most."""
        if self._first is None or self._opened_ns is not None:
            return _POLL_S  # a process may begin, or its steps
        return max(-(self._now() - self._first) % self._period, 0.0)

    def end(self) -> None:
        """Note the end of a window that is open."""
        self._close()

    def facts(self) -> dict[str, Any]:
        """Return what session.json is to say: which parts were recorded by time."""
        return {"time_windows": [list(window) for window in self.windows]} if self.windows else {}

    def _close(self) -> None:
        if self._opened_ns is None:
            return
        if self._control.state is State.TIME_WINDOW:
            self._control.state = State.RECORDING
        self.windows.append((self._opened_ns, time.monotonic_ns()))
        self._opened_ns = None

    def _guard(self, steps: int, *, is_open: bool) -> None:
        now = self._now()
        if steps != self._steps or not is_open:
            self._steps, self._step_at = steps, now
            if self._is_stalled and self._control.state is State.WAITING:
                self._control.resume(State.RECORDING)
            self._is_stalled = False
        elif now - self._step_at > _STALLED_S and self._control.state is State.RECORDING:
            self._is_stalled = True
            self._control.state = State.WAITING
