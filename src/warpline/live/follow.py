"""Follows the logs of a session that goes on: a thin layer over the core's ``wl_follow_*``.

Each record is read once, by native code (``native/core/src/raw/session_follower.h``), and the
session is only read. A `Following` knows how busy GPUs were, and has copies of the logs' last
seconds, which are logs, too: what reads logs reads them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpline import native
from warpline.capture.finishing.raw_session import LogFile, is_alive
from warpline.errors import AgentMissingError, CaptureError
from warpline.live.logs import LogListing, ProcessKey, key_of

_MESSAGE_BYTES = 256

# A GPU as a process numbers it.
DeviceKey = tuple[ProcessKey, int]


@dataclass(frozen=True)
class State:
    """What was there when the logs were read last.

    Attributes:
        now_ns: When that was, monotonic.
        missing_from_ns: When the first launch began whose work has no record yet, monotonic; None
            if there is none.
        lost: Events that were dropped.
        damaged_logs: Logs that cannot be read to their end.
        devices: The number of GPUs, as processes number them.
    """

    now_ns: int = 0
    missing_from_ns: int | None = None
    lost: int = 0
    damaged_logs: int = 0
    devices: int = 0


@dataclass
class _Log:
    """A log that is followed.

    Attributes:
        log: The log.
        number: Its number in the core.
        files: Descriptors of copies in memory, by tail.
        end: Where it ended.
        changed_ns: When that was last another place, monotonic.
    """

    log: LogFile
    number: int
    files: dict[int, int] = field(default_factory=dict)
    end: int = 0
    changed_ns: int = 0


class Following:
    """Reads the logs of a session as they grow.

    Args:
        folder: The session's directory.
        work_s: How long before each look the work of GPUs is known.
        tails_s: How long before each look copies of the logs have all that is in these, in seconds:
            one or several lengths of time.
        others_keep_s: How much of it stays if others remove what is old, as with ``--keep-last``.
        clock: The monotonic clock, in ns.

    Attributes:
        state: What was there when the logs were read last.

    Raises:
        AgentMissingError: The native core is missing.
    """

    def __init__(
        self,
        folder: Path,
        work_s: float,
        tails_s: Sequence[float],
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
        self._work_ns, self._others_keep_ns = round(work_s * 1e9), round(others_keep_s * 1e9)
        self._tails_ns = [round(seconds * 1e9) for seconds in tails_s]
        self._listing, self._count = LogListing(folder), 0
        self._logs: dict[str, _Log] = {}
        self._over: set[str] = set()  # of processes that ended long ago
        self._skipped = 0
        self.removed_until_ns = 0  # until when others removed what was not read, monotonic
        self.state = State()
        self._handle = ctypes.c_void_p()
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._from_ns = (ctypes.c_int64 * len(self._tails_ns))()
        self._facts = (ctypes.c_int64 * 5)()
        handle = ctypes.byref(self._handle)
        self._check(core.wl_follow_open(handle, len(self._tails_ns), *self._told()))

    def close(self) -> None:
        """Free the memory."""
        for each in self._logs.values():
            _close(each)
        self._logs.clear()
        self._core.wl_follow_close(self._handle)
        self._handle = ctypes.c_void_p()

    def read(self) -> State:
        """Read what is new. If the session's directory is gone, nothing is.

        Raises:
            CaptureError: The directory cannot be read, or there is not enough memory.
        """
        self._look()
        now_ns = self._clock()
        self._from_ns[:] = [now_ns - length for length in self._tails_ns]
        work_from_ns = now_ns - self._work_ns
        status = self._core.wl_follow_read(
            self._handle, now_ns, work_from_ns, self._from_ns, self._facts, *self._told()
        )
        self._check(status)
        missing_ns, lost, damaged, skipped, devices = self._facts
        if skipped != self._skipped:
            self._skipped, self.removed_until_ns = skipped, now_ns - self._others_keep_ns
        self.state = State(now_ns, missing_ns or None, lost, damaged, devices)
        return self.state

    @property
    def work_known_from_ns(self) -> int:
        """Since when all work of GPUs is known, monotonic ns."""
        return max(self.state.now_ns - self._work_ns, self.removed_until_ns)

    def known_from_ns(self, tail: int) -> int:
        """Return since when the copies of a tail have all events, monotonic ns."""
        return max(self.state.now_ns - self._tails_ns[tail], self.removed_until_ns)

    def devices(self) -> list[DeviceKey]:
        """Return all GPUs of which a process said something, in the order of `measure`."""
        count = self._facts[4]
        process, number = (ctypes.c_int32 * count)(), (ctypes.c_int64 * count)()
        self._check(self._core.wl_follow_devices(self._handle, process, number, *self._told()))
        keys = self._listing.processes
        return [(keys[of], which) for of, which in zip(process, number, strict=True)]

    def measure(
        self, start_ns: int, end_ns: int, rows: Sequence[int], count: int
    ) -> list[tuple[int, int]]:
        """Return for each row how long it was busy, in ns, and its operations.

        Args:
            start_ns: The begin, monotonic.
            end_ns: The end.
            rows: The row of each of `devices`, from 0 to `count`.
            count: The number of rows.
        """
        busy_ns, operations = (ctypes.c_int64 * count)(), (ctypes.c_int64 * count)()
        row_of = (ctypes.c_int32 * len(rows))(*rows)
        status = self._core.wl_follow_measure(
            self._handle, start_ns, end_ns, row_of, count, busy_ns, operations, *self._told()
        )
        self._check(status)
        return list(zip(busy_ns, operations, strict=True))

    def copies(self, tail: int) -> list[LogFile]:
        """Return copies of what was read, in the order of `log_files`.

        Raises:
            CaptureError: There are too many logs, or no memory.
        """
        self._forget()
        try:
            found = [self._copied(each, tail) for each in self._logs.values()]
        except OSError as error:
            raise _cannot_follow(error) from error
        return [log for log in found if log.size_bytes]

    def _look(self) -> None:
        """Take in the logs that are new."""
        found = self._listing.changed()
        if found is None:
            return
        known, logs = self._logs, dict[str, _Log]()
        for log in found:
            if log.path.name not in self._over:
                each = known.pop(log.path.name, None) or self._new(log)
                each.log = log
                logs[log.path.name] = each
        self._logs = {**known, **logs}  # the files of the first are deleted

    def _new(self, log: LogFile) -> _Log:
        path, process = os.fsencode(log.path), self._listing.number_of(log)
        self._check(self._core.wl_follow_add_log(self._handle, path, process, *self._told()))
        self._count += 1
        return _Log(log, self._count - 1, changed_ns=self._clock())

    def _copied(self, each: _Log, tail: int) -> LogFile:
        if tail not in each.files:
            each.files[tail] = os.memfd_create(each.log.path.name[:200], os.MFD_CLOEXEC)
        file, facts = each.files[tail], (ctypes.c_int64 * 2)()
        end = self._core.wl_follow_copy(self._handle, tail, each.number, file, facts, *self._told())
        self._check(-min(end, 0))
        if facts[1] != each.end:
            each.end, each.changed_ns = facts[1], self.state.now_ns
        return replace(each.log, path=Path(f"/proc/self/fd/{file}"), size_bytes=end)

    def _forget(self) -> None:
        """Drop the logs of processes that have ended, once all in them is old."""
        oldest_ns = self.state.now_ns - max(self._tails_ns, default=0)
        alive = {
            key_of(each.log)
            for each in self._logs.values()
            if each.changed_ns >= oldest_ns or is_alive(each.log)
        }
        for name, each in list(self._logs.items()):
            if key_of(each.log) not in alive:
                self._check(
                    self._core.wl_follow_close_log(self._handle, each.number, *self._told())
                )
                _close(each)
                del self._logs[name]
                self._over.add(name)

    def _told(self) -> tuple[ctypes.Array[ctypes.c_char], int]:
        return self._message, _MESSAGE_BYTES

    def _check(self, status: int) -> None:
        if status != native.OK:
            said = self._message.value.decode("utf-8", "replace") or f"status {status}"
            raise CaptureError(f"cannot follow the recording: {said}")


def _close(each: _Log) -> None:
    for file in each.files.values():
        os.close(file)
    each.files.clear()


def _cannot_follow(error: OSError) -> CaptureError:
    hint = "raise the limit on open files (ulimit -n)" if error.errno == errno.EMFILE else None
    return CaptureError(f"cannot follow the recording: {error.strerror or error}", hint=hint)
