"""Which recording in progress is meant: by a session, a process, a file; or the only one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.finishing.raw_session import is_recording
from warpline.capture.launcher.steering import status_of
from warpline.capture.machine import processes
from warpline.capture.session import named
from warpline.capture.session.facts import read_facts, time_of
from warpline.capture.session.names import with_ending
from warpline.capture.session.session import FOLDER_ENDING, LOG_ENDING
from warpline.errors import CaptureError, UsageError

_START_HINT = "record a program with warpline profile, launch --start or attach"
_MOST_LISTED = 8


@dataclass(frozen=True)
class Found:
    """A recording in progress.

    Attributes:
        name: What it is called on the screen: the session's name, or the file's.
        folder: The directory of its logs.
        facts: The content of session.json.
    """

    name: str
    folder: Path
    facts: dict[str, Any]


def find(text: str | None) -> Found:
    """Return the recording that is meant.

    Args:
        text: Name of a session, process id of a program or a launcher, or path of the recording
            being made; None for the only recording in progress, of all sessions and of those that
            are written to this directory.

    Raises:
        UsageError: There is none, or there are several.
        CaptureError: The session does not record, or belongs to another user.
    """
    if text is None:
        return _only()
    if text in named.all_names():
        return _of_session(text)
    if text.isdecimal():
        return _of_process(int(text))
    folder = _folder_of(Path(text))
    if folder is None:
        raise UsageError(f"no recording in progress is named {text}", hint=_hint())
    return _checked(folder)


def _only() -> Found:
    names = named.all_names()
    recorded = [name for name in names if status_of(name)["recording"] is not None]
    files = [path for path in _here() if not _is_of(path, recorded)]
    count = len(recorded) + len(files)
    if count > 1:
        listed = ", ".join([*recorded, *map(_name, files)][:_MOST_LISTED])
        raise UsageError(f"{count} recordings are in progress: {listed}", hint="name one of them")
    if recorded:
        return _of_session(recorded[0])
    if files:
        return _checked(files[0])
    if names:
        return _of_session(names[0])  # says that it does not record
    raise UsageError("no recording is in progress here", hint=_START_HINT)


def _here() -> list[Path]:
    """Return the directories of recordings that are being written to the current directory."""
    return [path for path in sorted(Path.cwd().glob(f"*{FOLDER_ENDING}")) if is_recording(path)]


def _is_of(folder: Path, names: list[str]) -> bool:
    return any(_folder_of_session(name) == folder for name in names)


def _of_session(name: str) -> Found:
    folder = _folder_of_session(name)
    if folder is None:
        raise CaptureError(
            f"session {name} is not recording", hint=f"run warpline start --session={name}"
        )
    return Found(name, folder, read_facts(folder))


def _folder_of_session(name: str) -> Path | None:
    recording = status_of(name)["recording"]
    return None if recording is None else _folder_of(Path(recording["output"]))


def _folder_of(path: Path) -> Path | None:
    """Return the newest directory of a recording; a path may be that directory, too."""
    if path.name.endswith(FOLDER_ENDING) and path.is_dir():
        return path.absolute()
    output = path.absolute().with_name(with_ending(path.name))
    found = [
        (time_of(_facts(each), "started_monotonic_ns") or 0, each)
        for each in output.parent.glob(f"{output.name}*{FOLDER_ENDING}")
        if _facts(each).get("output") == str(output)
    ]
    return max(found)[1] if found else None


def _of_process(pid: int) -> Found:
    if not processes.is_alive(pid):
        raise UsageError(f"there is no process {pid}", hint=_hint())
    for each in (pid, *processes.descendants(pid)):
        folder = _folder_in_maps(each)
        if folder is not None:
            return _checked(folder)
    raise CaptureError(
        f"process {pid} is not being recorded",
        hint=f"run warpline attach {pid}, or name the session",
    )


def _folder_in_maps(pid: int) -> Path | None:
    """Return the session that a process writes logs to: it has them mapped."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").split("\n")
    except PermissionError:
        raise CaptureError(
            f"process {pid} belongs to another user, or cannot be inspected",
            hint="run this command as the user who records it, or name the recording's file",
        ) from None
    except OSError:
        return None
    logs = {line[line.index("/") :] for line in lines if line.endswith(LOG_ENDING)}
    folders = {Path(log).parent for log in logs}
    newest = [(time_of(_facts(each), "started_monotonic_ns") or 0, each) for each in folders]
    return max(newest)[1] if newest else None


def _checked(folder: Path) -> Found:
    facts = read_facts(folder)
    output = facts.get("output")
    name = Path(output).name if isinstance(output, str) else folder.name
    if not is_recording(folder):
        raise CaptureError(
            f"{name} is not being recorded any more",
            hint=f"run warpline recover {_short(folder)} if its launcher was killed",
        )
    return Found(name, folder, facts)


def _facts(folder: Path) -> dict[str, Any]:
    try:
        return read_facts(folder)
    except CaptureError:
        return {}


def _short(path: Path) -> str:
    shown = os.path.relpath(path)
    return shown if len(shown) < len(str(path)) else str(path)


def _name(folder: Path) -> str:
    """Return the file that is being made in a directory of logs."""
    return _short(folder.with_suffix(""))


def _hint() -> str:
    names = [*named.all_names(), *map(_name, _here())][:_MOST_LISTED]
    return f"in progress: {', '.join(names)}" if names else _START_HINT
