"""The process that samples the metrics of one GPU: CUPTI's PM sampling.

`gpu_metrics` runs this module with a socket and what to sample. It says what it is going to sample,
or why it cannot; gets the session's directory and file; and samples until the other end of the
socket is closed. CUPTI may crash or hang, and costs CPU time in proportion to the samples: neither
belongs into the launcher, nor into the process that reads other GPUs.

Two threads work: one gets samples from the GPU, and one computes their values and writes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Mapping
from ctypes import byref, c_int
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from warpline.capture.collectors.sample_blocks import BlockMaker, SampleClock
from warpline.capture.collectors.sampler_links import SAMPLER
from warpline.capture.machine.gpu_probe import DRIVER, ChipName, ProfilerInitialize, call
from warpline.capture.machine.gpu_probe import FUNCTIONS as CUPTI_FUNCTIONS
from warpline.capture.machine.orphans import end_after
from warpline.capture.session.control import ControlFile
from warpline.capture.session.readings import IsRecording
from warpline.capture.session.recording_state import RecordingState
from warpline.capture.session.sample_file import SampleWriter
from warpline.counters.pm_sampling import Image, OverflowedError, PmSampling, Trigger
from warpline.counters.profiler_host import CuptiError, nvperf_beside
from warpline.counters.sampled_sets import Fitting, fitting

# Measured on an H100 with 14 metrics: the GPU writes 12.8 kB per sample, an image has 26.6 kB per
# sample, emptying it takes 3 us per sample of its room, reading a sample 43 us and computing its
# values 35 us.
_SAMPLE_BYTES = 16_000
_BUFFER_S = 1.0
_LEAST_BUFFER, _MOST_BUFFER = 16 << 20, 512 << 20
_READ_SAMPLES = 500  # about, at once
_SHORTEST_S, _LONGEST_S = 0.02, 0.5  # between readings
_ROOM = 4  # times the samples of a reading: an image that gets full loses samples
_LEAST_SLOTS, _MOST_SLOTS = 64, 4096
_IMAGES = 3
_BLOCK_NS = 2_000_000_000  # a block is written after this time
_FACTS_S = 5.0  # between notes of what was lost
_LAST_S = 2.0  # for what is left in the GPU's buffer at the end
_AFTER_S = 2.0  # for writing it
_MOST_SETUP_BYTES = 1 << 20
_NEEDED = "cuptiPmSamplingEnable"
# GPUs without a timer for samples: these are taken by cycles of the system clock, about this fast.
_CLOCKED = ("TU", "GV", "GA100")
_SYSTEM_HZ = 1.2e9


class _UnusableError(Exception):
    """This GPU or this CUPTI cannot be used.

    Args:
        facts: Why: ``status``, a CUptiResult; or ``cause`` in words.
        is_final: Whether another CUPTI would not help.
    """

    def __init__(self, facts: Mapping[str, Any], *, is_final: bool) -> None:
        super().__init__(str(facts))
        self.facts = facts
        self.is_final = is_final


def main(link: socket.socket, setup: dict[str, Any]) -> None:
    """Sample the GPU of a setup; messages are JSON, one per packet.

    Args:
        link: The socket.
        setup: ``uuid`` and ``name`` of the GPU, its ``number`` in the session's file; ``cupti``,
            paths of libraries; ``metrics``, the spellings of each; ``set``, its name; ``hz``; and
            ``problem``, why a library before was not used.
    """
    try:
        device = _device_of(setup["uuid"])
        sampling, chip = _open(setup["cupti"][0], device)
        found = fitting(setup["metrics"], sampling.passes)
    except _UnusableError as error:
        problem, rest = error.facts, setup["cupti"][1:]
        if not error.is_final:
            problem = setup.get("problem", problem)  # of the best library
        if rest and not error.is_final:
            _again(link, setup | {"cupti": rest, "problem": problem})
        _say(link, {"unusable": problem})
        return
    _say(link, {"chip": chip, "metrics": found.names, "left_out": found.left_out})
    data, descriptors, _, _ = socket.recv_fds(link, _MOST_SETUP_BYTES, 1)
    if not data or not descriptors or not found.names:
        return
    run = _Run(sampling, chip, found, setup, Path(json.loads(data)["folder"]), descriptors[0])
    try:
        run.begin()
    except CuptiError as error:
        _say(link, {"unusable": {"status": error.status, "function": error.function}})
        return
    _say(link, {"began": True})
    run.until_closed(link)


def _device_of(uuid: str) -> int:
    """Return the number of a GPU by its UUID, as CUDA counts here."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError as error:
        raise _UnusableError({"cause": str(error)}, is_final=True) from error
    status = driver.cuInit(0)
    if status:
        cause = f"CUDA cannot be initialized (error {status})"
        raise _UnusableError({"cause": cause}, is_final=True)
    count, device, raw = c_int(), c_int(), ctypes.create_string_buffer(16)
    driver.cuDeviceGetCount(byref(count))
    get_uuid = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    wanted = uuid.lower().removeprefix("gpu-").replace("-", "")
    for number in range(count.value):
        is_there = driver.cuDeviceGet(byref(device), number) == 0
        if is_there and get_uuid(raw, device) == 0 and raw.raw.hex() == wanted:
            return number
    cause = "CUDA does not show this GPU: MIG may be on, or the GPU may be reserved"
    raise _UnusableError({"cause": cause}, is_final=True)


