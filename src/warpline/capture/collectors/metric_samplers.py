"""The process that has the metrics of GPUs sampled, forked by `gpu_metrics`.

It finds the GPUs, starts a `metric_sampler` for each, and says whether all that was asked for can
be sampled. A GPU whose counters cannot be used is read through NVML, if it has GPM metrics. The
process ends, and the samplers with it, when the launcher closes its end of a socket or dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpline.capture.collectors.gpu_health import visible
from warpline.capture.collectors.metrics_request import ALL, VISIBLE, MetricsRequest
from warpline.capture.collectors.sampler_links import LAST_S, SAMPLER, received
from warpline.capture.machine.gpm import METRICS as GPM_METRICS
from warpline.capture.machine.gpm import Gpm
from warpline.capture.machine.gpus import probe_environment
from warpline.capture.machine.nvml import Gpu, Nvml
from warpline.capture.machine.obstacles import Obstacle, known_obstacle
from warpline.capture.machine.orphans import end_after, keep_only
from warpline.capture.session.control import ControlFile
from warpline.capture.session.readings import IsRecording
from warpline.capture.session.recording_state import RecordingState
from warpline.capture.session.sample_file import SampleWriter
from warpline.errors import CaptureError

_GPM_S = 0.1
_MOST_BYTES = 1 << 20
_OWN_VARIABLES = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_NO_DRIVER = Obstacle("no NVIDIA driver was found (libnvidia-ml.so.1)", "run nvidia-smi")
_NO_CUPTI = Obstacle(
    "CUPTI was not found", "run pip install nvidia-cuda-cupti in the program's Python environment"
)
_NO_GPU = Obstacle("no GPU was found", "run nvidia-smi")
_CRASHED = Obstacle("the process that samples ended", "run warpline doctor")
_TOO_SHORT = Obstacle(
    "the program ended before sampling began, which takes about a second", "record a longer run"
)


def serve(
    link: socket.socket,
    request: MetricsRequest,
    environment: Mapping[str, str],
    cupti: Sequence[Path],
) -> None:
    """Sample until the launcher closes its end of a socket.

    Args:
        link: The socket.
        request: What to sample.
        environment: The program's environment.
        cupti: CUPTI libraries, the best one first.
    """
    with contextlib.suppress(OSError, ValueError, CaptureError):
        keep_only(link)
        end_after(link, LAST_S)
        _Supervisor(link, request, environment, cupti).run()


@dataclass
class _Sampler:
    """A GPU, and the process that samples it.

    Attributes:
        gpu: The GPU.
        number: Its number for nvidia-smi, and in the file.
        link: A socket to the process; None if there is none, or none any more.
        plan: What the process said of the metrics; None if nothing.
        obstacle: Why it does not sample.
        gpm: What is read instead.
    """

    gpu: Gpu
    number: int
    link: socket.socket | None
    process: subprocess.Popen[bytes] | None = None
    plan: Mapping[str, Any] | None = None
    is_sampling: bool = False
    obstacle: Obstacle | None = None
    gpm: Gpm | None = None
    gpm_writer: SampleWriter | None = field(default=None, repr=False)

    @property
    def is_settled(self) -> bool:
        """Whether it is known what is sampled."""
        return self.plan is not None or self.obstacle is not None


class _Supervisor:
    """All samplers of a session."""

    def __init__(
        self,
        link: socket.socket,
        request: MetricsRequest,
        environment: Mapping[str, str],
        cupti: Sequence[Path],
    ) -> None:
        self._link = link
        self._request = request
        self._environment = environment
        self._cupti = [os.fspath(path.absolute()) for path in cupti]
        self._library: Any = None
        self._samplers: list[_Sampler] = []
        self._descriptor: int | None = None
        self._start = b""
        self._folder = Path()
        self._state: RecordingState | None = None
        self._is_answered = False
        self._nothing: Obstacle | None = None
        self._gpm_due = 0.0

    def run(self) -> None:
        """Sample until the launcher closes its end."""
        problem = self._begin()
        poll = select.poll()
        poll.register(self._link, select.POLLIN | select.POLLRDHUP)
        for sampler in self._samplers:
            if sampler.link is not None:
                poll.register(sampler.link, select.POLLIN)
        if problem is not None:
            self._say({"error": problem[0], "hint": problem[1]})
        is_open = True
        while is_open:
            self._answer()
            for handle, _ in poll.poll(self._rest_ms()):
                if handle == self._link.fileno():
                    is_open = self._hear_launcher()
                else:
                    self._hear(handle, poll)
            self._read_gpm()
        self._end()

    def _begin(self) -> tuple[str, str] | None:
        """Start the samplers; return an error and its hint if a GPU that was named is missing."""
        nvml = self._open_nvml()
        gpus = nvml.gpus() if nvml is not None else []
        chosen, unknown = _chosen(gpus, self._request.devices, self._environment)
        if unknown:
            known = ", ".join(f"{number} ({gpu.name})" for number, gpu in enumerate(gpus))
            return (
                f"--gpu-metrics-devices {self._request.devices}: there is no GPU {unknown}",
                f"there are {known}" if known else "run nvidia-smi",
            )
        if not chosen:
            self._nothing = _NO_DRIVER if nvml is None else _NO_GPU
        self._samplers = [self._new_sampler(gpus.index(gpu), gpu) for gpu in chosen]
        return None

    def _open_nvml(self) -> Nvml | None:
        def load(name: str) -> Any:
            self._library = ctypes.CDLL(name)
            return self._library

        return Nvml.open(load)

    def _new_sampler(self, number: int, gpu: Gpu) -> _Sampler:
        if not self._cupti:
            return self._refused(_Sampler(gpu, number, None), _NO_CUPTI)
        link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        setup = {
            "uuid": gpu.uuid,
            "name": gpu.name,
            "number": number,
            "cupti": self._cupti,
            "metrics": self._request.metrics.metrics,
            "set": "of a file" if self._request.metrics.is_strict else self._request.metrics.name,
            "hz": self._request.hz,
        }
        environment = probe_environment(self._environment) | _OWN_VARIABLES
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        with far:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", SAMPLER, str(far.fileno()), json.dumps(setup)],
                env=environment,
                pass_fds=[far.fileno()],
            )
        return _Sampler(gpu, number, link, process)

    def _hear_launcher(self) -> bool:
        """Take the start; return whether the launcher's end is open."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, _MOST_BYTES, 1)
        except OSError:  # it was killed
            return False
        if not data or not descriptors:
            return False
        self._start, self._descriptor = data, descriptors[0]
        self._folder = Path(json.loads(data)["folder"])
        with contextlib.suppress(CaptureError, OSError):
            self._state = RecordingState(ControlFile.open(self._folder))
        for sampler in self._samplers:
            self._let_begin(sampler)
        if self._nothing is not None:
            SampleWriter(self._descriptor, 0).facts(asdict(self._nothing))
        return True

    def _hear(self, handle: int, poll: select.poll) -> None:
        """Take a message of a sampler."""
        sampler = next(
            each
            for each in self._samplers
            if each.link is not None and each.link.fileno() == handle
        )
        assert sampler.link is not None
        try:
            data = sampler.link.recv(_MOST_BYTES)
        except OSError:
            data = b""
        said: Mapping[str, Any] = json.loads(data) if data else {}
        if not said or "ended" in said:
            poll.unregister(sampler.link)
            sampler.link.close()
            sampler.link = None
            if not said and sampler.obstacle is None:
                self._refused(sampler, _CRASHED)
                self._let_begin(sampler)
        elif "unusable" in said:
            self._refused(sampler, _obstacle(said["unusable"]))
            self._let_begin(sampler)
        elif "metrics" in said:
            sampler.plan = said
            if not said["metrics"]:
                left_out = next(iter(said["left_out"]), "?")
                cause = f"{said['chip']} has no metric such as {left_out}"
                self._refused(sampler, Obstacle(cause, "choose another --gpu-metrics-set"))
            self._let_begin(sampler)
        elif "began" in said:
            sampler.is_sampling = True

    def _refused(self, sampler: _Sampler, obstacle: Obstacle) -> _Sampler:
        """Take note that a GPU is not sampled, and look for what can be read instead."""
        sampler.obstacle = obstacle
        if self._library is not None:
            sampler.gpm = Gpm.of(self._library, sampler.gpu.handle)
        return sampler

    def _let_begin(self, sampler: _Sampler) -> None:
        """Let a sampler begin, once it is known what it samples and where to."""
        if self._descriptor is None or not sampler.is_settled:
            return
        if sampler.obstacle is None:
            if sampler.link is not None and not sampler.is_sampling:
                with contextlib.suppress(OSError):
                    socket.send_fds(sampler.link, [self._start], [self._descriptor])
            return
        writer = SampleWriter(self._descriptor, sampler.number)
        facts: dict[str, Any] = {
            "uuids": [sampler.gpu.uuid, *sampler.gpu.instances()],
            "name": sampler.gpu.name,
            "cause": sampler.obstacle.cause,
            "cure": sampler.obstacle.cure,
        }
        if sampler.is_sampling:  # it ended early: what there is keeps its metrics
            sampler.gpm = None
        elif sampler.gpm is not None:
            facts |= {"source": "gpm", "metrics": GPM_METRICS, "hz": 1 / _GPM_S}
            sampler.gpm_writer = writer
        writer.facts(facts)

    def _rest_ms(self) -> float | None:
        """Return how long there is nothing to read through NVML."""
        if not any(sampler.gpm_writer for sampler in self._samplers):
            return None
        return max(0.0, self._gpm_due - time.monotonic()) * 1000

    def _read_gpm(self) -> None:
        now = time.monotonic()
        if now < self._gpm_due:
            return
        self._gpm_due = now + _GPM_S
        is_on = self._state is None or self._state.look() is not IsRecording.NO
        for sampler in self._samplers:
            if sampler.gpm is None or sampler.gpm_writer is None:
                continue
            found = sampler.gpm.read()
            if found is None:
                sampler.gpm = sampler.gpm_writer = None
            elif is_on:
                sampler.gpm_writer.values(*found)

    def _answer(self) -> None:
        """Say once whether all that was asked for can be sampled."""
        checked = self._samplers if self._request.metrics.is_strict else []
        if self._is_answered or not all(sampler.is_settled for sampler in checked):
            return
        for sampler in checked:
            left_out = (sampler.plan or {}).get("left_out", {})
            if left_out:
                name, why = next(iter(left_out.items()))
                gpu = f"GPU {sampler.number} ({sampler.gpu.name})"
                self._say(
                    {
                        "error": f"{name} cannot be sampled on {gpu}: {why}",
                        "hint": "remove it from the file; warpline kernels counts it per launch",
                    }
                )
                return
        self._say({"ready": True})

    def _say(self, facts: Mapping[str, Any]) -> None:
        self._is_answered = True
        with contextlib.suppress(OSError):
            self._link.send(json.dumps(facts).encode())

    def _end(self) -> None:
        """Let the samplers write their last samples."""
        waiting = []
        for sampler in self._samplers:
            if sampler.link is None:
                continue
            if sampler.obstacle is None and not self._has_begun(sampler):
                sampler.obstacle = _TOO_SHORT
                self._let_begin(sampler)
                if sampler.process is not None:
                    sampler.process.kill()
            with contextlib.suppress(OSError):
                sampler.link.send(b"end")
                sampler.link.shutdown(socket.SHUT_WR)
            waiting.append(sampler.link)
        end = time.monotonic() + LAST_S
        for link in waiting:
            while "ended" not in received(link, end - time.monotonic()):
                pass
        with contextlib.suppress(OSError):
            self._link.send(json.dumps({"ended": True}).encode())

    def _has_begun(self, sampler: _Sampler) -> bool:
        """Return whether a process samples, or has just said so."""
        said: Mapping[str, Any] = {}
        while not sampler.is_sampling and sampler.link is not None and "ended" not in said:
            said = received(sampler.link, 0.0)
            sampler.is_sampling = "began" in said
        return sampler.is_sampling


def _chosen(
    gpus: Sequence[Gpu], devices: str, environment: Mapping[str, str]
) -> tuple[list[Gpu], str]:
    """Return the GPUs to sample, and the first word that names none."""
    if devices == ALL:
        return [*gpus], ""
    if devices == VISIBLE:
        return visible(gpus, environment), ""
    found = []
    for word in devices.split(","):
        if not word.isdecimal() or int(word) >= len(gpus):
            return [], word
        found.append(gpus[int(word)])
    return list(dict.fromkeys(found)), ""


def _obstacle(facts: Mapping[str, Any]) -> Obstacle:
    """Return what a sampler said of why it cannot sample."""
    status = facts.get("status")
    if not isinstance(status, int):
        return Obstacle(str(facts.get("cause")), "run warpline doctor")
    return known_obstacle(status) or Obstacle(
        f"CUPTI cannot sample this GPU ({facts.get('function')}: error {status})",
        "run warpline doctor",
    )
