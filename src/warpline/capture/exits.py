"""When the processes of a session ended, and how: noted by the launcher, read by finishing.

The notes are lines of JSON in the session's folder, written one by one, so that they stay when the
launcher is killed with the program.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warpline.capture import processes
from warpline.capture.control import CONTROL_SLOTS, ControlFile

FILE_NAME = "ends"
_MAX_BYTES = 64 << 20
_FAR_NS = 1 << 61
_MAX_STATUS = 1 << 16


@dataclass(frozen=True)
class Exit:
    """The end of a process.

    Attributes:
        pid: The process.
        ended_ns: When that was known, monotonic: never before it ended.
        status: As waitpid gives it; None where its parent took it.
    """

    pid: int
    ended_ns: int
    status: int | None

    @property
    def signal(self) -> int | None:
        """The signal that it died of."""
        is_known = self.status is not None and os.WIFSIGNALED(self.status)
        return os.WTERMSIG(self.status) if is_known and self.status is not None else None

    @property
    def exit_status(self) -> int | None:
        """What it returned."""
        is_known = self.status is not None and os.WIFEXITED(self.status)
        return os.WEXITSTATUS(self.status) if is_known and self.status is not None else None


def read_exits(folder: Path) -> list[Exit]:
    """Return the ends that were noted in a session; lines that cannot be read are left out."""
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


class Attached:
    """The processes that agents have told of, and their ends, as the launcher sees them.

    A process that is known wakes who waits for `descriptors` when it ends, whoever its parent is.
    Where the kernel has no such descriptors, and for one that ends before the first look at it, the
    look that does not find it any more counts.

    Args:
        folder: The session's folder.
        control: Its control page.
        program: The process that was started.
    """

    def __init__(self, folder: Path, control: ControlFile, program: int) -> None:
        self._path = folder / FILE_NAME
        self._control = control
        self._program = program
        self._known: dict[int, int | None] = {}  # pid -> descriptor, if it has one
        self._unseen: set[int] = set()  # were gone when they were looked at first
        self._unwritten: list[Exit] = []

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that can be read once a process has ended."""
        return [descriptor for descriptor in self._known.values() if descriptor is not None]

    def look(self) -> None:
        """Find those that are new, and those that are gone; say on the page when that was."""
        now_ns = time.monotonic_ns()
        attached = self._control.attached_pids()
        for pid in attached - self._known.keys() - self._unseen:
            self._meet(pid)
        for pid, descriptor in list(self._known.items()):
            if descriptor is None and not processes.is_alive(pid):
                self.note(pid, processes.status_of_zombie(pid))
        self._unseen &= attached
        self._write()
        if not self._unwritten:  # what says that all others live must not be read without these
            self._control.heartbeat_ns = now_ns

    def sweep(self) -> None:
        """Note those that have ended."""
        by_descriptor = {each: pid for pid, each in self._known.items() if each is not None}
        if not by_descriptor:
            return
        poll = select.poll()
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(0):
            pid = by_descriptor[descriptor]
            self.note(pid, processes.status_of_zombie(pid))

    def reaped(self, pid: int, status: int) -> None:
        """Note the end of a child that was waited for, if agents have told of it."""
        is_known = pid == self._program or pid in self._known
        if is_known or pid in self._control.attached_pids() or self._is_full():
            self.note(pid, status)

    def note(self, pid: int, status: int | None) -> None:
        """Note that a process has ended, and free its place on the page."""
        self._unwritten.append(Exit(pid, time.monotonic_ns(), status))
        descriptor = self._known.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)
        self._write()
        self._control.release(pid)

    def close(self) -> None:
        """Look once more, and close what is open."""
        self.look()
        self.sweep()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._known.clear()

    def _is_full(self) -> bool:
        """Return whether there may have been processes that the page had no room for."""
        return self._control.counters().attached > CONTROL_SLOTS

    def _meet(self, pid: int) -> None:
        descriptor, is_there = None, True
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError):  # it is gone, or there are no such descriptors
            is_there = processes.is_alive(pid)
        if is_there:
            self._known[pid] = descriptor
        else:
            # Gone, or of another namespace: its place stays its own.
            self._unseen.add(pid)
            self._unwritten.append(Exit(pid, time.monotonic_ns(), None))

    def _write(self) -> None:
        """Write what is noted; a full disk is tried again."""
        if not self._unwritten:
            return
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            handle = os.open(self._path, flags, 0o600)
            try:
                text = _lines(self._unwritten)
                if os.write(handle, text) == len(text):
                    self._unwritten.clear()
            finally:
                os.close(handle)


def _lines(exits: Iterable[Exit]) -> bytes:
    """Return the notes, after an end of line: one that was cut by a full disk spoils no other."""
    facts = ({"pid": e.pid, "ended_ns": e.ended_ns, "status": e.status} for e in exits)
    return b"".join(b"\n" + json.dumps(fact).encode() for fact in facts)


def signal_name(number: int) -> str:
    """Return what a signal is called, such as SIGKILL."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
