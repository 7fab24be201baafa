"""Keeps the last seconds or steps of a recording, and removes what is older, as it grows."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warpline.capture.finishing.raw_session import LogFile, is_alive
from warpline.capture.launcher.step_clock import StepClock
from warpline.capture.session.activity import Activity
from warpline.capture.session.control import ControlFile
from warpline.capture.session.keeping import KeepLast, logs_of, trim
from warpline.capture.session.readings import trim_readings
from warpline.capture.session.triggers import Triggers
from warpline.errors import WarplineError
from warpline.units import format_ns

_LEAST_S, _MOST_S = 0.5, 10.0
_PARTS = 10  # of the kept time, what may be there beyond it
_REST = 10  # at most 1/11 of a CPU, unless much is old by then
_HELD_S = 120.0  # who asked for it may have been killed
_STEP_POLL_S = 0.02
_HANG_POLL_S = 0.5
_MOST_DUMPS = 10

# Writes what is kept up to a time, in monotonic ns, for a reason.
Write = Callable[[int, str], None]


class Keeper:
    """Removes old records of a session, and has the rest written when asked to; call `look` often.

    Args:
        folder: The session's directory.
        control: Its control page.
        keep: What is kept.
        triggers: When it is written.
        write: Writes it.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        control: ControlFile,
        keep: KeepLast,
        triggers: Triggers,
        write: Write,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._control = folder, control
        self._keep, self._triggers, self._write = keep, triggers, write
        self._now = now
        self._period = min(max(keep.seconds / _PARTS, _LEAST_S), _MOST_S)
        self._due = now() + (_LEAST_S if keep.steps else keep.seconds)
        self._held_until = 0.0
        self._work: threading.Thread | None = None  # the launcher has others to look after
        self._dead: dict[Path, int] = {}  # logs of processes that have ended, and since when, in ns
        self._steps = StepClock(keep.steps)
        self._has_steps = bool(keep.steps) or triggers.needs_steps
        self._reason: str | None = None  # why to write, at the next time that it may be
        self._quiet_until = 0.0  # a condition that goes on is one event
        self._dumps: list[threading.Thread] = []
        self._activity = Activity(folder)
        self._recorded = 0  # events so far, without queries that say "not ready"
        self._recorded_at = now()  # when there were new ones, at the last look
        self._written = -1  # events at the last dump, so that a hang is written once

    def next(self) -> float:
        """Return the monotonic time, in seconds, at which `look` is due."""
        due = max(self._due, self._held_until)
        if self._has_steps:
            due = min(due, self._now() + _STEP_POLL_S)
        if self._triggers.hang_s is not None:
            due = min(due, self._now() + _HANG_POLL_S)
        return due

    def look(self) -> None:
        """See whether a condition holds, and begin to remove what is old if it is time for it.

        What happens soon after a dump is in the next one, when the kept time has passed.
        """
        now = self._now()
        reason = self._slow_step() if self._has_steps else None
        self._reason = self._reason or reason or self._hang(now)
        if self._reason is not None and now >= self._quiet_until:
            self._dump(self._reason, now)
        if now < max(self._due, self._held_until):
            return
        self._due = now + self._period
        if self._work is None or not self._work.is_alive():
            self._work = threading.Thread(target=self._remove, daemon=True)
            self._work.start()

    def hear(self, number: int) -> bool:
        """Write what is kept at the next look, if a signal asks for it. Return whether it does."""
        if number != self._triggers.signal:
            return False
        self._reason = f"received {signal.Signals(number).name}"
        self._quiet_until = 0.0  # somebody wants what there is now
        return True

    def hold(self, *, is_wanted: bool) -> None:
        """Leave the logs as they are while they are copied, or go on."""
        self._held_until = self._now() + _HELD_S if is_wanted else 0.0

    def kept_from_ns(self, ended_ns: int) -> int:
        """Return the time from which on everything is kept, if the end is at a time; monotonic.

        Where nothing has been recorded for a while, it is that before the last event: what led to a
        hang is kept however long it lasts.
        """
        self._see()
        last_ns = min(ended_ns, round(self._recorded_at * 1e9))
        oldest_ns = last_ns - round(self._keep.seconds * 1e9)
        if not self._keep.steps:
            return oldest_ns
        return max(self._steps.began_ns(self._keep.steps) or 0, oldest_ns)

    def end(self, stopped_ns: int | None) -> dict[str, Any]:
        """Remove all that is older than what is kept, at the end. Return facts for session.json.

        Args:
            stopped_ns: When recording stopped, in monotonic ns; None if the program ended first.
        """
        for thread in (*self._dumps, *([] if self._work is None else [self._work])):
            thread.join()
        ended_ns = stopped_ns or _end_of(self._folder)
        # GPU work that was under way is in the logs, too.
        until_ns = time.monotonic_ns()
        return keep_between(self._folder, self.kept_from_ns(ended_ns), until_ns, ended_ns)

    # --- Conditions -------------------------------------------------------------------------------

    def _slow_step(self) -> str | None:
        reason = None
        for step, took_ns in self._steps.look(self._control.counters()):
            reason = self._slowness(step, took_ns) or reason
            self._steps.add(took_ns)
        return reason

    def _slowness(self, step: int, took_ns: int) -> str | None:
        ratio, limit_s = self._triggers.step_ratio, self._triggers.step_s
        median_ns = None if ratio is None else self._steps.median_ns
        took = f"step {step:,} took {format_ns(took_ns)}"
        if ratio is not None and median_ns is not None and took_ns > ratio * median_ns:
            return f"{took}, the median is {format_ns(round(median_ns))}"
        return took if limit_s is not None and took_ns > limit_s * 1e9 else None

    def _hang(self, now: float) -> str | None:
        limit_s = self._triggers.hang_s
        if limit_s is None or now < self._recorded_at + min(limit_s, _HANG_POLL_S):
            return None
        self._see()
        quiet_s = now - self._recorded_at
        if not self._recorded or self._recorded == self._written or quiet_s < limit_s:
            return None
        return f"nothing was recorded for {format_ns(round(quiet_s * 1e9))}"

    def _see(self) -> None:
        recorded = self._activity.count()
        if recorded != self._recorded:
            self._recorded, self._recorded_at = recorded, self._now()

    def _dump(self, reason: str, now: float) -> None:
        self._reason = None
        if len(self._dumps) == _MOST_DUMPS:
            return
        now_ns = round(now * 1e9)
        self._quiet_until = now + (now_ns - self.kept_from_ns(now_ns)) / 1e9
        self._written = self._recorded
        thread = threading.Thread(target=self._write, args=(now_ns, reason), daemon=True)
        self._dumps.append(thread)
        thread.start()

    # --- Removal ----------------------------------------------------------------------------------

    def _remove(self) -> None:
        began = self._now()
        logs = logs_of(self._folder)
        now_ns = round(began * 1e9)
        from_ns = self.kept_from_ns(now_ns)
        with contextlib.suppress(WarplineError):  # no memory: later
            trim(logs, from_ns, now_ns)
        trim_readings(self._folder, from_ns)
        self._forget(logs, now_ns, from_ns)
        ended = self._now()
        rest = min((ended - began) * _REST, _MOST_S, self._keep.seconds)
        self._due = max(self._due, ended + rest)

    def _forget(self, logs: list[Path], now_ns: int, from_ns: int) -> None:
        """Delete the logs of processes that ended before all that is kept."""
        lives = {log.path: log for log in map(LogFile.read, logs)}
        alive = {log.pid for log in lives.values() if is_alive(log)}
        for path, log in lives.items():
            if log.pid in alive or log.pid == 0:
                self._dead.pop(path, None)
            elif self._dead.setdefault(path, now_ns) < from_ns:
                path.unlink(missing_ok=True)
                self._dead.pop(path)
                self._recorded = self._activity.count()  # that is nothing new


def _end_of(folder: Path) -> int:
    """Return when the processes of a session ended, monotonic ns: now, if one was killed."""
    closed = [log.closed_ns for log in map(LogFile.read, logs_of(folder)) if log.pid]
    return max(closed) if closed and all(closed) else time.monotonic_ns()


def keep_between(folder: Path, from_ns: int, until_ns: int, ended_ns: int) -> dict[str, Any]:
    """Leave only what is between two times in the logs of a session. Return facts of that.

    Args:
        folder: The session's directory.
        from_ns: The one, monotonic.
        until_ns: The other.
        ended_ns: When recording ended, monotonic.
    """
    with contextlib.suppress(WarplineError):  # no memory: more is kept
        trim(logs_of(folder), from_ns, until_ns, is_last=True)
    return {"kept_from_monotonic_ns": from_ns, "ended_monotonic_ns": ended_ns}
