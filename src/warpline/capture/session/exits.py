"""When and how the processes of a session ended: written by the launcher, read by finishing.

The notes are lines of JSON in the session directory, written immediately, so that they survive when
the launcher is killed with the program.
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

from warpline.capture.machine import processes
from warpline.capture.session.control import CONTROL_SLOTS, ControlFile

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


class Attached:
    """The processes with an agent, and the detection of their ends by the launcher.

    When a known process ends, its descriptor in `descriptors` becomes readable, whoever its parent
    is. On kernels without pidfd, and for a process that ends before the first look at it, its end
    is the time of the first look that does not find it.

    Args:
        folder: The session directory.
        control: Its control page.
        program: The process started by the launcher.
    """

    def __init__(self, folder: Path, control: ControlFile, program: int) -> None:
        self._path = folder / FILE_NAME
        self._control = control
        self._program = program
        self._known: dict[int, int | None] = {}  # pid -> descriptor, if it has one
        self._unseen: set[int] = set()  # gone at the first look
        self._unwritten: list[Exit] = []

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that become readable when a process ends."""
        return [descriptor for descriptor in self._known.values() if descriptor is not None]

    def look(self) -> None:
        """Find new processes and processes that are gone; write the time to the control page."""
        now_ns = time.monotonic_ns()
        attached = self._control.attached_pids()
        for pid in attached - self._known.keys() - self._unseen:
            self._meet(pid)
        for pid, descriptor in list(self._known.items()):
            if descriptor is None and not processes.is_alive(pid):
                self.note(pid, processes.status_of_zombie(pid))
        self._unseen &= attached
        self._write()
        if not self._unwritten:  # the heartbeat is valid only together with the noted ends
            self._control.heartbeat_ns = now_ns

    def sweep(self) -> None:
        """Note the processes that have ended."""
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
        """Note the end of a reaped child, if it has an agent."""
        is_known = pid == self._program or pid in self._known
        if is_known or pid in self._control.attached_pids() or self._is_full():
            self.note(pid, status)

    def note(self, pid: int, status: int | None) -> None:
        """Note that a process has ended, and free its slot on the control page."""
        self._unwritten.append(Exit(pid, time.monotonic_ns(), status))
        descriptor = self._known.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)
        self._write()
        self._control.release(pid)

    def close(self) -> None:
        """Look a last time and close all descriptors."""
        self.look()
        self.sweep()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._known.clear()

    def _is_full(self) -> bool:
        """Return whether there may be processes without a slot on the control page."""
        return self._control.counters().attached > CONTROL_SLOTS

    def _meet(self, pid: int) -> None:
        descriptor, is_there = None, True
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError):  # it is gone, or the kernel has no pidfd
            is_there = processes.is_alive(pid)
        if is_there:
            self._known[pid] = descriptor
        else:
            # Gone, or in another PID namespace: keep its slot.
            self._unseen.add(pid)
            self._unwritten.append(Exit(pid, time.monotonic_ns(), None))

    def _write(self) -> None:
        """Write the notes; after an error, such as a full disk, the next call retries."""
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
    """Return the notes, each after a newline: one truncated by a full disk damages no other."""
    facts = ({"pid": e.pid, "ended_ns": e.ended_ns, "status": e.status} for e in exits)
    return b"".join(b"\n" + json.dumps(fact).encode() for fact in facts)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
