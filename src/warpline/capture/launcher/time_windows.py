"""Sampling without steps: time windows, recorded until a process starts a step.

The agents count steps and turn recording on and off. The launcher has two tasks: before any process
starts a step, it records time windows instead, and it ends a sample in which no further step
starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from warpline.capture.session.control import ControlFile, State
from warpline.capture.session.sampling import WINDOW_S, Sampling

FIRST_S = 2.0  # the first window starts this long after the program's first NVTX or CUDA call
_POLL_S = 0.05
# For processes whose steps begin later than those of others.
_LEAST_PATIENCE_S, _MOST_PATIENCE_S = 1.0, 5.0
_STALLED_S = 60.0  # a sample without a new step for this long pauses until one starts


class TimeSampling:
    """The launcher's part of sampling; call `look` frequently while the program runs.

    Args:
        control: The session's control page.
        sampling: The requested sampling.
        now: The monotonic clock, in seconds.
        is_steps_only: Whether nothing is recorded before the first step.
        processes: How many processes are known to be recorded.

    Attributes:
        is_steps_only: Whether nothing is recorded before the first step: as given, or because there
            is only one sample.
        windows: The recorded time windows, in monotonic ns.
    """

    def __init__(
        self,
        control: ControlFile,
        sampling: Sampling,
        now: Callable[[], float] = time.monotonic,
        *,
        is_steps_only: bool = False,
        processes: int = 1,
    ) -> None:
        self._control = control
        self._is_once = sampling.is_once
        self._processes = processes
        self.is_steps_only = is_steps_only or sampling.is_once
        self._period = WINDOW_S / sampling.duty
        self._rests = sampling.duty < 1
        self._now = now
        self._began = now()
        self._ended: float | None = None  # when the last process ended the only sample
        self._first: float | None = None  # when the first window starts, once known
        self._steps = 0
        self._step_at = now()
        self._is_stalled = False
        self._opened_ns: int | None = None
        self.windows: list[tuple[int, int]] = []

    def look(self) -> None:
        """Open or close a time window, or end a stalled sample, if it is due."""
        counters = self._control.counters()
        if counters.step_processes:
            self._close()
            if not self._is_once:
                self._guard(counters.steps_begun, is_open=bool(counters.windows_open))
            return
        if self.is_steps_only:
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

    def is_over(self) -> bool:
        """Return whether the only sample has ended, in all processes that have steps.

        Where not all processes have begun one, others may still do so: they are waited for as long
        as it took to get so far, within limits.
        """
        counters = self._control.counters()
        is_open = counters.windows_open or counters.windows_done < counters.step_processes
        if not self._is_once or not counters.step_processes or is_open:
            self._ended = None
            return False
        now = self._now()
        if self._ended is None:
            self._ended = now
        patience = min(max(self._ended - self._began, _LEAST_PATIENCE_S), _MOST_PATIENCE_S)
        known = max(self._processes, len(self._control.attached_pids()))
        return counters.windows_done >= known or now >= self._ended + patience

    def next(self) -> float:
        """Return the time in seconds until `look` is due again, at most."""
        if self._first is None or self._opened_ns is not None:
            return _POLL_S  # a process or its steps may start
        return max(-(self._now() - self._first) % self._period, 0.0)

    def end(self) -> None:
        """Close an open window."""
        self._close()

    def facts(self) -> dict[str, Any]:
        """Return the recorded time windows, for session.json."""
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
        elif not self._rests:
            return
        elif now - self._step_at > _STALLED_S and self._control.state is State.RECORDING:
            self._is_stalled = True
            self._control.state = State.WAITING
