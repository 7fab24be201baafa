"""Shell commands that mend what keeps a machine from recording. They are printed, never run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from warpline.capture.machine.obstacles import is_container

MOST_PARANOID = 2  # the highest perf_event_paranoid at which users may sample their own processes

_SETTINGS = "/etc/sysctl.d/60-warpline.conf"
_OPTIONS = "/etc/modprobe.d/warpline-counters.conf"
_COMPILERS = {
    "apt-get": "apt-get install -y g++",
    "dnf": "dnf install -y gcc-c++",
    "zypper": "zypper install -y gcc-c++",
    "apk": "apk add g++",
    "pacman": "pacman -S --noconfirm gcc",
}
_INITRAMFS = {"update-initramfs": "update-initramfs -u", "dracut": "dracut --force"}

Which = Callable[[str], str | None]


def setting(name: str, value: int) -> tuple[str, ...]:
    """Return the commands that set a kernel setting, now and after the next start."""
    return (
        as_root(f"sysctl -w {name}={value}"),
        f"echo '{name} = {value}' | {as_root(f'tee -a {_SETTINGS}')}",
    )


def counters(root: Path = Path("/"), which: Which = shutil.which) -> tuple[str, ...]:
    """Return the commands that let all users read GPU counters; none in a container."""
    if is_container(root):
        return ()
    option = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
    rebuild = [as_root(line) for program, line in _INITRAMFS.items() if which(program)]
    return (
        f"echo '{option}' | {as_root(f'tee {_OPTIONS}')}",
        *rebuild[:1],
        as_root("reboot"),
    )


def package(*names: str) -> str:
    """Return the command that installs packages for this Python."""
    return f"{shlex.quote(sys.executable)} -m pip install {' '.join(map(shlex.quote, names))}"


def compiler(source: Path, which: Which = shutil.which) -> tuple[str, ...]:
    """Return the commands that install a C++ compiler, if there is none, and build in a directory.

    The last one builds.
    """
    has_one = any(which(name) for name in ("c++", "g++", "clang++"))
    found = [as_root(line) for program, line in _COMPILERS.items() if which(program)]
    return (*(() if has_one else found[:1]), package("--force-reinstall", "--no-deps", str(source)))


def as_root(line: str) -> str:
    """Return a command as this user runs it with the rights of root."""
    return line if not hasattr(os, "geteuid") or os.geteuid() == 0 else f"sudo {line}"
