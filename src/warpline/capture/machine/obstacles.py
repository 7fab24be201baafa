"""Why hardware counters cannot be collected, each with its cure.

The only list of it: agents note CUPTI's result, and finishing looks it up here.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.machine.driver import DRIVER, driver_version

_SYS_ADMIN, _PERFMON = 1 << 21, 1 << 38
_PERFMON_DRIVER = 565  # the first that accepts CAP_PERFMON
_UNSUPPORTED, _DISABLED = 1, 2  # of CUpti_Profiler_Support_Level
_MODULE_OPTION = (
    "add options nvidia NVreg_RestrictProfilingToAdminUsers=0 to /etc/modprobe.d, then reboot"
)
_TIMELINE = "use warpline profile for a timeline"


class CuptiResult(enum.IntEnum):
    """What CUPTI's functions return if counters cannot be used: CUPTI_ERROR_ and the name."""

    HARDWARE_BUSY = 26
    VIRTUALIZED_DEVICE_NOT_SUPPORTED = 33
    INSUFFICIENT_PRIVILEGES = 35
    MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39
    VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40
    CONFIDENTIAL_COMPUTING_NOT_SUPPORTED = 41
    CMP_DEVICE_NOT_SUPPORTED = 42
    MIG_DEVICE_NOT_SUPPORTED = 43
    SLI_DEVICE_NOT_SUPPORTED = 44
    WSL_DEVICE_NOT_SUPPORTED = 45


_TOO_OLD = -1  # no result of CUPTI: it is an answer about the configuration


@dataclass(frozen=True)
class Obstacle:
    """What stands in the way of counters.

    Attributes:
        cause: What, in words.
        cure: What to do about it.
        is_about_rights: Whether only the rights of the user are missing.
    """

    cause: str
    cure: str
    is_about_rights: bool = False


# Result -> the cause and the cure. `rights` knows those of INSUFFICIENT_PRIVILEGES.
_OF_STATUS = {
    CuptiResult.HARDWARE_BUSY: (
        "another profiler uses the GPU's counters, such as DCGM or ncu",
        "run dcgmi profile --pause, or end the other profiler",
    ),
    CuptiResult.VIRTUALIZED_DEVICE_NOT_SUPPORTED: (
        "this virtual GPU has no counters",
        _TIMELINE,
    ),
    CuptiResult.MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: (
        "another tool in the program uses CUPTI",
        "run the program without other profilers and debuggers",
    ),
    CuptiResult.VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES: (
        "the hypervisor does not allow counters on this virtual GPU",
        "have the administrator enable profiling for the vGPU",
    ),
    CuptiResult.CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: (
        "confidential computing is on",
        "turn it off on the GPU, or use another GPU",
    ),
    CuptiResult.CMP_DEVICE_NOT_SUPPORTED: ("mining GPUs (CMP) have no counters", "use another GPU"),
    CuptiResult.MIG_DEVICE_NOT_SUPPORTED: (
        "this MIG instance has no counters",
        "use a MIG instance of the whole GPU, or turn off MIG",
    ),
    _TOO_OLD: ("the GPU is older than Volta (compute capability 7.0)", "use a newer GPU"),
    CuptiResult.SLI_DEVICE_NOT_SUPPORTED: ("SLI is on", "turn SLI off"),
    CuptiResult.WSL_DEVICE_NOT_SUPPORTED: (
        "Windows Subsystem for Linux does not allow counters",
        "allow access in NVIDIA's settings",
    ),
}
# Answers of `cuptiProfilerDeviceSupported` -> the result that means the same.
_OF_SUPPORT = {
    "architecture": _TOO_OLD,
    "vGpu": CuptiResult.VIRTUALIZED_DEVICE_NOT_SUPPORTED,
    "confidentialCompute": CuptiResult.CONFIDENTIAL_COMPUTING_NOT_SUPPORTED,
    "cmp": CuptiResult.CMP_DEVICE_NOT_SUPPORTED,
    "sli": CuptiResult.SLI_DEVICE_NOT_SUPPORTED,
    "wsl": CuptiResult.WSL_DEVICE_NOT_SUPPORTED,
}


def obstacle(
    status: int | None, support: Mapping[str, int] | None = None, root: Path = Path("/")
) -> Obstacle | None:
    """Return what keeps CUPTI from counting; None if nothing is known to.

    Args:
        status: The CUptiResult of an attempt to use the counters; None if it was not tried.
        support: What CUPTI says of the GPU's configuration.
        root: Root of the file system.
    """
    found = _of_configuration(support or {}) or status
    if not found:
        return None
    return known_obstacle(found, root) or Obstacle(
        f"CUPTI cannot use the GPU's counters (error {found})", "run warpline doctor"
    )


def known_obstacle(status: int, root: Path = Path("/")) -> Obstacle | None:
    """Return what a CUptiResult means; None if its cause is not known."""
    if status == CuptiResult.INSUFFICIENT_PRIVILEGES:
        return rights(root)
    return Obstacle(*_OF_STATUS[status]) if status in _OF_STATUS else None


def _of_configuration(support: Mapping[str, int]) -> int | None:
    """Return the key in `_OF_STATUS` of what CUPTI says of a GPU's configuration."""
    if support.get("vGpu") == _DISABLED:
        return CuptiResult.VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES
    wrong = (key for part, key in _OF_SUPPORT.items() if support.get(part) == _UNSUPPORTED)
    return next(wrong, None)


def rights(root: Path = Path("/")) -> Obstacle:
    """Return the obstacle that this user may not read counters, with the cure for this machine."""
    cause = "this user may not read GPU counters (ERR_NVGPUCTRPERM)"
    if is_container(root):
        capability = "PERFMON" if _knows_perfmon(root) else "SYS_ADMIN"
        return Obstacle(
            f"{cause}, and the container lacks CAP_{capability}",
            f"run it with docker run --cap-add={capability}, or on the host {_MODULE_OPTION}",
            is_about_rights=True,
        )
    how = "grant CAP_PERFMON" if _knows_perfmon(root) else "run as root"
    return Obstacle(cause, f"{how}, or {_MODULE_OPTION}", is_about_rights=True)


def is_restricted(root: Path = Path("/")) -> bool | None:
    """Return whether the driver lets only administrators read counters; None if unknown."""
    said = re.search(
        r"^RmProfilingAdminOnly:\s*(\d)", _read(root / DRIVER / "params"), re.MULTILINE
    )
    return None if said is None else said[1] != "0"


def is_admin(root: Path = Path("/")) -> bool:
    """Return whether this process has a capability that the driver accepts."""
    return has_capability(_SYS_ADMIN | (_PERFMON if _knows_perfmon(root) else 0), root)


def has_capability(accepted: int, root: Path = Path("/")) -> bool:
    """Return whether this process has one of some capabilities, given as bits."""
    bits = re.search(r"^CapEff:\s*([0-9a-f]+)", _read(root / "proc/self/status"), re.MULTILINE)
    return bits is not None and bool(int(bits[1], 16) & accepted)


def _knows_perfmon(root: Path) -> bool:
    major = (driver_version(root) or "").partition(".")[0]
    return major.isdecimal() and int(major) >= _PERFMON_DRIVER


def is_container(root: Path = Path("/")) -> bool:
    """Return whether this process runs in a container."""
    marks = (root / ".dockerenv", root / "run/.containerenv")
    text = _read(root / "proc/1/cgroup")
    return any(mark.exists() for mark in marks) or bool(
        re.search(r"docker|kubepods|containerd|lxc", text)
    )


def _read(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