def _open(path: str, device: int) -> tuple[PmSampling, str]:
    """Return PM sampling of a GPU with a libcupti, and the GPU's chip."""
    try:
        nvperf_beside(path)  # CUPTI opens it by its bare name
        cupti = ctypes.CDLL(path)
        getattr(cupti, _NEEDED)
        chip = ChipName(deviceIndex=device)
        _checked(cupti, ProfilerInitialize())
        _checked(cupti, chip)
        name = (chip.pChipName or b"?").decode("ascii", "replace")
        sampling = PmSampling(cupti, device, name)
    except OSError as error:
        raise _UnusableError({"cause": str(error)}, is_final=False) from error
    except AttributeError as error:
        cause = f"{path} is older than CUPTI 12.6"
        raise _UnusableError({"cause": cause}, is_final=False) from error
    except CuptiError as error:
        facts = {"status": error.status, "function": error.function}
        is_final = error.function not in CUPTI_FUNCTIONS.values()  # that fail if it is too old
        raise _UnusableError(facts, is_final=is_final) from error
    return sampling, name


def _checked(cupti: ctypes.CDLL, parameters: ctypes.Structure) -> None:
    status = call(cupti, parameters)
    if status:
        raise CuptiError(CUPTI_FUNCTIONS[type(parameters)], status)


def _again(link: socket.socket, setup: Mapping[str, Any]) -> NoReturn:
    """Begin again in a new process image: two versions of CUPTI do not fit in one."""
    link.set_inheritable(True)
    words = [sys.executable, "-P", "-m", SAMPLER, str(link.fileno()), json.dumps(setup)]
    os.execv(sys.executable, words)  # noqa: S606  # this very program


