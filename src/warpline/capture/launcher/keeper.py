"""Keeps the last seconds of a recording, and removes what is older, while the program runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warpline.capture.finishing.raw_session import LogFile, is_alive
from warpline.capture.session.keeping import KeepLast, logs_of, trim
from warpline.errors import WarplineError

_LEAST_S, _MOST_S = 0.5, 10.0
_PARTS = 10  # of the kept time, what may be there beyond it
_REST = 20  # at most 1/20 of a CPU
_HELD_S = 120.0  # who asked for it may have been killed


class Keeper:
    """Removes old records of a session; call `look` often.

    Args:
        folder: The session's directory.
        keep: What is kept.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self, folder: Path, keep: KeepLast, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._now = now
        self._period = min(max(keep.seconds / _PARTS, _LEAST_S), _MOST_S)
        self._due = now() + keep.seconds
        self._held_until = 0.0
        self._dead: dict[Path, float] = {}  # logs of processes that have ended, and since when

    def next(self) -> float:
        """Return the monotonic time, in seconds, at which `look` is due."""
        return max(self._due, self._held_until)

    def look(self) -> None:
        """Remove what is old if it is time for it."""
        began = self._now()
        if began < self.next():
            return
        logs = logs_of(self._folder)
        now_ns = round(began * 1e9)
        with contextlib.suppress(WarplineError):  # no memory: later
            trim(logs, now_ns - round(self._keep.seconds * 1e9), now_ns)
        self._forget(logs, began)
        ended = self._now()
        self._due = ended + max(self._period, (ended - began) * _REST)

    def hold(self, *, is_wanted: bool) -> None:
        """Leave the logs as they are while they are copied, or go on."""
        self._held_until = self._now() + _HELD_S if is_wanted else 0.0

    def end(self, ended_ns: int) -> dict[str, Any]:
        """Remove all that is older than what is kept, at the end. Return facts for session.json.

        Args:
            ended_ns: When recording stopped, or the program ended, in monotonic ns.
        """
        return keep_last(self._folder, self._keep, ended_ns)

    def _forget(self, logs: list[Path], now: float) -> None:
        """Delete the logs of processes that ended before all that is kept."""
        lives = {log.path: log for log in map(LogFile.read, logs)}
        alive = {log.pid for log in lives.values() if is_alive(log)}
        for path, log in lives.items():
            if log.pid in alive or log.pid == 0:
                self._dead.pop(path, None)
            elif now - self._dead.setdefault(path, now) > self._keep.seconds:
                path.unlink(missing_ok=True)
                self._dead.pop(path)


def keep_last(folder: Path, keep: KeepLast, ended_ns: int) -> dict[str, Any]:
    """Leave only the last seconds of a session in its logs. Return facts for session.json.

    Args:
        folder: The session's directory.
        keep: What is kept.
        ended_ns: The end of it, in monotonic ns.
    """
    from_ns = ended_ns - round(keep.seconds * 1e9)
    with contextlib.suppress(WarplineError):  # no memory: more is kept
        trim(logs_of(folder), from_ns, time.monotonic_ns(), is_last=True)
    return {"kept_from_monotonic_ns": from_ns}
