"""How busy GPUs are, of a session that goes on: a thin layer over the core's ``wl_recent_*``.

Each record of the logs is read once, by native code, and the session is only read.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpline import native
from warpline.errors import AgentMissingError, CaptureError
from warpline.live.logs import LogListing, ProcessKey

_MESSAGE_BYTES = 256

# A GPU as a process numbers it.
DeviceKey = tuple[ProcessKey, int]


@dataclass(frozen=True)
class Recent:
    """What the logs had when they were read.

    Attributes:
        now_ns: When that was, monotonic.
        missing_from_ns: When the first launch began whose work has no record yet, monotonic; None
            if there is none.
        known_from_ns: Since when all work is known, monotonic.
        lost: Events that were dropped.
        damaged_logs: Logs that cannot be read to their end.
        devices: The number of GPUs, as processes count them.
    """

    now_ns: int
    missing_from_ns: int | None
    known_from_ns: int
    lost: int
    damaged_logs: int
    devices: int


class RecentWork:
    """Reads the logs of a session as they grow.

    Args:
        folder: The session's directory.
        seconds: How long before each look work is known.
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
        self._kept_ns, self._others_keep_ns = round(seconds * 1e9), round(others_keep_s * 1e9)
        self._listing, self._added = LogListing(folder), set[str]()
        self._handle = ctypes.c_void_p()
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._facts = (ctypes.c_int64 * 5)()
        self._skipped, self._removed_until_ns = 0, 0
        self._check(core.wl_recent_open(ctypes.byref(self._handle), *self._told()))

    def close(self) -> None:
        """Free the memory."""
        self._core.wl_recent_close(self._handle)
        self._handle = ctypes.c_void_p()

    def read(self) -> Recent:
        """Read what is new.

        Raises:
            CaptureError: There is not enough memory.
        """
        now_ns = self._clock()
        for log in self._listing.changed() or ():
            if log.path.name not in self._added:
                self._added.add(log.path.name)
                path, number = os.fsencode(log.path), self._listing.number_of(log)
                self._check(self._core.wl_recent_add_log(self._handle, path, number, *self._told()))
        from_ns = now_ns - self._kept_ns
        self._check(self._core.wl_recent_read(self._handle, from_ns, self._facts, *self._told()))
        missing_ns, lost, damaged, skipped, devices = self._facts
        if skipped != self._skipped:
            self._skipped, self._removed_until_ns = skipped, now_ns - self._others_keep_ns
        known_from_ns = max(from_ns, self._removed_until_ns)
        return Recent(now_ns, missing_ns or None, known_from_ns, lost, damaged, devices)

    def devices(self) -> list[DeviceKey]:
        """Return all GPUs of which a process said something, in the order of `measure`."""
        count = self._facts[4]
        process, number = (ctypes.c_int32 * count)(), (ctypes.c_int64 * count)()
        self._check(self._core.wl_recent_devices(self._handle, process, number))
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
        status = self._core.wl_recent_measure(
            self._handle, start_ns, end_ns, row_of, count, busy_ns, operations, *self._told()
        )
        self._check(status)
        return list(zip(busy_ns, operations, strict=True))

    def _told(self) -> tuple[ctypes.Array[ctypes.c_char], int]:
        return self._message, _MESSAGE_BYTES

    def _check(self, status: int) -> None:
        if status != native.OK:
            said = self._message.value.decode("utf-8", "replace") or f"status {status}"
            raise CaptureError(f"cannot follow the recording: {said}")
