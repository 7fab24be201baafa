"""Checks of this machine for recording, shown by ``warpline doctor``."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.machine import cures
from warpline.capture.machine.agent import (
    AGENT_NAME,
    CUDA_INJECTION_VARIABLE,
    INJECTION_VARIABLE,
    agent_library,
)
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.machine.driver import (
    counted,
    driver_version,
    gpu_models,
    is_of_windows,
)
from warpline.capture.machine.gpus import Gpus, find_gpus
from warpline.capture.machine.nvml import LIBRARY, GpuLostError, Nvml
from warpline.capture.machine.obstacles import (
    Obstacle,
    has_capability,
    is_admin,
    is_restricted,
    rights,
)
from warpline.capture.machine.perf import perf_obstacle, sampler_library
from warpline.errors import AgentMissingError, CounterError
from warpline.units import format_bytes, plural

# What a GPU's state has that users look for.
_STATE = {
    "sm_clock_hz": "SM clock",
    "clock_limits": "what limits clocks",
    "power_mw": "power",
    "energy_mj": "energy",
    "temperature_c": "temperature",
    "used_memory_bytes": "memory",
}
_PARANOID = Path("proc/sys/kernel/perf_event_paranoid")
_MOST_PARANOID = cures.MOST_PARANOID
_PTRACE_SCOPE = Path("proc/sys/kernel/yama/ptrace_scope")
_SYS_PTRACE = 1 << 19
_WITH_TIMERS = "CPU sampling uses timers, and has no context switches"
_COUNTERS = "GPU counters"
_HEALTH = "GPU state"
_NOT_NEEDED = "not needed to record kernels and copies"
_LIMIT_S = 20.0  # for the driver's answer
_DCGM = "nv-hostengine"
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups 2 and 1
_LEAST_BYTES = 1 << 30  # of disk, and of memory: with less, a long recording may fail
_UNLIMITED = 1 << 60  # control groups 1 use a number near 2^63
_ELSEWHERE = "record to another directory: warpline profile -o /DIRECTORY/NAME ..."


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: The name of the check.
        is_good: Whether it passed.
        text: The details.
        fix: How to fix it; None if there is nothing to do.
        commands: Shell commands that do so; empty if none does.
    """

    name: str
    is_good: bool
    text: str
    fix: str | None = None
    commands: tuple[str, ...] = ()

    @classmethod
    def good(cls, name: str, text: str) -> Finding:
        """Return a check that passed."""
        return cls(name, is_good=True, text=text)

    @classmethod
    def bad(cls, name: str, text: str, fix: str | None = None, *commands: str) -> Finding:
        """Return a check that failed."""
        return cls(name, is_good=False, text=text, fix=fix, commands=commands)


def findings(
    environment: Mapping[str, str],
    root: Path = Path("/"),
    folder: Path = Path(),
    ask: Callable[..., Gpus] = find_gpus,
    open_nvml: Callable[[], Nvml | None] = Nvml.open,
) -> list[Finding]:
    """Return the results of all checks.

    Args:
        environment: The environment for profiled programs.
        root: Root of the file system.
        folder: Directory for recordings.
        ask: Finds the GPUs, as `find_gpus`.
        open_nvml: Opens NVML, as `Nvml.open`.
    """
    driver = _driver(root)
    found = [driver, _cupti(environment, has_driver=driver.is_good)]
    if driver.is_good:
        found.append(_health(open_nvml))
    asked = (_counters(environment, root, ask), _perf_events(root), _attaching(root))
    found += [item for item in asked if item is not None]
    return [*found, *_other_tools(environment), *_dcgm(root), _disk(folder), *_limits(root)]


def _driver(root: Path) -> Finding:
    version = driver_version(root)
    if version is None and is_of_windows(root):
        return Finding.good("CUDA driver", "of Windows (WSL 2), where recording was not tested")
    if version is None:
        return Finding.bad("CUDA driver", "not found; only NVTX can be recorded")
    models = gpu_models(root)
    return Finding.good("CUDA driver", f"{version}, {counted(models) or 'no GPU'}")


