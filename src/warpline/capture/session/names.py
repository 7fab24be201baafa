"""Output names: patterns, numbering, and checks that the files can be written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.machine.processes import is_alive
from warpline.capture.session.facts import read_facts
from warpline.capture.session.session import FOLDER_ENDING, reserve_folder
from warpline.errors import CaptureError, UsageError
from warpline.units import format_bytes

ENDING = ".warpline"
FOREIGN_ENDINGS = (".nsys-rep", ".qdrep", ".ncu-rep", ".ncu-repz")  # of lines for nsys and ncu
LEAST_BYTES = 64 << 20
SCARCE_BYTES = 1 << 30
DEFAULT_STEM = "report"

_PATTERN = re.compile(r"%(?:q\{(?P<variable>[^}]*)\}|(?P<letter>.))", re.DOTALL)
_MAX_NUMBER = 1_000_000
_EXPORT_ENDINGS = {  # all others are the name of the format
    "collapsed": ".folded",
    "firefox": ".firefox.json",
    "perfetto": ".perfetto.json",
    "pprof": ".pb.gz",
    "speedscope": ".speedscope.json",
}
_EXPORT_FOLDERS = frozenset({"parquet", "arrow"})  # formats that are a directory of files
_EXISTS_HINT = "use --force-overwrite to replace it, or -o NAME%n to number the files"

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """The recording's path, and the session directory, created and empty."""

    output: Path
    folder: Path


def expand(pattern: str, environment: Mapping[str, str], *, pid: int, number: int) -> str:
    """Return a name with its patterns expanded, as in nsys.

    %p is the program's process id, %h the host name, %n a number, %q{NAME} an environment variable
    and %% a percent sign. A variable that is not set expands to nothing.

    Raises:
        UsageError: The name has an unknown pattern.
    """

    def text(found: re.Match[str]) -> str:
        variable, letter = found["variable"], found["letter"]
        if variable is not None:
            return environment.get(variable, "")
        known = {"p": str(pid), "h": os.uname().nodename, "n": str(number), "%": "%"}
        if letter not in known:
            raise UsageError(
                f"-o {pattern}: unknown pattern %{letter}", hint="use %p, %h, %n, %q{NAME} or %%"
            )
        return known[letter]

    return _PATTERN.sub(text, pattern)


def unset_variables(pattern: str, environment: Mapping[str, str]) -> list[str]:
    """Return the environment variables in a name that are not set."""
    names = [found["variable"] for found in _PATTERN.finditer(pattern)]
    return [name for name in names if name is not None and name not in environment]


def has_number(pattern: str) -> bool:
    """Return whether a name contains %n, so that a free name can always be found."""
    return any(found["letter"] == "n" for found in _PATTERN.finditer(pattern))


def with_ending(name: str) -> str:
    """Return a name with ``.warpline`` in place of the extension of nsys or ncu."""
    for ending in (*FOREIGN_ENDINGS, ENDING):
        name = name.removesuffix(ending)
    return name + ENDING


def export_path(output: Path, kind: str) -> Path:
    """Return the path of an export of a recording, next to it."""
    return output.with_name(output.stem + _EXPORT_ENDINGS.get(kind, f".{kind}"))


def reserve(
    pattern: str | None,
    environment: Mapping[str, str],
    *,
    pid: int,
    overwrite: bool,
    warn: Warn,
    exports: Iterable[str] = (),
) -> Place:
    """Choose the recording's path and create the session directory.

    Without a pattern, the name is the first free one of report1, report2 and so on. %n is numbered
    the same way. Concurrent callers get different names because creating the directory is atomic.
    If another running session uses a name without %n, a number is added.

    Args:
        pattern: The value of -o.
        environment: For %q.
        pid: For %p.
        overwrite: Whether to overwrite existing output files.
        warn: Called with a warning if disk space is low.
        exports: Formats in which the recording is going to be exported.

    Raises:
        UsageError: The recording or an export exists.
        CaptureError: The directory cannot be created.
    """
    kinds = tuple(exports)
    chosen = f"{DEFAULT_STEM}%n" if pattern is None else pattern
    if not has_number(chosen):
        output = _path(chosen, environment, pid, 0)
        check_room(output.parent, warn)
        check_free(output, overwrite=overwrite, exports=kinds)
        place = _fixed(output, warn)
        if place is not None:
            return place
        chosen = f"{str(output.with_suffix('')).replace('%', '%%')}.%n"
    return _numbered(chosen, environment, pid, warn, kinds)


