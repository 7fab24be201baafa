"""The signals that the launcher takes while a program runs.

They are blocked and taken one at a time with their sender, without handlers or races.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import signal
from collections.abc import Sequence

from warpline.capture.launcher.group import GroupEar

PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
FORWARDED = {signal.SIGUSR1, signal.SIGUSR2}
_TAKEN = PASSED_ON | FORWARDED | {signal.SIGCHLD, signal.SIGTSTP}
FROM_KERNEL = 0x80  # si_code of a signal that the terminal sends
_SIGSET_BYTES = 128  # of sigset_t in the C library


class Signals:
    """The signals that the launcher takes while a program runs; blocked from the start."""

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, waitpid would not work
        ignored = {number for number in _TAKEN if signal.getsignal(number) is signal.SIG_IGN}
        self._taken = _TAKEN - (ignored & {signal.SIGTSTP})
        self._ours = PASSED_ON - ignored
        self.before: set[int] = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._taken))
        self._ear = GroupEar(self._taken & (PASSED_ON | FORWARDED))
        self._pending = _descriptor_of(self._taken)

    def take(self, seconds: float, wakers: Sequence[int] = ()) -> signal.struct_siginfo | None:
        """Return the next signal, or None after `seconds`.

        Also returns when one of the descriptors `wakers` is readable, if the system supports it.
        """
        seconds = max(0.0, seconds)
        if self._pending is not None and wakers:
            poll = select.poll()
            for descriptor in (self._pending, *wakers):
                poll.register(descriptor, select.POLLIN)
            poll.poll(math.ceil(seconds * 1e3))
            seconds = 0.0
        return signal.sigtimedwait(self._taken, seconds)

    def was_for_all(self, number: int) -> bool:
        """Return whether a taken signal was sent to the whole process group."""
        return self._ear.has_heard(number)

    def is_ours(self, number: int) -> bool:
        """Return whether a signal also concerns the launcher, not only the program."""
        return number in self._ours

    @property
    def listener(self) -> int | None:
        """The process that listens; None if there is none."""
        return self._ear.pid

    def give_back(self) -> None:
        """Discard pending signals and restore the signal mask."""
        self._ear.close()
        if self._pending is not None:
            os.close(self._pending)
            self._pending = None
        while self.take(0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def stop_here(self) -> None:
        """Stop this process on SIGTSTP; return when it is continued."""
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})  # here
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


def _descriptor_of(signals: set[signal.Signals]) -> int | None:
    """Return a descriptor that is readable while one of the signals is pending, or None.

    Python's sigtimedwait cannot wait for descriptors at the same time.
    """
    mask = sum(1 << (number - 1) for number in signals)
    with contextlib.suppress(OSError, AttributeError):
        words = (ctypes.c_uint64 * (_SIGSET_BYTES // 8))(mask)
        found: int = ctypes.CDLL(None).signalfd(-1, words, os.O_CLOEXEC | os.O_NONBLOCK)
        return found if found >= 0 else None
    return None
