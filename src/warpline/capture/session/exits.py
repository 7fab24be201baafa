"""When and how the processes of a session ended: written by the launcher, read by finishing.

The notes are lines of JSON in the session directory, written immediately, so that they survive when
the launcher is killed with the program.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "ends"
_MAX_BYTES = 64 << 20
_FAR_NS = 1 << 61
_MAX_STATUS = 1 << 16


@dataclass(frozen=True)
class Exit:
    """The end of a process.

    Attributes:
        pid: The process.
        ended_ns: When its end was detected, monotonic; never earlier than the end itself.
        status: The wait status; None if its own parent reaped it.
    """

    pid: int
    ended_ns: int
    status: int | None

    @property
    def signal(self) -> int | None:
        """The signal that killed it, or None."""
        is_known = self.status is not None and os.WIFSIGNALED(self.status)
        return os.WTERMSIG(self.status) if is_known and self.status is not None else None

    @property
    def exit_status(self) -> int | None:
        """Its exit status, or None."""
        is_known = self.status is not None and os.WIFEXITED(self.status)
        return os.WEXITSTATUS(self.status) if is_known and self.status is not None else None


def read_exits(folder: Path) -> list[Exit]:
    """Return the ends noted in a session; skip invalid lines."""
    try:
        with (folder / FILE_NAME).open("rb") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return []
    return [found for found in map(_exit_of, lines) if found is not None]


def _exit_of(line: bytes) -> Exit | None:
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    pid, ended_ns, status = (facts.get(name) for name in ("pid", "ended_ns", "status"))
    if type(pid) is not int or type(ended_ns) is not int or not 0 < ended_ns < _FAR_NS:
        return None
    is_status = type(status) is int and 0 <= status < _MAX_STATUS
    return Exit(pid, ended_ns, status if is_status else None)


def append_exits(folder: Path, exits: Sequence[Exit]) -> bool:
    """Note the ends of processes in a session; return whether all of it was written.

    Raises:
        OSError: Nothing can be written.
    """
    if not exits:
        return True
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    handle = os.open(folder / FILE_NAME, flags, 0o600)
    try:
        text = _lines(exits)
        return os.write(handle, text) == len(text)
    finally:
        os.close(handle)


def _lines(exits: Iterable[Exit]) -> bytes:
    """Return the notes, each after a newline: one truncated by a full disk damages no other."""
    facts = ({"pid": e.pid, "ended_ns": e.ended_ns, "status": e.status} for e in exits)
    return b"".join(b"\n" + json.dumps(fact).encode() for fact in facts)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
