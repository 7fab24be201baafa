"""Detect signals that were sent to the whole process group, and so to the program too.

A shell's ``kill %1``, ``timeout`` and ``kill -- -GROUP`` reach both the launcher and the program. A
supervisor's ``kill PID`` reaches only the launcher. The kernel does not report which it was. So a
listener process runs in the launcher's group: a signal that it receives went to the whole group.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterable

from warpline.capture.machine.orphans import start_orphan

_PATIENCE_S = 0.1
_MAX_HANDLE = 1 << 16


class GroupEar:
    """The listener process; it ends when this object is closed or this process dies.

    Create it while the signals are blocked, and before this process becomes a subreaper: the
    listener must not be a child that has to be waited for.

    Args:
        numbers: The signals to detect.

    Attributes:
        pid: The process; None if there is none.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._heard = bytearray()
        self._ear: socket.socket | None = None
        self.pid: int | None = None
        # Without a listener, every signal is forwarded.
        with contextlib.suppress(OSError):
            self._ear, far = socket.socketpair()
            with far:
                self.pid = start_orphan(lambda: _listen_safely(far.fileno(), frozenset(numbers)))

    def has_heard(self, number: int) -> bool:
        """Return whether a received signal was sent to the whole group; waits up to 0.1 s."""
        end = time.monotonic() + _PATIENCE_S
        while number not in self._heard:
            left_s = max(0.0, end - time.monotonic())
            if self._ear is None or not select.select([self._ear], [], [], left_s)[0]:
                return False
            heard = self._ear.recv(64)
            if not heard:
                self.close()
            self._heard += heard
        self._heard.remove(number)
        return True

    def close(self) -> None:
        """End the listener; a second call does nothing."""
        if self._ear is not None:
            self._ear.close()
            self._ear = None


def _listen_safely(handle: int, numbers: frozenset[int]) -> None:
    with contextlib.suppress(OSError, ValueError):
        _listen(handle, numbers)


def _listen(handle: int, numbers: frozenset[int]) -> None:
    """Report every received signal until the launcher closes its end."""
    os.closerange(0, handle)  # open pipes would keep their readers waiting
    os.closerange(handle + 1, _MAX_HANDLE)
    came, told = socket.socketpair()
    told.settimeout(0)  # a wake-up file must not block
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    while True:
        ready = select.select([handle, came.fileno()], [], [])[0]
        if handle in ready:
            return  # the launcher never writes, so its end is closed
        os.write(handle, came.recv(64))
