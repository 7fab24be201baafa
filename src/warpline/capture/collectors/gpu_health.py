"""The state of GPUs over time, from NVML."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from warpline.capture.machine.nvml import Gpu, GpuLostError, Nvml

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # its inode: PROC_PID_INIT_INO of Linux
_MPS_SERVER = "nvidia-cuda-mps-server"  # it works for others
_MOST_ANCESTORS = 64

# What costs more is read of one GPU after so many seconds at 1 Hz, and more often at higher rates;
# then it is the turn of the next GPU. On an H100, a reading takes up to 0.4 ms of CPU time, memory,
# links and processes 0.8 ms more, energy and the like 8 ms more: 1 ms per second in all.
_LINKS_S, _COUNTERS_S = 5.0, 20.0
_EARLY = 0.99  # of a period: readings are not exactly on time

Row = dict[str, int | None]


class Turns(NamedTuple):
    """Of which GPUs a reading has what costs more.

    Attributes:
        links: Numbers of the GPUs with memory, links, errors and processes.
        counters: Numbers of the GPUs with energy, time limited by heat, number of NVLinks.
    """

    links: Collection[int]
    counters: Collection[int]


class ReadingPlan:
    """Says of which GPUs each reading has what costs more.

    The first reading has it of all GPUs, and so has the last one.

    Args:
        hz: Readings per second.
        gpus: Number of GPUs.

    Attributes:
        counters_s: Time between two readings of the counters of a GPU.
    """

    def __init__(self, hz: float, gpus: int) -> None:
        rate = max(hz, 1.0)
        self.counters_s = max(_COUNTERS_S / rate, 1 / hz) * max(gpus, 1)
        self._gpus = range(gpus)
        self._links = _Turn(_LINKS_S / rate, gpus)
        self._counters = _Turn(_COUNTERS_S / rate, gpus)
        self._is_full = True

    def read_all(self) -> None:
        """Let the next reading have everything."""
        self._is_full = True

    def next(self, now: float) -> Turns:
        """Return what the reading at a time (s) has."""
        turns = Turns(self._links.at(now), self._counters.at(now))
        if self._is_full:
            self._is_full = False
            return Turns(self._gpus, self._gpus)
        return turns


class _Turn:
    """One GPU after the other, each time that a period has passed."""

    def __init__(self, period_s: float, gpus: int) -> None:
        self._period_s = period_s
        self._gpus = gpus
        self._turns = 0
        self._due: float | None = None

    def at(self, now: float) -> tuple[int, ...]:
        if self._due is not None and now < self._due:
            return ()
        is_first, self._due = self._due is None, now + self._period_s * _EARLY
        if is_first or not self._gpus:
            return ()  # with all others
        self._turns += 1
        return ((self._turns - 1) % self._gpus,)


class GpuHealth:
    """Reads the state of the GPUs that a program may use.

    Args:
        nvml: NVML, initialized.
        environment: The program's environment.
        owners: Which processes are the program's.
    """

    def __init__(self, nvml: Nvml, environment: Mapping[str, str], owners: Owners) -> None:
        self._nvml = nvml
        self._owners = owners
        self._gpus: dict[int, Gpu] = dict(enumerate(visible(nvml.gpus(), environment)))
        nvml.watch(list(self._gpus.values()))

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts about each GPU, in the order of their numbers."""
        found = []
        for gpu in self._gpus.values():
            limits: Mapping[str, int | None] = {}
            with suppress(GpuLostError):
                limits = gpu.limits()
            found.append({"uuids": [gpu.uuid, *gpu.instances()], "name": gpu.name, **limits})
        return found

    def read(self, turns: Turns) -> Iterator[Row]:
        """Yield the state of each GPU; of a lost one, once, a row without a value.

        Args:
            turns: Of which GPUs to read what costs more.
        """
        for number, gpu in list(self._gpus.items()):
            row: Row = {"gpu": number, "start_ns": time.monotonic_ns()}
            try:
                state = gpu.state()
                if number in turns.links:
                    state |= gpu.links() | self._others(gpu)
                if number in turns.counters:
                    state |= gpu.counters()
            except GpuLostError:
                del self._gpus[number]
                state = {}
            yield row | state | {"end_ns": time.monotonic_ns()}

    def errors(self) -> Iterator[Row]:
        """Yield the errors since the last call."""
        numbers = {gpu.handle.value: number for number, gpu in self._gpus.items()}
        for handle, xid in self._nvml.errors():
            if handle in numbers:
                yield {"gpu": numbers[handle], "time_ns": time.monotonic_ns(), "xid": xid}

    @property
    def is_watching(self) -> bool:
        """Whether errors are reported."""
        return self._nvml.is_watching

    @property
    def is_over(self) -> bool:
        """Whether there is no GPU to read."""
        return not self._gpus

    def _others(self, gpu: Gpu) -> Row:
        """Return what processes that are not the program's have on a GPU; nothing if unknown."""
        if not self._owners.are_known:
            return {}
        found = gpu.processes()
        if found is None:
            return {}
        others = [process for process in found if self._owners.is_other(process.pid)]
        sizes = [process.used_bytes for process in others]
        known = [size for size in sizes if size is not None]
        return {
            "other_processes": len(others),
            "other_memory_bytes": sum(known) if len(known) == len(sizes) else None,
        }


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that a program sees, by ``CUDA_VISIBLE_DEVICES``.

    Numbers are CUDA's, which are the driver's if the GPUs are alike, or if the environment demands
    that. If it is unknown which ones are meant, all are returned.
    """
    words = environment.get("CUDA_VISIBLE_DEVICES")
    if words is None:
        return [*gpus]
    is_in_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    is_in_order = is_in_order or len({gpu.name for gpu in gpus}) <= 1
    found = []
    for word in filter(None, map(str.strip, words.split(","))):
        if word.startswith("MIG-"):
            return [*gpus]
        if word.startswith("GPU-"):
            found += [gpu for gpu in gpus if gpu.uuid.startswith(word)]
        elif not word.isdecimal() or int(word) >= len(gpus):
            break  # CUDA ignores what follows
        elif not is_in_order:
            return [*gpus]
        else:
            found.append(gpus[int(word)])
    return list(dict.fromkeys(found))


class Owners:
    """Which of the processes on a GPU are the program's: descendants of the launcher.

    The driver's process ids are known to be ours only in the first PID namespace. In another one,
    as in containers, it may report those of the host, or none.

    Args:
        launcher: The launcher's pid. It adopts orphans, so all of the program's processes are its
            descendants while it runs.
        attached: Returns the processes that have an agent.
        proc: Where /proc is.
    """

    def __init__(
        self, launcher: int, attached: Callable[[], Iterable[int]], proc: Path = Path("/proc")
    ) -> None:
        self._launcher = launcher
        self._attached = attached
        self._proc = proc
        self._known: dict[tuple[int, bytes], bool] = {}
        self.are_known = False
        with suppress(OSError):
            self.are_known = (proc / "self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE

    def is_other(self, pid: int) -> bool:
        """Return whether a process exists and is not the program's."""
        parent, started = self._stat(pid)
        if parent is None:
            return self._is_hidden(pid)
        key = (pid, started)
        if key not in self._known:
            self._known[key] = not (self._is_ours(pid) or self._is_server(pid))
        return self._known[key]

    def _is_ours(self, pid: int) -> bool:
        if pid in {*self._attached()}:
            return True
        ancestor: int | None = pid
        for _ in range(_MOST_ANCESTORS):
            if ancestor == self._launcher:
                return True
            if not ancestor or ancestor == 1:
                return False
            ancestor, _ = self._stat(ancestor)
        return False

    def _is_server(self, pid: int) -> bool:
        with suppress(OSError):
            name = (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
            return bool(name) and _MPS_SERVER.startswith(name)  # Linux keeps 15 characters
        return False

    def _is_hidden(self, pid: int) -> bool:
        """Return whether there is a process that /proc does not show to this user."""
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        except OSError:
            return False
        return False  # it has just begun

    def _stat(self, pid: int) -> tuple[int | None, bytes]:
        """Return the parent of a process, and when it started; None if it cannot be read."""
        try:
            fields = (self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            return int(fields[1]), fields[19]
        except (OSError, IndexError, ValueError):
            return None, b""
