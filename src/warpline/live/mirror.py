"""Copies of the logs of a session that goes on, in memory, of the last seconds only.

The copies are logs, too, so what reads logs reads them. The core reads each record of the
originals once when it has become old, and keeps what later records refer to
(``native/core/src/raw/log_tails.h``); what is not old is copied when the copies are asked for. The
session itself is only read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpline import native
from warpline.capture.finishing.raw_session import LogFile, is_alive
from warpline.errors import AgentMissingError, CaptureError
from warpline.live.logs import LogListing, key_of

_MESSAGE_BYTES = 256


@dataclass
class _Copy:
    """The copy of one log.

    Attributes:
        log: The original.
        number: Its number in the core.
        file: The descriptor of the copy, in memory.
        end: Where the copy ends; 0: there is none yet.
        used: Where the original ended.
        changed_ns: When that was last another place, monotonic.
        skipped: How often others had removed what was not read.
        known_from_ns: Since when all that the log had is known, monotonic; 0: since its begin.
    """

    log: LogFile
    number: int
    file: int
    end: int = 0
    used: int = 0
    changed_ns: int = 0
    skipped: int = 0
    known_from_ns: int = 0

    @property
    def copied(self) -> LogFile:
        """The copy, as a log of the original's process."""
        path = Path(f"/proc/self/fd/{self.file}")
        return replace(self.log, path=path, size_bytes=self.end)


class Mirror:
    """Copies of all logs of a session.

    Args:
        folder: The session's directory.
        seconds: What they have of it: the time before each `read`, and a little more.
        others_keep_s: How much of it stays if others remove what is old, as with ``--keep-last``.
        clock: The monotonic clock, in ns.

    Raises:
        AgentMissingError: The native core is missing.
    """

    def __init__(
        self,
        folder: Path,
        seconds: float,
        *,
        others_keep_s: float = 0.0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        core = native.core()
        if core is None:
            raise AgentMissingError(
                f"cannot follow a recording without the native core: {native.status().reason}",
                hint="run warpline doctor for details",
            )
        self._core, self._clock = core, clock
        self._others_keep_ns, self._kept_ns = round(others_keep_s * 1e9), round(seconds * 1e9)
        self._listing = LogListing(folder)
        self._period = (0, 0)  # what is old ends; the present
        self._count = 0  # of logs in the core
        self._copies: dict[str, _Copy] = {}
        self._over: set[str] = set()  # of processes that ended long ago
        self._handle = ctypes.c_void_p()
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._check(core.wl_tails_open(ctypes.byref(self._handle), *self._told()))

    def read(self) -> Sequence[LogFile]:
        """Copy what is not old. Return the copies, in the order of `log_files`.

        If the session's directory is gone, they are as before.

        Raises:
            CaptureError: There are too many logs, or no memory.
        """
        self.advance()
        for each in self._copies.values():
            self._copy(each)
        self._forget()
        return [each.copied for each in self._copies.values() if each.end]

    def advance(self) -> None:
        """Read what has become old, so that others may remove it.

        Raises:
            CaptureError: There are too many logs, or no memory.
        """
        try:
            self._look()
        except OSError as error:
            raise _cannot_follow(error) from error
        now_ns = self._clock()
        self._period = now_ns - self._kept_ns, now_ns
        self._check(self._core.wl_tails_advance(self._handle, *self._period, *self._told()))

    @property
    def known_from_ns(self) -> int:
        """Since when all events are known, monotonic ns."""
        return max(self._period[0], self.removed_until_ns)

    @property
    def removed_until_ns(self) -> int:
        """Until when others may have removed events, monotonic ns; 0 if they did not.

        They do in a recording that keeps its end only.
        """
        return max((each.known_from_ns for each in self._copies.values()), default=0)

    def close(self) -> None:
        """Free the copies."""
        for each in self._copies.values():
            os.close(each.file)
        self._copies.clear()
        self._core.wl_tails_close(self._handle)
        self._handle = ctypes.c_void_p()

    def _look(self) -> None:
        """Take in the logs that are new."""
        found = self._listing.changed()
        if found is None:
            return
        known, copies = self._copies, dict[str, _Copy]()
        for log in found:
            if log.path.name not in self._over:
                each = known.pop(log.path.name, None) or self._new(log)
                each.log = log
                copies[log.path.name] = each
        self._copies = {**known, **copies}  # the files of the first are deleted

    def _new(self, log: LogFile) -> _Copy:
        path, process = os.fsencode(log.path), self._listing.number_of(log)
        self._check(self._core.wl_tails_add_log(self._handle, path, process, *self._told()))
        self._count += 1
        file = os.memfd_create(log.path.name[:200], os.MFD_CLOEXEC)
        return _Copy(log, self._count - 1, file)

    def _copy(self, each: _Copy) -> None:
        facts = (ctypes.c_int64 * 2)()
        end = self._core.wl_tails_copy(
            self._handle, each.number, each.file, *self._period, facts, *self._told()
        )
        self._check(-min(end, 0))
        if not end:
            return  # it is gone
        each.end, now_ns = end, self._period[1]
        if facts[0] != each.skipped:
            each.skipped, each.known_from_ns = facts[0], now_ns - self._others_keep_ns
        if facts[1] != each.used:
            each.used, each.changed_ns = facts[1], now_ns

    def _forget(self) -> None:
        """Drop the logs of processes that have ended, once all in them is old."""
        oldest_ns = self._clock() - self._kept_ns
        alive = {
            key_of(each.log)
            for each in self._copies.values()
            if each.changed_ns >= oldest_ns or is_alive(each.log)
        }
        for name, each in list(self._copies.items()):
            if key_of(each.log) not in alive:
                self._core.wl_tails_close_log(self._handle, each.number)
                os.close(each.file)
                del self._copies[name]
                self._over.add(name)

    def _told(self) -> tuple[ctypes.Array[ctypes.c_char], int]:
        return self._message, _MESSAGE_BYTES

    def _check(self, status: int) -> None:
        if status != native.OK:
            said = self._message.value.decode("utf-8", "replace") or f"status {status}"
            raise CaptureError(f"cannot follow the recording: {said}")


def _cannot_follow(error: OSError) -> CaptureError:
    hint = "raise the limit on open files (ulimit -n)" if error.errno == errno.EMFILE else None
    return CaptureError(f"cannot follow the recording: {error.strerror or error}", hint=hint)
