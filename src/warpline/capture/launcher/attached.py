"""The processes with an agent, while the launcher watches them: it notes when each ends."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from pathlib import Path

from warpline.capture.machine import processes
from warpline.capture.session.control import CONTROL_SLOTS, ControlFile
from warpline.capture.session.exits import Exit, append_exits


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
        self._folder = folder
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
        with suppress(OSError):
            if append_exits(self._folder, self._unwritten):
                self._unwritten.clear()
