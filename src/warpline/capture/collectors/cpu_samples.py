"""CPU samples of a program, taken from a process of its own: both ends.

The process is forked without exec, as those of `runner` are. It gets the program's pid while that
waits to be executed, so that nothing of it is missed, or those of processes that run, and does not
touch them: the kernel takes the samples, and the native sampler makes stacks of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpline.capture.collectors.cpu_sampling import CpuSampling
from warpline.capture.collectors.sampler_links import LAST_S, received
from warpline.capture.machine.obstacles import Obstacle
from warpline.capture.machine.orphans import end_after, keep_only, start_orphan
from warpline.capture.machine.perf import PerfSampler
from warpline.errors import CaptureError

_READY_S = 10.0
_MOST_BYTES = 1 << 16


class CpuSamples:
    """The process that samples; it ends when this object is closed, or the launcher dies.

    Create it while this process has one thread and is no subreaper.

    Args:
        sampling: What to sample; None for nothing.
        library: The native sampler.

    Attributes:
        pid: The process; None if there is none.
        counts: What it did, once it is closed.
    """

    def __init__(self, sampling: CpuSampling | None, library: Path) -> None:
        self.pid: int | None = None
        self.counts: dict[str, int] = {}
        self._link: socket.socket | None = None
        self._sampling = sampling
        if sampling is None:
            return
        with contextlib.suppress(OSError):
            link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self.pid = start_orphan(lambda: _serve_safely(far, library))
                self._link = link
            finally:
                far.close()

    @property
    def is_sampling(self) -> bool:
        """Whether something is sampled, even if that is Python alone."""
        return self._link is not None

    def start(self, folder: Path, program: int, *, running: Sequence[int] = ()) -> Obstacle | None:
        """Let it wait for the program's exec; return what stands in the way of CPU samples.

        Samples of Python are taken nevertheless.

        Args:
            folder: The session directory.
            program: The process that will execute the program.
            running: Processes to sample at once instead, with all that they have started.
        """
        if self._link is None or self._sampling is None:
            return None
        setup = {"folder": os.fspath(folder.absolute()), "pid": program, **asdict(self._sampling)}
        setup["running"] = [*running]
        try:
            self._link.send(json.dumps(setup).encode())
        except OSError:
            return _crashed()
        answer = received(self._link, _READY_S)
        if "ready" not in answer:
            self.close()
        if "cause" in answer:
            return Obstacle(answer["cause"], answer["cure"])
        return None if "ready" in answer else _crashed()

    def release(self) -> socket.socket | None:
        """Return the link, which others close; None if there is no process."""
        link, self._link = self._link, None
        return link

    def close(self) -> None:
        """Let it write what is left, and end; a second call does nothing."""
        if self._link is None:
            return
        link, self._link = self._link, None
        with link, contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_WR)
            end = time.monotonic() + LAST_S
            answer: Mapping[str, Any] = {}
            while "ended" not in answer:
                answer = received(link, end - time.monotonic())
            self.counts = dict(answer.get("counts", {}))


def _crashed() -> Obstacle:
    return Obstacle("the process that samples ended", "run warpline doctor")


def _serve_safely(link: socket.socket, library: Path) -> None:
    with contextlib.suppress(OSError, ValueError, CaptureError):
        _serve(link, library)


def _serve(link: socket.socket, library: Path) -> None:
    """Wait for the program, and sample until the launcher closes its end."""
    keep_only(link)
    data = link.recv(_MOST_BYTES)
    if not data:
        return
    setup = json.loads(data)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # an event takes one for each CPU
    folder, pid, running = Path(setup.pop("folder")), setup.pop("pid"), setup.pop("running")
    program = running or pid
    sampling = CpuSampling(**setup)
    sampler = PerfSampler(library)
    obstacle = sampler.open(folder, program, **asdict(sampling))
    answer: dict[str, Any] = {}
    if obstacle is not None:
        answer |= {"cause": obstacle.cause, "cure": obstacle.cure}
        if sampling.python:
            obstacle = sampler.open(folder, program, **asdict(sampling.without_perf()))
    if obstacle is None:
        answer["ready"] = True
        end_after(link, LAST_S)
    link.send(json.dumps(answer).encode())
    if obstacle is not None:
        return
    sampler.run(link.fileno())
    counts = sampler.close()
    link.send(json.dumps({"ended": True, "counts": counts.plain()}).encode())
