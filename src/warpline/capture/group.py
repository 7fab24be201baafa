"""Which signals were sent to the whole process group, and so to the program too.

A shell's ``kill %1``, ``timeout`` and ``kill -- -GROUP`` reach the launcher and the program alike;
a supervisor's ``kill PID`` reaches the launcher only. The kernel tells nobody which it was. A
process beside the launcher, in the same group, that nobody knows of can: what it got was for all.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterable
from typing import NoReturn

_PATIENCE_S = 0.1
_MAX_HANDLE = 1 << 16


class GroupEar:
    """The process that listens; it ends when this object is closed, or this process dies.

    To be made while the signals are blocked, and before this process adopts orphans: the listener
    is nobody's child that would have to be waited for.

    Args:
        numbers: The signals that are listened for.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._heard = bytearray()
        self._ear: socket.socket | None = None
        try:
            self._ear, far = socket.socketpair()
            pid = os.fork()
        except OSError:
            return  # then nothing is heard, and every signal is passed on
        if pid == 0:
            _leave_a_listener(far.fileno(), frozenset(numbers))
        far.close()
        os.waitpid(pid, 0)

    def has_heard(self, number: int) -> bool:
        """Return whether a signal that has come was sent to the whole group; waits a little."""
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
        """Let the listener end; a second call does nothing."""
        if self._ear is not None:
            self._ear.close()
            self._ear = None


def _leave_a_listener(handle: int, numbers: frozenset[int]) -> NoReturn:
    """Leave a process behind that listens. Runs in a child of the launcher."""
    try:
        if os.fork() == 0:
            with contextlib.suppress(OSError, ValueError):
                _listen(handle, numbers)
    finally:
        os._exit(0)


def _listen(handle: int, numbers: frozenset[int]) -> None:
    """Tell every signal that comes, until nobody is there to be told."""
    os.closerange(0, handle)  # others wait for the end of what they write to
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
            return  # it never writes: this is its end
        os.write(handle, came.recv(64))
