"""What ``warpline`` says without arguments: what is here, and what to do next.

It looks at files only: no driver is loaded, and no PyTorch imported.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from warpline import __version__
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.machine.driver import (
    counted,
    driver_version,
    gpu_models,
    is_of_windows,
)

_ENDINGS = (".warpline", ".sqlite", ".pt.trace.json", ".pt.trace.json.gz", ".nsys-rep", ".ncu-rep")
_MOST_ENTRIES = 10_000  # of the folder that are looked at
_SHOWN = 3
_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
_SQLITE = b"SQLite format 3\0"
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


class Found(NamedTuple):
    """What was found.

    Attributes:
        gpus: GPUs with their numbers and the driver, in words; None without a driver.
        cuda: What CUDA work is recorded with, in words; None without CUPTI.
        torch: The version of PyTorch; None for none.
        recordings: Names of recordings in this folder, the newest first, with their ages in s.
    """

    gpus: str | None
    cuda: str | None
    torch: str | None
    recordings: Sequence[tuple[str, float]]


def text(found: Found) -> str:
    """Return the greeting."""
    width = max(len(command) for command, _ in _commands(found))
    return "\n".join(
        [
            f"Warpline {__version__}: profiles CUDA and PyTorch programs, and analyzes recordings.",
            "",
            *_lines(found),
            "",
            "Next",
            *(f"  {command:{width}}  {why}" for command, why in _commands(found)),
            "",
            "All commands: warpline --help. This installation: warpline doctor.",
            "Telemetry: none. Nothing is sent anywhere.",
        ]
    )


def look(environment: Mapping[str, str], root: Path = Path("/"), folder: Path = Path()) -> Found:
    """Return what is on this machine and in a folder.

    Args:
        environment: The environment, for the Python environment and the CUDA toolkit.
        root: Root of the file system.
        folder: Where to look for recordings.
    """
    version = driver_version(root)
    gpus = "driver of Windows (WSL 2): recording was not tested" if is_of_windows(root) else None
    if version is not None:
        gpus = f"{counted(gpu_models(root)) or 'none'}, driver {version}"
    libraries = find_cupti(environment)
    cuda = f"CUPTI in {_short(libraries[0].parent, environment)}" if libraries else None
    return Found(gpus, cuda, _torch(environment), _recordings(folder))


def _lines(found: Found) -> Iterator[str]:
    yield f"  GPU         {found.gpus or 'no NVIDIA driver here: CUDA work cannot be recorded'}"
    if found.gpus is not None:
        yield f"  CUDA        {found.cuda or 'no CUPTI: warpline doctor --fix says how to get it'}"
    yield f"  PyTorch     {found.torch or 'not in this Python environment'}"
    names = [f"{name} ({_age(age_s)})" for name, age_s in found.recordings[:_SHOWN]]
    more = len(found.recordings) - len(names)
    listed = ", ".join([*names, *([f"{more} more"] if more else [])])
    yield f"  Recordings  {listed or 'none in this folder'}"


def _commands(found: Found) -> list[tuple[str, str]]:
    """Return three commands for the situation, each with what it is for."""
    record = "warpline profile -o train python train.py"
    if found.torch is not None:
        record = "warpline profile --pytorch=modules -o train python train.py"
    elsewhere = "warpline profile --host me@gpu1 -- python train.py"
    can_record = found.gpus is not None
    timelines = [name for name, _ in found.recordings if not name.endswith(".ncu-rep")]
    if timelines:
        newest, *older = map(_quoted, timelines)
        third = (
            (f"warpline compare {older[0]} {newest}", "is it faster, and why") if older else None
        )
        return [
            (f"warpline analyze {newest}", "where the time goes, and what to change"),
            (f"warpline view {newest}", "its timeline in the browser"),
            third or ((record if can_record else elsewhere), "record a program"),
        ]
    if found.recordings:
        newest = _quoted(found.recordings[0][0])
        return [
            (f"warpline kernels {newest}", "what limits each kernel"),
            (f"warpline view {newest}", "its kernels in the browser"),
            ((record if can_record else elsewhere), "record a program"),
        ]
    if can_record:
        return [
            (record, "run and record your program"),
            ("warpline analyze train.warpline", "then: where the time goes, and what to change"),
            ("warpline demo", "an analysis of a bundled recording"),
        ]
    return [
        ("warpline demo", "an analysis of a bundled recording"),
        ("warpline analyze report.sqlite", "also of nsys and torch.profiler: what to change"),
        (elsewhere, "record on a machine with a GPU, by ssh"),
    ]


def _torch(environment: Mapping[str, str]) -> str | None:
    """Return the version of PyTorch in this Python, or in the activated environment."""
    folders = [Path(name) for name in sys.path if name.endswith("-packages")]
    for variable in _ENVIRONMENTS:
        if environment.get(variable):
            folders += Path(environment[variable]).glob("lib/python3*/site-packages")
    for folder in folders:
        for path in folder.glob("torch-*.dist-info"):
            return path.name.removeprefix("torch-").removesuffix(".dist-info")
    return None


def _recordings(folder: Path) -> list[tuple[str, float]]:
    """Return the recordings in a folder, by their names, the newest first, with their ages."""
    now_s = time.time()
    found = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= _MOST_ENTRIES:
                    break
                if _is_named(entry.name) and entry.is_file() and _is_one(entry):
                    found.append((entry.name, max(now_s - entry.stat().st_mtime, 0.0)))
    except OSError:
        return []
    return sorted(found, key=lambda item: item[1])


def _is_named(name: str) -> bool:
    """Return whether a file has the name of a recording, and one that a command can show."""
    return name.endswith(_ENDINGS) and name.isprintable() and ":" not in name


def _is_one(entry: os.DirEntry[str]) -> bool:
    """Return whether a file may be a recording: other databases end in .sqlite, too."""
    if not entry.name.endswith(".sqlite"):
        return True
    try:
        with open(entry.path, "rb") as file:  # noqa: PTH123 - a Path for each would be slow
            head = file.read(1 << 16)
    except OSError:
        return False
    # Its schema is on the first pages, and names the tables.
    return head.startswith(_SQLITE) and (b"StringIds" in head or b"CUPTI_ACTIVITY" in head)


def _age(age_s: float) -> str:
    for unit_s, name in _UNITS:
        count = int(age_s // unit_s)
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"


def _short(folder: Path, environment: Mapping[str, str]) -> str:
    shown, home = str(folder), environment.get("HOME", "")
    return f"~{shown[len(home) :]}" if home and shown.startswith(f"{home}/") else shown


def _quoted(name: str) -> str:
    # A name that begins with - would be an option.
    return shlex.quote(f"./{name}" if name.startswith("-") else name)
