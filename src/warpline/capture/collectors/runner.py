"""The process that runs the collectors, beside the program and the launcher.

It is a process and not a thread of the launcher: a call of the driver may block for seconds, or
crash, and the launcher waits for nothing and forks. It is forked without exec, because starting
Python takes as much CPU time as a minute of readings. It is in a session of its own, so signals
for the program's group do not reach it, and its parent is gone, so the launcher neither waits for
it nor takes it for a process that the program left. It has no files of the launcher's but those
that it writes to, and ends when the launcher closes its end of a socket, or dies.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from warpline.capture.collectors.gpu_health import GpuHealth, Owners
from warpline.capture.collectors.host_health import HostHealth, ProcessHealth
from warpline.capture.machine.nvml import Nvml
from warpline.capture.machine.orphans import end_after, keep_only, start_orphan
from warpline.capture.session.control import ControlFile
from warpline.capture.session.readings import COLUMNS, ReadingsWriter, path_of
from warpline.capture.session.recording_state import RecordingState
from warpline.errors import CaptureError

# The share of a CPU core that all readings may take, per Hz. What takes more is read less often.
SHARE_PER_HZ = 0.001

_SLOW_S = 4.0  # the machine, processes, memory and links of GPUs are not read more often than this
_METERS_S = 30.0  # nor are the GPUs' meters at 1 Hz; at 10 Hz, ten times as often
_EARLY = 0.99  # readings are a little early or late
_PROCESSES_PER_S = 4  # rows of processes: they would be most of a recording
_LAST_S = 1.0  # for the last reading; a driver that blocks longer is left alone
_MOST_SETUP_BYTES = 1 << 20

Row = dict[str, int | None]


class Collectors:
    """The process; it ends when this object is closed, or when the launcher dies.

    Create it while this process has one thread and is no subreaper. If it cannot be made, there are
    no readings.

    Args:
        hz: Readings of GPUs per second; 0 for no collectors.

    Attributes:
        pid: The process; None if there is none.
    """

    def __init__(self, hz: float) -> None:
        self.pid: int | None = None
        self._hz = hz
        self._link: socket.socket | None = None
        if not hz:
            return
        with contextlib.suppress(OSError):
            link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self.pid = start_orphan(lambda: _serve_safely(far))
                self._link = link
            finally:
                far.close()

    def start(
        self,
        folder: Path,
        program: int,
        environment: Mapping[str, str],
        launcher: int | None = None,
    ) -> None:
        """Begin to read.

        The files are made here: the directory may be deleted at any time, and a process that adds
        files to it would be in the way.

        Args:
            folder: The session directory.
            program: The program's pid.
            environment: Its environment.
            launcher: A process whose descendants the program's processes are; None for this one.
        """
        if self._link is None:
            return
        names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
        setup = {
            "folder": os.fspath(folder.absolute()),
            "launcher": launcher or os.getpid(),
            "program": program,
            "hz": self._hz,
            "environment": {name: environment[name] for name in names if name in environment},
        }
        descriptors: list[int] = []
        try:
            for table in COLUMNS:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                descriptors.append(os.open(path_of(folder, table), flags, 0o600))
            socket.send_fds(self._link, [json.dumps(setup).encode()], descriptors)
        except OSError:
            self.close()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def release(self) -> socket.socket | None:
        """Return the link, which others close; None if there is no process."""
        link, self._link = self._link, None
        return link

    def close(self) -> None:
        """Let the process read a last time and end, without waiting; a second call does nothing."""
        if self._link is not None:
            self._link.close()
            self._link = None


def _serve_safely(link: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError, CaptureError):
        _serve(link)


def _serve(link: socket.socket) -> None:
    """Wait for the start, and read until the launcher closes its end."""
    keep_only(link)
    data, descriptors, _, _ = socket.recv_fds(link, _MOST_SETUP_BYTES, len(COLUMNS))
    if data and len(descriptors) == len(COLUMNS):
        end_after(link, _LAST_S)
        setup = json.loads(data)
        _Run(setup, dict(zip(COLUMNS, descriptors, strict=True))).until_closed(link)


class _Task:
    """Something that is read again and again.

    Args:
        period_s: Time between readings.
        read: Reads; it may return a longer period.
        due: The monotonic time of the first reading. Tasks have it in common, so that one
            awakening serves several.
    """

    def __init__(self, period_s: float, read: Callable[[], float | None], due: float) -> None:
        self.period_s = period_s
        self.read = read
        self.due = due

    def run(self) -> None:
        """Read, and plan the next time."""
        period_s = self.read() or self.period_s
        # At multiples of the period; those that passed meanwhile are left out.
        missed = max(0.0, time.monotonic() - self.due) // period_s
        self.due += (missed + 1) * period_s


class _Due:
    """Whether a part of readings is due: at the first of them, and then once in a period."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self._due = 0.0

    def is_now(self) -> bool:
        """Return whether it is due; then it is so again after the period."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self.period_s * _EARLY
        return True


class _Run:
    """All readings of a session."""

    def __init__(self, setup: Mapping[str, Any], descriptors: Mapping[str, int]) -> None:
        self._hz: float = setup["hz"]
        self._descriptors = descriptors
        self._environment: Mapping[str, str] = setup["environment"]
        self._control = ControlFile.open(Path(setup["folder"]))
        self._recording = {table: RecordingState(self._control) for table in COLUMNS}
        self._owners = Owners(setup["launcher"], self._control.attached_pids)
        self._host = HostHealth(setup["program"])
        self._processes = ProcessHealth()
        self._program: int = setup["program"]
        self._gpus: GpuHealth | None = None
        self._surroundings = _Due(max(1 / self._hz, _SLOW_S))
        self._meters = _Due(max(1 / self._hz, _METERS_S / max(self._hz, 1.0)))
        period_s = 1 / self._hz
        self._facts = {"period_ns": round(max(period_s, _SLOW_S) * 1e9)}
        self._host_file = ReadingsWriter(descriptors["host_health"], "host_health", self._facts)
        self._phase = self._began = time.monotonic()
        self._tasks = [
            _Task(max(period_s, _SLOW_S), self._read_machine, self._phase),
            _Task(max(period_s, _SLOW_S), self._read_processes, self._phase),
        ]
        self._cpu_ns = time.process_time_ns()

    def until_closed(self, link: socket.socket) -> None:
        """Read until the launcher closes its end of the link, and once more then."""
        with contextlib.suppress(_ClosedError):
            for task in self._tasks:
                task.run()
            self._begin_gpus()
            # The first readings cost more; they do not count, or the next would come late.
            self._began, self._cpu_ns = time.monotonic(), time.process_time_ns()
            while True:
                task = min(self._tasks, key=lambda each: each.due)
                self._rest(link, task.due)
                task.run()
        self._surroundings, self._meters = _Due(0), _Due(0)
        for task in self._tasks:
            task.read()

    def _rest(self, link: socket.socket, due: float) -> None:
        """Wait until a time, longer if readings took more of the CPU than they may.

        Raises:
            _ClosedError: The launcher closed its end.
        """
        used_s = (time.process_time_ns() - self._cpu_ns) / 1e9
        due = max(due, self._began + used_s / (SHARE_PER_HZ * max(self._hz, 1.0)) - _SLOW_S)
        poll = select.poll()
        poll.register(link, select.POLLIN)
        while True:
            rest_s = max(0.0, due - time.monotonic())
            if poll.poll(rest_s * 1000):
                raise _ClosedError
            if time.monotonic() >= due:
                return

    def _begin_gpus(self) -> None:
        """Open NVML; without it there are no readings of GPUs."""
        nvml = Nvml.open()
        if nvml is None:
            return
        gpus = GpuHealth(nvml, self._environment, self._owners)
        if gpus.is_over:
            return
        self._gpus = gpus
        facts = {
            "period_ns": round(1e9 / self._hz),
            "meters_period_ns": round(self._meters.period_s * 1e9),
            "gpus": gpus.facts(),
        }
        self._gpu_file = ReadingsWriter(self._descriptors["gpu_health"], "gpu_health", facts)
        if gpus.is_watching:
            self._errors = ReadingsWriter(self._descriptors["gpu_error"], "gpu_error", facts)
        self._tasks.insert(0, _Task(1 / self._hz, self._read_gpus, self._phase))
        self._tasks[0].run()

    def _read_gpus(self) -> None:
        gpus = self._gpus
        if gpus is None:
            return
        rows = gpus.read(surroundings=self._surroundings.is_now(), meters=self._meters.is_now())
        self._gpu_file.write(self._marked("gpu_health", rows))
        if gpus.is_watching:
            self._errors.write(gpus.errors())

    def _read_machine(self) -> None:
        self._host_file.write(self._marked("host_health", [self._host.read()]))

    def _read_processes(self) -> float:
        rows = [*self._processes.read({self._program, *self._control.attached_pids()})]
        self._host_file.write(self._marked("host_health", rows))
        return max(_SLOW_S, 1 / self._hz, float(math.ceil(len(rows) / _PROCESSES_PER_S)))

    def _marked(self, table: str, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows with whether recording is on."""
        mark: Row = {"is_recording": self._recording[table].look()}
        return (mark | row for row in rows)


class _ClosedError(Exception):
    """The launcher closed its end of the link, or died."""