def _cupti(environment: Mapping[str, str], *, has_driver: bool) -> Finding:
    paths = find_cupti(environment)
    if paths:
        shown = ", ".join(f"{_version(path)} ({path})" for path in paths)
        return Finding.good("CUPTI", shown)
    fix = "run pip install nvidia-cuda-cupti in the program's Python environment"
    if not has_driver:
        return Finding.bad("CUPTI", "not found")
    return Finding.bad("CUPTI", "not found", fix, cures.package("nvidia-cuda-cupti"))


def _version(path: Path) -> str:
    """Return the version that CUPTI reports, or its file name."""
    number = ctypes.c_uint32()
    try:
        status = ctypes.CDLL(str(path)).cuptiGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return f"{path.name}, cannot be loaded"
    return str(number.value) if status == 0 else path.name


def _counters(
    environment: Mapping[str, str], root: Path, ask: Callable[..., Gpus]
) -> Finding | None:
    """Return whether hardware counters can be used; None without a driver."""
    restricted = is_restricted(root)
    if restricted is None:
        return None
    tried = _tried_counters(environment, root, ask)
    if tried is not None:
        return tried
    if not restricted:
        return Finding.good(_COUNTERS, "accessible to all users")
    if is_admin(root):
        return Finding.good(_COUNTERS, "administrators only; this user is one")
    missing = rights(root)
    return _lacking_counters(missing, root)


def _lacking_counters(missing: Obstacle, root: Path) -> Finding:
    commands = cures.counters(root) if missing.is_about_rights else ()
    return Finding.bad(_COUNTERS, f"{missing.cause}; {_NOT_NEEDED}", missing.cure, *commands)


def _tried_counters(
    environment: Mapping[str, str], root: Path, ask: Callable[..., Gpus]
) -> Finding | None:
    """Return what came of an attempt to use them; None if there was none."""
    libraries = find_cupti(environment)
    if not libraries:
        return None
    try:
        gpu = ask(environment, libraries, limit_s=_LIMIT_S).tried
    except CounterError as error:
        return Finding.bad(_COUNTERS, f"{error.message}; {_NOT_NEEDED}", error.hint)
    if gpu.obstacle is not None:
        return _lacking_counters(gpu.obstacle, root)
    name = f"{gpu.name} ({gpu.chip or 'unknown chip'})"
    text = f"can be collected on {name}, per kernel launch and over time"
    return Finding.good(_COUNTERS, text) if gpu.is_tried else None


def _health(open_nvml: Callable[[], Nvml | None]) -> Finding:
    """Return whether the state of GPUs, such as clocks and power, can be read."""
    nvml = open_nvml()
    if nvml is None:
        return Finding.bad(
            _HEALTH,
            f"NVML ({LIBRARY}) cannot be used; clocks, power and temperature are not recorded",
            "run nvidia-smi; in a container, allow NVIDIA_DRIVER_CAPABILITIES=utility",
        )
    missing: dict[str, None] = {}
    gpus = nvml.gpus()
    for gpu in gpus:
        try:
            state = gpu.state() | gpu.surroundings() | gpu.meters()
        except GpuLostError:
            return Finding.bad(_HEALTH, f"GPU {gpu.uuid} is lost", "run nvidia-smi")
        missing |= {words: None for name, words in _STATE.items() if state[name] is None}
    nvml.close()
    said = f"can be read from {plural(len(gpus), 'GPU')}"
    return Finding.good(_HEALTH, f"{said}, without {', '.join(missing)}" if missing else said)