def _fixed(output: Path, warn: Warn) -> Place | None:
    """Return the place of one recording; None if another running session writes it."""
    folder = reserve_folder(output)
    first = output.with_name(f"{output.name}{FOLDER_ENDING}")
    if folder == first:
        return Place(output, folder)
    if not _is_in_use(first):
        warn(f"{first} is an unfinished recording; run warpline recover {first}")
        return Place(output, folder)
    folder.rmdir()
    warn(
        f"another process is recording to {output.name}; adding a number to this recording's name"
        " (use -o NAME%q{RANK} for one recording per rank)"
    )
    return None


def _is_in_use(folder: Path) -> bool:
    """Return whether the launcher of a session is still running, or may be."""
    try:
        facts = read_facts(folder)
    except CaptureError:  # it is being created or removed right now
        return True
    pid = facts.get("launcher_pid")
    if facts.get("host") != os.uname().nodename or not isinstance(pid, int):
        return True
    return is_alive(pid)


def _numbered(
    chosen: str, environment: Mapping[str, str], pid: int, warn: Warn, exports: Sequence[str]
) -> Place:
    """Return the first free place for a pattern with %n."""
    for number in range(1, _MAX_NUMBER):
        output = _path(chosen, environment, pid, number)
        if number == 1:
            check_room(output.parent, warn)
        paths = [output, output.with_name(f"{output.name}{FOLDER_ENDING}")]
        paths += [export_path(output, kind) for kind in exports]
        if not any(os.path.lexists(path) for path in paths):
            folder = reserve_folder(output)
            if folder.name == f"{output.name}{FOLDER_ENDING}" and not os.path.lexists(output):
                return Place(output, folder)
            folder.rmdir()
    raise CaptureError(f"all names like {chosen} exist", hint="use -o FILE to choose another name")


def check_free(output: Path, *, overwrite: bool, exports: Iterable[str] = ()) -> None:
    """Check that a recording and its exports can be written; UsageError if one cannot.

    Existing files are accepted with `overwrite`, directories in place of a file never.
    """
    if output.is_dir():
        raise UsageError(f"{output} is a directory", hint=f"use -o {output}/NAME")
    if os.path.lexists(output) and not overwrite:
        raise UsageError(f"{output} already exists", hint=_EXISTS_HINT)
    for kind in exports:
        _check_export(export_path(output, kind), kind, overwrite=overwrite)


def _check_export(path: Path, kind: str, *, overwrite: bool) -> None:
    is_folder = kind in _EXPORT_FOLDERS
    if not os.path.lexists(path):
        return
    if path.is_dir() != is_folder:
        raise UsageError(
            f"--export={kind}: {path} is a {'file' if is_folder else 'directory'}",
            hint="use -o NAME to choose another name",
        )
    if not overwrite and not (is_folder and not any(path.iterdir())):
        raise UsageError(f"--export={kind}: {path} already exists", hint=_EXISTS_HINT)


def check_room(folder: Path, warn: Warn) -> None:
    """Check that recordings can be written to a directory.

    Args:
        folder: The directory of the recording and its session.
        warn: Called with a warning if disk space is low.

    Raises:
        CaptureError: The directory does not exist, is not writable or is full.
    """
    if not folder.is_dir():
        raise CaptureError(f"no such directory: {folder}", hint=f"run mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CaptureError(
            f"directory {folder} is not writable",
            hint="use -o FILE to record to another directory",
        )
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if free < LEAST_BYTES:
        raise CaptureError(
            f"not enough disk space in {folder}: {format_bytes(free)} free,"
            f" {format_bytes(LEAST_BYTES)} required",
            hint="free some space, or use -o FILE to record to another disk",
        )
    if free < SCARCE_BYTES:
        warn(
            f"only {format_bytes(free)} free in {folder}; events are dropped when the disk is full"
        )


def _path(pattern: str, environment: Mapping[str, str], pid: int, number: int) -> Path:
    name = expand(pattern, environment, pid=pid, number=number)
    if name.rpartition("/")[2] in {"", ".", ".."}:
        hint = f"-o {name.rstrip('/') if name.strip('/') else ''}/NAME"
        raise UsageError(f"-o {name} is a directory", hint=f"use {hint}")
    return Path(with_ending(name)).absolute()
