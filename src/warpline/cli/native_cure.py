"""What a user can do where native libraries are missing: it depends on what was installed."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from warpline import installation
from warpline.capture.machine import cures

# Of the wheels that `make wheels` builds.
_FOR_ALL = "none-any"
_MACHINES = ("x86_64", "aarch64")
_LEAST_GLIBC = (2, 28)


class NativeCure(NamedTuple):
    """What to do.

    Attributes:
        text: In words.
        commands: Shell commands that do it; none if that takes a file that the user has to choose.
    """

    text: str
    commands: Sequence[str] = ()


def native_cure() -> NativeCure | None:
    """Return what to do where the native core or the agent is missing; None if nothing helps."""
    for name in ("WARPLINE_NATIVE", "WARPLINE_CORE"):
        if os.environ.get(name):
            return NativeCure(f"unset {name}", (f"unset {name}",))
    if sys.platform != "linux":
        return None
    package = installation.package()
    tags, built_in = _installed(package)
    folder = _checkout() or built_in
    if folder is not None:
        *install, build = cures.compiler(folder)
        return NativeCure(
            f"install a C++20 compiler, then build in the source directory: {build}",
            (*install, build),
        )
    if _FOR_ALL not in tags:
        return NativeCure(f"install {package} again: its native libraries are missing or differ")
    machine, glibc = platform.machine(), _glibc()
    if machine in _MACHINES and glibc >= _LEAST_GLIBC:
        name = "manylinux_{}_{}_{}.whl".format(*_LEAST_GLIBC, machine)
        return NativeCure(
            f"install {package}'s wheel for Linux, whose name ends in {name}: this one is for all"
            " systems"
        )
    least = ".".join(map(str, _LEAST_GLIBC))
    return NativeCure(
        f"build {package}'s source distribution (.tar.gz) with a C++20 compiler: its wheels for"
        f" Linux are for {' and '.join(_MACHINES)} with glibc {least} or newer"
    )


def _glibc() -> tuple[int, ...]:
    """Return the version of glibc; (0,) with another C library."""
    name, version = platform.libc_ver()
    parts = version.split(".")
    is_glibc = name == "glibc" and all(part.isdigit() for part in parts)
    return tuple(map(int, parts)) if is_glibc else (0,)


def _installed(package: str) -> tuple[str, Path | None]:
    """Return the tags of the wheel that was installed, and the directory that it was built in.

    The directory is None if it was not installed from one, or that is gone.
    """
    try:
        found = metadata.distribution(package)
        tags, origin = (found.read_text(name) or "" for name in ("WHEEL", "direct_url.json"))
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return "", None
    folder = _folder_of(origin)
    return tags, folder if folder is not None and _is_source(folder) else None


def _folder_of(origin: str) -> Path | None:
    """Return the directory that a direct_url.json names, as PEP 610 defines it."""
    try:
        facts = json.loads(origin)
        url = urlsplit(facts["url"])
        is_folder = "dir_info" in facts and url.scheme == "file"
        return Path(url2pathname(url.path)) if is_folder else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _checkout() -> Path | None:
    """Return the source directory that this package is run in, if it was not installed."""
    folder = Path(__file__).resolve().parents[3]
    return folder if _is_source(folder) else None


def _is_source(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file() and (folder / "native").is_dir()