def _perf_events(root: Path) -> Finding | None:
    text = _read(root / _PARANOID).strip()
    if not re.fullmatch(r"-?\d+", text):
        return None
    shown = f"perf_event_paranoid is {text}"
    if int(text) <= _MOST_PARANOID:
        obstacle = _tried_perf(root)
        if obstacle is None:
            return Finding.good("perf events", shown)
        return Finding.bad("perf events", f"{obstacle.cause}; {_WITH_TIMERS}", obstacle.cure)
    return Finding.bad(
        "perf events",
        f"{shown}; {_WITH_TIMERS}",
        f"run sysctl kernel.perf_event_paranoid={_MOST_PARANOID}",
        *cures.setting("kernel.perf_event_paranoid", _MOST_PARANOID),
    )


def _attaching(root: Path) -> Finding | None:
    """Return whether this user may attach to programs that run; None if nothing restricts it."""
    level = _read(root / _PTRACE_SCOPE).strip()
    if not level.isdecimal():
        return None
    text = f"ptrace_scope is {level}"
    if level == "0" or has_capability(_SYS_PTRACE, root):
        return Finding.good("attaching", text)
    fix = "run warpline as root, or sysctl kernel.yama.ptrace_scope=0"
    commands = cures.setting("kernel.yama.ptrace_scope", 0)
    if level == "3":
        fix = "set kernel.yama.ptrace_scope in /etc/sysctl.d and reboot"
        commands = (*commands[1:], cures.as_root("reboot"))
    return Finding.bad(
        "attaching", f"{text}; warpline attach needs root, other commands do not", fix, *commands
    )


def _tried_perf(root: Path) -> Obstacle | None:
    """Return what came of an attempt to sample; None if it succeeded, or there was none."""
    if root != Path("/"):
        return None
    try:
        library = sampler_library(agent_library())
    except AgentMissingError:
        return None
    return perf_obstacle(library) if library.is_file() else None


def _other_tools(environment: Mapping[str, str]) -> list[Finding]:
    return [
        Finding.bad(
            name,
            f"{environment[name]} is set by another tool; warpline profile replaces it",
            f"unset {name} if you do not need that tool",
            f"unset {name}",
        )
        for name in (CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE)
        if environment.get(name) and Path(environment[name]).name != AGENT_NAME
    ]


def _dcgm(root: Path) -> Iterator[Finding]:
    """Yield a running DCGM, which may be using the GPU counters; only one tool can at a time."""
    for path in sorted(root.glob("proc/[0-9]*/comm")):
        if _read(path).strip() == _DCGM:
            yield Finding.bad(
                "DCGM",
                f"{_DCGM} is running (process {path.parent.name}) and may be using the GPU"
                " counters; not needed to record kernels and copies",
                "run dcgmi profile --pause",
                "dcgmi profile --pause",
            )
            return


def _disk(folder: Path) -> Finding:
    """Return the disk space for recordings."""
    place = folder.absolute()
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding.bad("disk", f"{place} is not writable", _ELSEWHERE)
    free = shutil.disk_usage(place).free
    text = f"{format_bytes(free)} free in {place}"
    is_enough = free >= _LEAST_BYTES
    return Finding.good("disk", text) if is_enough else Finding.bad("disk", text, _ELSEWHERE)


def _limits(root: Path) -> Iterator[Finding]:
    """Yield limits of the shell and the container that may truncate a recording."""
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if largest != resource.RLIM_INFINITY:
        text = f"limited to {format_bytes(largest)}, which includes recordings"
        yield Finding.bad("file size", text, "run ulimit -f unlimited", "ulimit -f unlimited")
    limits = (_read(root / "sys/fs/cgroup" / name).strip() for name in _MEMORY_LIMITS)
    limit = next((int(text) for text in limits if text.isdecimal()), _UNLIMITED)
    if limit < _LEAST_BYTES:
        text = f"this container is limited to {format_bytes(limit)}"
        yield Finding.bad("memory", text, "raise the limit, such as docker run --memory=4g")
    elif limit < _UNLIMITED:
        yield Finding.good("memory", f"this container is limited to {format_bytes(limit)}")


def _read(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