def _say(link: socket.socket, facts: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the other end may be gone
        link.send(json.dumps(facts).encode())


class _Run:
    """The samples of one GPU."""

    def __init__(
        self,
        sampling: PmSampling,
        chip: str,
        metrics: Fitting,
        setup: Mapping[str, Any],
        folder: Path,
        descriptor: int,
    ) -> None:
        self._sampling = sampling
        self._names = metrics.names
        self._hz: float = setup["hz"]
        self._writer = SampleWriter(descriptor, setup["number"])
        self._state = RecordingState(ControlFile.open(folder))
        self._is_clocked = chip.startswith(_CLOCKED)
        self._period_s = min(max(_READ_SAMPLES / self._hz, _SHORTEST_S), _LONGEST_S)
        self._clock = SampleClock()
        self._blocks = BlockMaker(len(self._names), 1e9 / self._hz, _BLOCK_NS, self._writer.blocks)
        self._overflows = 0
        self._full_images = 0
        self._failure: str | None = None
        self._facts = {
            "uuids": [setup["uuid"]],
            "name": setup["name"],
            "chip": chip,
            "metrics": self._names,
            "left_out": metrics.left_out,
            "set": setup["set"],
            "hz": self._hz,
            "source": "pm_sampling",
        }
        self._free: queue.SimpleQueue[Image] = queue.SimpleQueue()
        self._filled: queue.SimpleQueue[_Filled | None] = queue.SimpleQueue()

    def begin(self) -> None:
        """Begin to sample; CuptiError if that is refused."""
        self._configure()
        self._writer.facts(self._facts)
        self._setup_cpu_ns = time.process_time_ns()

    def _configure(self) -> None:
        interval, trigger = max(1, round(1e9 / self._hz)), Trigger.TIME
        if self._is_clocked:
            interval, trigger = max(1, round(_SYSTEM_HZ / self._hz)), Trigger.CLOCKS
        size = int(self._hz * _SAMPLE_BYTES * _BUFFER_S)
        size = min(max(size, _LEAST_BUFFER), _MOST_BUFFER)
        slots = math.ceil(self._hz * self._period_s * _ROOM)
        slots = min(max(slots, _LEAST_SLOTS), _MOST_SLOTS)
        self._sampling.configure(self._names, interval, trigger, size, slots)
        for _ in range(_IMAGES):
            self._free.put(self._sampling.new_image())
        self._sampling.start()

    def until_closed(self, link: socket.socket) -> None:
        """Sample until the other end of a socket is closed."""
        values = threading.Thread(target=self._evaluate)
        values.start()
        poll = select.poll()
        poll.register(link, select.POLLIN)
        due = noted = time.monotonic()
        is_told = False
        try:
            while self._failure is None:
                if poll.poll(max(0.0, due - time.monotonic()) * 1000):
                    with contextlib.suppress(OSError):  # the other end was killed
                        is_told = bool(link.recv(_MOST_SETUP_BYTES))
                    break
                is_whole = self._read()
                now = time.monotonic()
                due = max(due + self._period_s, now) if is_whole else now
                if now - noted > _FACTS_S:
                    noted = now
                    self._writer.facts(self._counts())
            self._sampling.stop()
            self._read_rest()
        except CuptiError as error:
            self._failure = f"{error.function} failed ({error.status})"
        self._filled.put(None)
        values.join()
        self._blocks.flush()
        self._writer.facts(self._counts() | {"is_complete": is_told and not self._failure})
        _say(link, {"ended": True})
        self._sampling.close()

    def _read(self) -> bool:
        """Pass samples of the GPU's buffer on to the other thread; return whether these are all."""
        image = self._free.get()
        self._sampling.reset(image)
        is_overflowed = False
        try:
            self._sampling.decode(image)
        except OverflowedError:
            is_overflowed = True
        self._full_images += image.is_full
        is_whole = not image.is_full
        if image.starts:
            starts, ends = self._clock.convert(image.starts, image.ends)
            self._filled.put(_Filled(image, starts, ends, self._state.look()))
        else:
            self._free.put(image)
        if is_overflowed:
            self._overflows += 1
            self._restart()
        return is_whole

    def _restart(self) -> None:
        """Begin to sample again, since the GPU's buffer was full."""
        try:
            self._sampling.stop()
            self._sampling.start()
        except CuptiError:
            for _ in range(_IMAGES):  # the other thread has done with all of them then
                self._free.get()
            self._sampling.close()
            self._configure()

    def _read_rest(self) -> None:
        end = time.monotonic() + _LAST_S
        while time.monotonic() < end and not self._read():
            pass

    def _counts(self) -> dict[str, Any]:
        return {
            "samples": self._blocks.samples,
            "gaps": self._blocks.gaps,
            "missing_ns": self._blocks.missing_ns,
            "bad_values": self._blocks.bad_values,
            "overflows": self._overflows,
            "full_images": self._full_images,
            "clock_steps": self._clock.steps,
            "lags_ns": self._clock.lags_ns,
            "setup_cpu_ns": self._setup_cpu_ns,
            "cpu_ns": time.process_time_ns() - self._setup_cpu_ns,
            "failure": self._failure,
        }

    def _evaluate(self) -> None:
        is_done = False
        try:
            self._evaluate_all()
            is_done = True
        finally:
            if not is_done:  # the other thread would wait for images
                os._exit(1)

    def _evaluate_all(self) -> None:
        """Compute and write the values of samples, until there are no more."""
        while (filled := self._filled.get()) is not None:
            try:
                if self._failure is None:
                    values = self._sampling.evaluate(filled.image)
                    self._blocks.add(filled.starts, filled.ends, values, filled.is_recording)
            except CuptiError as error:
                self._failure = f"{error.function} failed ({error.status})"
            finally:
                self._free.put(filled.image)


@dataclass(frozen=True)
class _Filled:
    """Samples in an image, with their times on the monotonic clock."""

    image: Image
    starts: list[int]
    ends: list[int]
    is_recording: IsRecording


def _run() -> NoReturn:
    link = socket.socket(fileno=int(sys.argv[1]))
    end_after(link, _LAST_S + _AFTER_S)
    try:
        main(link, json.loads(sys.argv[2]))
    finally:
        os._exit(0)  # without the exit handlers of foreign libraries


if __name__ == "__main__":
    _run()
