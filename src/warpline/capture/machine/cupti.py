"""Candidate paths of NVIDIA's CUPTI: packages of the program's Python, and CUDA toolkits.

The agent also searches when the program first uses CUDA, but tries these paths first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

# Newest first; the agent uses the first that is compatible with the driver.
_IN_PACKAGES = (
    "nvidia/cu13/lib/libcupti.so.13",
    "nvidia/cuda_cupti/lib/libcupti.so.12",
)
_IN_TOOLKITS = (
    "extras/CUPTI/lib64/libcupti.so.13",
    "extras/CUPTI/lib64/libcupti.so.12",
    "lib64/libcupti.so.13",
    "lib64/libcupti.so.12",
)
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_ENVIRONMENT_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")


def find_cupti(environment: Mapping[str, str], program: Path | None = None) -> list[Path]:
    """Return all CUPTI libraries that a program may use, those of its Python environment first.

    Args:
        environment: The program's environment.
        program: Its executable; None for this process.
    """
    found = [
        folder / name
        for folder in _package_folders(environment, program)
        for name in _IN_PACKAGES
        if (folder / name).is_file()
    ]
    found += [
        folder / name
        for folder in _toolkits(environment)
        for name in _IN_TOOLKITS
        if (folder / name).is_file()
    ]
    # /usr/local/cuda is often a symbolic link to a directory that is listed too.
    by_file = {path.resolve(): path.absolute() for path in reversed(found)}
    return list(reversed(by_file.values()))


def _package_folders(environment: Mapping[str, str], program: Path | None) -> Iterator[Path]:
    """Yield the likely package directories of the program's Python."""
    if program is None:
        yield from (Path(name) for name in sys.path if name)
        return
    yield from (Path(name) for name in environment.get("PYTHONPATH", "").split(os.pathsep) if name)
    # python, torchrun and similar programs are in the bin directory of their environment.
    prefixes = [program.absolute().parent.parent]
    prefixes += [
        Path(environment[name]) for name in _ENVIRONMENT_VARIABLES if environment.get(name)
    ]
    for prefix in dict.fromkeys(prefixes):
        yield from sorted(prefix.glob("lib/python3*/site-packages"), reverse=True)
        yield from sorted(prefix.glob("lib/python3*/dist-packages"), reverse=True)


def _toolkits(environment: Mapping[str, str]) -> Iterator[Path]:
    yield from (Path(environment[name]) for name in _TOOLKIT_VARIABLES if environment.get(name))
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
