"""What this machine offers for recording, and what stands in its way: facts for ``doctor``."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.cupti import find_cupti
from warpline.capture.libraries import AGENT_NAME
from warpline.capture.session import CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE
from warpline.units import format_bytes

_DRIVER = Path("proc/driver/nvidia")
_PARANOID = Path("proc/sys/kernel/perf_event_paranoid")
_MOST_PARANOID = 2  # up to here users may sample their own processes
_ADMIN = 1 << 21 | 1 << 38  # CAP_SYS_ADMIN, CAP_PERFMON
_DCGM = "nv-hostengine"
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups 2 and 1
_LEAST_BYTES = 1 << 30  # of disk, and of memory: with less a recording of some length may fail
_UNLIMITED = 1 << 60  # version 1 says so by a number near 2^63
_ELSEWHERE = "warpline profile -o /ANOTHER/FOLDER/NAME ..."


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        is_good: Whether it is as recording needs it.
        text: What was found.
        fix: What would help; None if nothing needs help.
    """

    name: str
    is_good: bool
    text: str
    fix: str | None = None

    @classmethod
    def good(cls, name: str, text: str) -> Finding:
        """Return a finding that needs no help."""
        return cls(name, is_good=True, text=text)

    @classmethod
    def bad(cls, name: str, text: str, fix: str | None = None) -> Finding:
        """Return a finding that stands in the way of something."""
        return cls(name, is_good=False, text=text, fix=fix)


def findings(
    environment: Mapping[str, str], root: Path = Path("/"), folder: Path = Path()
) -> list[Finding]:
    """Return what matters to recording on this machine.

    Args:
        environment: The variables that a program would be started with.
        root: Where the system's files are.
        folder: Where recordings would be written.
    """
    driver = _driver(root)
    found = [driver, _cupti(environment, has_driver=driver.is_good)]
    found += [item for item in (_counters(root), _perf_events(root)) if item is not None]
    return [*found, *_other_tools(environment), *_dcgm(root), _disk(folder), *_limits(root)]


def _driver(root: Path) -> Finding:
    version = re.search(
        r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", _read(root / _DRIVER / "version")
    )
    if version is None:
        return Finding.bad("CUDA driver", "none found; without it there is no CUDA to record")
    models = [
        found[1].strip()
        for path in sorted((root / _DRIVER / "gpus").glob("*/information"))
        if (found := re.search(r"^Model:(.*)$", _read(path), re.MULTILINE))
    ]
    kinds = ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
    return Finding.good("CUDA driver", f"{version[1]}, {kinds or 'no GPU'}")


def _cupti(environment: Mapping[str, str], *, has_driver: bool) -> Finding:
    paths = find_cupti(environment)
    if paths:
        shown = ", ".join(f"{_version(path)} ({path})" for path in paths)
        return Finding.good("CUPTI", shown)
    fix = "pip install nvidia-cuda-cupti, where the program's own Python has none"
    return Finding.bad("CUPTI", "none found here", fix if has_driver else None)


def _version(path: Path) -> str:
    """Return the version that a CUPTI says it has, or that of its name."""
    number = ctypes.c_uint32()
    try:
        status = ctypes.CDLL(str(path)).cuptiGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return f"{path.name}, which cannot be loaded"
    return str(number.value) if status == 0 else path.name


def _counters(root: Path) -> Finding | None:
    """Return who may read the hardware's counters; None without a driver."""
    said = re.search(
        r"^RmProfilingAdminOnly:\s*(\d)", _read(root / _DRIVER / "params"), re.MULTILINE
    )
    if said is None:
        return None
    if said[1] == "0":
        return Finding.good("GPU counters", "open to every user")
    if _is_admin(root):
        return Finding.good("GPU counters", "for administrators only, as this user is one")
    return Finding.bad(
        "GPU counters",
        "for administrators only; kernels and copies are recorded all the same",
        "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then restart",
    )


def _is_admin(root: Path) -> bool:
    bits = re.search(r"^CapEff:\s*([0-9a-f]+)", _read(root / "proc/self/status"), re.MULTILINE)
    return bits is not None and bool(int(bits[1], 16) & _ADMIN)


def _perf_events(root: Path) -> Finding | None:
    text = _read(root / _PARANOID).strip()
    if not re.fullmatch(r"-?\d+", text):
        return None
    if int(text) <= _MOST_PARANOID:
        return Finding.good("perf events", f"perf_event_paranoid is {text}")
    return Finding.bad(
        "perf events",
        f"perf_event_paranoid is {text}; sampling a CPU needs {_MOST_PARANOID} or less",
        f"sysctl kernel.perf_event_paranoid={_MOST_PARANOID}",
    )


def _other_tools(environment: Mapping[str, str]) -> list[Finding]:
    return [
        Finding.bad(
            name,
            f"{environment[name]}: another tool; warpline profile takes its place",
            f"unset {name}, if it is not wanted",
        )
        for name in (CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE)
        if environment.get(name) and Path(environment[name]).name != AGENT_NAME
    ]


def _dcgm(root: Path) -> Iterator[Finding]:
    """Yield the monitor that may hold the counters which only one tool can have at a time."""
    for path in sorted(root.glob("proc/[0-9]*/comm")):
        if _read(path).strip() == _DCGM:
            yield Finding.bad(
                "DCGM",
                f"{_DCGM} runs (process {path.parent.name}) and may hold the GPU counters;"
                " kernels and copies are recorded all the same",
                "dcgmi profile --pause",
            )
            return


def _disk(folder: Path) -> Finding:
    """Return what room there is for recordings."""
    place = folder.absolute()
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding.bad("disk", f"{place} cannot be written", _ELSEWHERE)
    free = shutil.disk_usage(place).free
    text = f"{format_bytes(free)} free in {place}"
    is_enough = free >= _LEAST_BYTES
    return Finding.good("disk", text) if is_enough else Finding.bad("disk", text, _ELSEWHERE)


def _limits(root: Path) -> Iterator[Finding]:
    """Yield limits of this shell and its container that may cut a recording short."""
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if largest != resource.RLIM_INFINITY:
        text = f"{format_bytes(largest)} at most, the recording's too"
        yield Finding.bad("file size", text, "ulimit -f unlimited")
    limits = (_read(root / "sys/fs/cgroup" / name).strip() for name in _MEMORY_LIMITS)
    limit = next((int(text) for text in limits if text.isdecimal()), _UNLIMITED)
    if limit < _LEAST_BYTES:
        text = f"{format_bytes(limit)} for all that runs in this container"
        yield Finding.bad("memory", text, "docker run --memory=4g, or what your container takes")
    elif limit < _UNLIMITED:
        yield Finding.good("memory", f"{format_bytes(limit)} for all that runs in this container")


def _read(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
