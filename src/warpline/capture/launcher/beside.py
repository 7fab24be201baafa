"""What observes a program from outside while it is recorded: its samples and readings of GPUs.

Each is a process of its own at the other end of a socket, and ends when that is closed. Those of a
session are started by ``warpline start``, which hands its ends to the launcher: that has threads,
and may not fork.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from warpline.capture.collectors.cpu_samples import CpuSamples
from warpline.capture.collectors.gpu_metrics import GpuMetrics
from warpline.capture.collectors.runner import Collectors
from warpline.capture.collectors.sampler_links import LAST_S
from warpline.capture.flags import capabilities
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.machine.obstacles import Obstacle
from warpline.capture.machine.perf import sampler_library
from warpline.capture.session.named import parsed
from warpline.capture.session.session import Session

_MOST_BYTES = 1 << 16


class Beside:
    """The processes that observe; they end when this object is closed, or this process dies.

    Create it while this process has one thread and is no subreaper.

    Args:
        settings: The settings of the recording.
        environment: The program's environment.
        executable: The program.
        agent: The agent; the sampling library is beside it.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        environment: Mapping[str, str],
        executable: Path,
        agent: Path,
    ) -> None:
        is_timeline = settings.is_timeline
        # Counting delays launches, so the state of the GPUs is not that of the program alone.
        self._readings = Collectors(settings.gpu_health if is_timeline else 0)
        request = settings.gpu_metrics if is_timeline else None
        libraries = find_cupti(environment, executable) if request is not None else []
        self._metrics = GpuMetrics(request, environment, libraries)
        self._samples = CpuSamples(
            settings.cpu_sampling if is_timeline else None, sampler_library(agent)
        )
        self._environment = environment

    @property
    def pids(self) -> set[int]:
        """The processes."""
        found = (self._readings.pid, self._metrics.pid, self._samples.pid)
        return {pid for pid in found if pid is not None}

    @property
    def is_sampling(self) -> bool:
        """Whether something is sampled, even if that is Python alone."""
        return self._samples.is_sampling

    @property
    def reader(self) -> int | None:
        """The process that reads the program's memory, if any."""
        return self._samples.pid

    @property
    def counts(self) -> Mapping[str, int]:
        """What the sampling process did, once this is closed."""
        return self._samples.counts

    def check(self) -> None:
        """Wait until it is known whether what a user named can be sampled.

        Raises:
            UsageError: It cannot.
        """
        self._metrics.check()

    def sample(self, folder: Path, program: int) -> Obstacle | None:
        """Let the program be sampled from its exec on; return what stands in the way of it."""
        return self._samples.start(folder, program)

    def sample_running(
        self,
        session: Session,
        pids: Sequence[int],
        settings: CaptureSettings,
        warn: Callable[[str], None],
    ) -> Obstacle | None:
        """Begin to sample processes that run, with all that they have started.

        Args:
            session: The session.
            pids: The processes.
            settings: The settings of the recording.
            warn: Prints a warning: what cannot be sampled, and why.

        Returns:
            What stands in the way of it; None if nothing does.
        """
        obstacle = self._samples.start(session.folder, pids[0], running=pids)
        sampling = settings.cpu_sampling
        if obstacle is None or sampling is None:
            return None
        # Timers, which take the place of perf events, are set when a program starts.
        lacking = [capabilities.CPU_SAMPLES] if sampling.period_ns else []
        lacking += [capabilities.CONTEXT_SWITCHES] if sampling.has_switches else []
        if sampling.python and not self._samples.is_sampling:
            lacking.append(capabilities.PYTHON_SAMPLES)
        text = " and ".join(lacking).replace("cpu", "CPU")
        warn(f"{text[:1].upper()}{text[1:]} are not recorded: {obstacle.cause}; {obstacle.cure}")
        session.write_facts(
            collected=[name for name in session.facts["collected"] if name not in lacking]
        )
        return obstacle

    def read(self, folder: Path, program: int, launcher: int) -> None:
        """Begin to read the state of GPUs and machine, and to sample metrics.

        Args:
            folder: The session directory.
            program: The program's pid.
            launcher: A process whose descendants the program's processes are.
        """
        self._readings.start(folder, program, self._environment, launcher)
        self._metrics.start(folder)

    def release(self) -> list[socket.socket]:
        """Return the links, for `Observers`; this object has no part in them any more."""
        links = (each.release() for each in (self._samples, self._readings, self._metrics))
        return [link for link in links if link is not None]

    def close(self) -> None:
        """Let the processes write what is left, and end; a second call does nothing."""
        for each in (self._readings, self._metrics, self._samples):
            each.close()


class Observers:
    """Processes that observe, by links that somebody else has made; closed without waiting.

    Args:
        links: The links.
        pids: The processes.

    Attributes:
        pids: As given.
        counts: What the sampling process did, once it has ended.
    """

    def __init__(self, links: Sequence[socket.socket] = (), pids: Iterable[int] = ()) -> None:
        self.pids = frozenset(pids)
        self.counts: dict[str, int] = {}
        self._links = list(links)
        self._until: float | None = None
        for link in self._links:
            link.settimeout(0)

    def end(self) -> None:
        """Have them write what is left, and end; a second call does nothing."""
        if self._until is not None:
            return
        self._until = time.monotonic() + LAST_S
        for link in self._links:
            with contextlib.suppress(OSError):  # it has ended
                link.shutdown(socket.SHUT_WR)

    def have_ended(self) -> bool:
        """Return whether all have ended after `end`, or take too long."""
        for link in list(self._links):
            if self._has_ended(link):
                link.close()
                self._links.remove(link)
        return not self._links or (self._until is not None and time.monotonic() > self._until)

    def close(self) -> None:
        """End them, and wait for it."""
        self.end()
        while not self.have_ended():
            time.sleep(0.005)
        for link in self._links:
            link.close()
        self._links = []

    def _has_ended(self, link: socket.socket) -> bool:
        try:
            answer = parsed(link.recv(_MOST_BYTES))
        except BlockingIOError:
            return False
        except OSError:
            return True
        if answer is None:  # its end, or nonsense
            return True
        counts = answer.get("counts")
        if isinstance(counts, dict):
            self.counts.update(counts)
        return "ended" in answer
