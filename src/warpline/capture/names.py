"""The name of the recording to make: patterns, numbers, and whether there is room for it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.processes import is_alive
from warpline.capture.session import FOLDER_ENDING, read_facts, reserve_folder
from warpline.errors import CaptureError, UsageError
from warpline.units import format_bytes

ENDING = ".warpline"
FOREIGN_ENDINGS = (".nsys-rep", ".qdrep")  # in lines that were written for nsys
LEAST_BYTES = 64 << 20
SCARCE_BYTES = 1 << 30
DEFAULT_STEM = "report"

_PATTERN = re.compile(r"%(?:q\{(?P<variable>[^}]*)\}|(?P<letter>.))", re.DOTALL)
_MAX_NUMBER = 1_000_000

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Where a recording will be, and the folder of its session, which is made and empty."""

    output: Path
    folder: Path


def expand(pattern: str, environment: Mapping[str, str], *, pid: int, number: int) -> str:
    """Return a name with its patterns replaced, as nsys does.

    %p is the program's process id, %h the host, %n a number, %q{NAME} an environment variable and
    %% a per cent sign. A variable that is not set gives nothing.

    Raises:
        UsageError: There is no such pattern.
    """

    def text(found: re.Match[str]) -> str:
        variable, letter = found["variable"], found["letter"]
        if variable is not None:
            return environment.get(variable, "")
        known = {"p": str(pid), "h": os.uname().nodename, "n": str(number), "%": "%"}
        if letter not in known:
            raise UsageError(
                f"-o {pattern}: there is no pattern %{letter}", hint="%p %h %n %q{NAME} %%"
            )
        return known[letter]

    return _PATTERN.sub(text, pattern)


def unset_variables(pattern: str, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that a name refers to and that are not set."""
    names = [found["variable"] for found in _PATTERN.finditer(pattern)]
    return [name for name in names if name is not None and name not in environment]


def has_number(pattern: str) -> bool:
    """Return whether a name has the pattern %n, so that it can always be made new."""
    return any(found["letter"] == "n" for found in _PATTERN.finditer(pattern))


def with_ending(name: str) -> str:
    """Return a name with our ending in place of nsys's."""
    for ending in (*FOREIGN_ENDINGS, ENDING):
        name = name.removesuffix(ending)
    return name + ENDING


def reserve(
    pattern: str | None,
    environment: Mapping[str, str],
    *,
    pid: int,
    overwrite: bool,
    warn: Warn,
) -> Place:
    """Choose the recording's path and make the folder of its session.

    Without a name it is the first of report1, report2... that is free, likewise with %n. Two that
    look for a name at the same time find different ones: the folder is what they compete for.
    A name without a number that another session is about to write gets one.

    Args:
        pattern: What -o says.
        environment: For %q.
        pid: For %p.
        overwrite: Whether the recording may exist.
        warn: Told when there is little space.

    Raises:
        UsageError: The name is taken.
        CaptureError: The folder cannot be made.
    """
    chosen = f"{DEFAULT_STEM}%n" if pattern is None else pattern
    if not has_number(chosen):
        output = _path(chosen, environment, pid, 0)
        check_room(output.parent, warn)
        check_free(output, overwrite=overwrite)
        place = _fixed(output, warn)
        if place is not None:
            return place
        chosen = f"{str(output.with_suffix('')).replace('%', '%%')}.%n"
    return _numbered(chosen, environment, pid, warn)


def _fixed(output: Path, warn: Warn) -> Place | None:
    """Return the place of one recording; None if another session is about to write it."""
    folder = reserve_folder(output)
    first = output.with_name(f"{output.name}{FOLDER_ENDING}")
    if folder == first:
        return Place(output, folder)
    if not _is_in_use(first):
        warn(f"{first} holds a session that was never finished: warpline recover {first}")
        return Place(output, folder)
    folder.rmdir()
    warn(
        f"another session records into {output.name}, so this one gets a number;"
        " -o NAME%q{RANK} names one per rank"
    )
    return None


def _is_in_use(folder: Path) -> bool:
    """Return whether the launcher of a session still runs, or may."""
    try:
        facts = read_facts(folder)
    except CaptureError:  # it is being made, or finished, at this moment
        return True
    pid = facts.get("launcher_pid")
    if facts.get("host") != os.uname().nodename or not isinstance(pid, int):
        return True
    return is_alive(pid)


def _numbered(chosen: str, environment: Mapping[str, str], pid: int, warn: Warn) -> Place:
    """Return the first place that is free of those that a pattern with %n names."""
    for number in range(1, _MAX_NUMBER):
        output = _path(chosen, environment, pid, number)
        if number == 1:
            check_room(output.parent, warn)
        if not os.path.lexists(output) and not os.path.lexists(f"{output}{FOLDER_ENDING}"):
            folder = reserve_folder(output)
            if folder.name == f"{output.name}{FOLDER_ENDING}" and not os.path.lexists(output):
                return Place(output, folder)
            folder.rmdir()
    raise CaptureError(f"all names like {chosen} are taken", hint="-o FILE names the recording")


def check_free(output: Path, *, overwrite: bool) -> None:
    """Refuse the path of a recording that exists, unless `overwrite`, and of a folder."""
    if output.is_dir():
        raise UsageError(f"{output} is a folder", hint=f"-o {output}/NAME")
    if os.path.lexists(output) and not overwrite:
        raise UsageError(f"{output} exists", hint="-f true replaces it, -o NAME%n numbers them")


def check_room(folder: Path, warn: Warn) -> None:
    """Make sure that recordings can be written in a folder.

    Args:
        folder: Where the recording and its session are to be.
        warn: Told when there is little space.

    Raises:
        CaptureError: The folder does not exist, cannot be written or is full.
    """
    if not folder.is_dir():
        raise CaptureError(f"there is no folder {folder}", hint=f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CaptureError(
            f"the folder {folder} cannot be written", hint="-o FILE puts the recording elsewhere"
        )
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if free < LEAST_BYTES:
        raise CaptureError(
            f"{folder} has {format_bytes(free)} free; {format_bytes(LEAST_BYTES)} are needed",
            hint="-o FILE puts the recording elsewhere",
        )
    if free < SCARCE_BYTES:
        warn(f"{folder} has only {format_bytes(free)} free; events are lost when it is full")


def _path(pattern: str, environment: Mapping[str, str], pid: int, number: int) -> Path:
    name = expand(pattern, environment, pid=pid, number=number)
    if name.rpartition("/")[2] in {"", ".", ".."}:
        hint = f"-o {name.rstrip('/') if name.strip('/') else ''}/NAME"
        raise UsageError(f"-o {name} names a folder", hint=hint)
    return Path(with_ending(name)).absolute()
