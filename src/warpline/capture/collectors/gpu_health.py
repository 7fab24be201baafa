"""The state of GPUs over time, from NVML."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from warpline.capture.machine.nvml import Gpu, GpuLostError, Nvml

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # its inode: PROC_PID_INIT_INO of Linux
_MPS_SERVER = "nvidia-cuda-mps-server"  # it works for others
_MOST_ANCESTORS = 64

Row = dict[str, int | None]


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

    def read(self, *, surroundings: bool = False, meters: bool = False) -> Iterator[Row]:
        """Yield the state of each GPU; of a lost one, once, a row without a value.

        Args:
            surroundings: Whether to read what changes rarely, too: memory, links, processes.
            meters: Whether to read what is counted, too, at a high cost: energy.
        """
        for number, gpu in list(self._gpus.items()):
            row: Row = {"gpu": number, "start_ns": time.monotonic_ns()}
            try:
                state = gpu.state()
                if surroundings:
                    state |= gpu.surroundings() | self._others(gpu)
                if meters:
                    state |= gpu.meters()
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
