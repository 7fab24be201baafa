"""A job: a program that is recorded on this machine for another one.

A job is a directory: ``job.json`` says what to run, ``outcome.json`` how it ended, and the
recordings are beside them. It outlives the connection.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline import installation, native
from warpline.capture.machine.agent import agent_abi_version, agent_library
from warpline.capture.machine.processes import is_alive
from warpline.errors import HostError, WarplineError
from warpline.lazy import lazy

if TYPE_CHECKING:
    from warpline.capture.flags import parsing
    from warpline.capture.flags.settings import CaptureSettings
    from warpline.capture.launcher import launch
    from warpline.capture.launcher.ending import Ending
else:
    parsing = lazy("warpline.capture.flags.parsing")
    launch = lazy("warpline.capture.launcher.launch")

ENDING = ".warpline"
RECOVER = "recover.sh"  # what a user may run if the launcher is killed
NAME = "recording"  # of what is recorded, until it is brought home

_JOB, _LAUNCHER, _OUTCOME = "job.json", "launcher.pid", "outcome.json"
_STARTING_S, _POLL_S = 10.0, 0.02
_FOLDERS = ("/var/tmp", tempfile.gettempdir())  # noqa: S108 - the first is rarely memory


def encoded(word: str) -> str:
    """Return a word of a command line as JSON can carry it: its bytes, whatever the encoding."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")


def decoded(text: str) -> str:
    """Return a word of a command line that was `encoded` on another machine."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def prepare(request: Mapping[str, Any]) -> Path:
    """Check that programs can be recorded on this machine, and return the directory of a new job.

    Args:
        request: ``machine``, ``directory``, ``words`` and ``variables``, see `recording`.

    Raises:
        HostError: Libraries of the other machine do not work here, or a directory cannot be used.
    """
    _check_libraries(request["machine"])
    _directory(request["directory"])
    chosen = os.environ.get("TMPDIR")
    usable = [path for path in (chosen, *_FOLDERS) if path and os.access(path, os.W_OK | os.X_OK)]
    if not usable:
        raise HostError(f"no directory for the recording: {' and '.join(_FOLDERS)} are read-only")
    folder = Path(tempfile.mkdtemp(prefix="warpline-", dir=usable[0]))
    (folder / _JOB).write_text(json.dumps(request), encoding="utf-8")
    return folder


def _check_libraries(machine: str) -> None:
    own = os.uname().machine
    instead = "install Warpline there, and record with warpline profile on that machine"
    if machine != own:
        raise HostError(f"it is {own}, and this Warpline is built for {machine}", hint=instead)
    try:
        agent_abi_version(agent_library())
        reason = native.status().reason
    except WarplineError as error:
        reason = error.message
    if reason:
        raise HostError(f"libraries of this Warpline do not work there: {reason}", hint=instead)


def _directory(text: str | None) -> Path:
    """Return where the program starts."""
    path = Path.home() if text is None else Path.home() / Path(decoded(text)).expanduser()
    if not path.is_dir():
        raise HostError(f"{path}: no such directory", hint="name another one with --host-dir")
    return path


def run(folder: Path, talk_of: Callable[[CaptureSettings], launch.Talk]) -> None:
    """Record the program of a job, and write how it ended.

    Args:
        folder: The job.
        talk_of: Returns the functions that print messages.
    """
    job = json.loads((folder / _JOB).read_text(encoding="utf-8"))
    _write(folder / _LAUNCHER, str(os.getpid()))
    outcome: dict[str, Any] = {}
    variables: dict[str, str] = dict(os.environ)
    try:
        installation.require_linux()
        settings = parsing.parse([decoded(word) for word in job["words"]])
        # What follows the recording is up to the other machine.
        settings.output = f"{str(folder).replace('%', '%%')}/{NAME}"
        settings.export = ()
        variables.update(settings.env_var)
        os.chdir(_directory(job["directory"]))
        found = launch.launch(settings, talk_of(settings))
        reason = found.reason
        outcome = {
            "finished": dict(found.finished),
            "pid": found.pid,
            "ending": _plain(found.ending),
            "reason": None if reason is None else [reason.text, reason.hint],
        }
    except WarplineError as error:
        ending = error.ending if isinstance(error, launch.UnfinishedError) else None
        outcome = {
            "error": error.message,
            "hint": error.hint,
            "status": error.exit_code,
            "ending": None if ending is None else _plain(ending),
        }
    finally:
        named = {name: variables.get(name) for name in job["variables"]}
        host = os.uname().nodename
        _write(folder / _OUTCOME, json.dumps({**outcome, "host": host, "variables": named}))


def _plain(ending: Ending) -> dict[str, Any]:
    """Return what of an ending `launch.end_like` needs, and what names need."""
    wanted = ("status", "interrupted", "asked", "killed", "ended_by")
    return {name: getattr(ending, name) for name in wanted}


def _write(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def result_of(folder: Path) -> dict[str, Any]:
    """Return how a job ended: ``outcome``, None if it has not, and whether it is ``running``.

    Raises:
        HostError: There is no such job.
    """
    if not (folder / _JOB).exists():
        raise HostError(f"{folder} is gone: nothing is left of the recording")
    try:
        is_running = is_alive(int((folder / _LAUNCHER).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        is_running = False
    try:
        outcome = json.loads((folder / _OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        outcome = None
    return {"outcome": outcome, "running": is_running}


def interrupt(folder: Path, number: int) -> None:
    """Send a signal to the launcher of a job, which may only be starting."""
    due = time.monotonic() + _STARTING_S
    while not (folder / _LAUNCHER).exists() and time.monotonic() < due:
        time.sleep(_POLL_S)
    os.kill(int((folder / _LAUNCHER).read_text(encoding="utf-8")), number)


def unfinished_in(folder: Path) -> Path:
    """Return the session of a job, until its recording is written."""
    return folder / f"{NAME}{ENDING}.raw"


def recordings_in(folder: Path) -> list[Path]:
    """Return the recordings of a job, that of the whole run first."""
    return sorted(folder.glob(f"{NAME}*{ENDING}"), key=lambda path: (len(path.name), path))


def remove(folder: Path) -> None:
    """Remove a job, unless there is an unfinished recording in it."""
    if not any(path.is_dir() for path in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        for path in recordings_in(folder):
            path.unlink()


def folder_named() -> Path:
    """Return the job that the command line names."""
    return Path(sys.argv[1])
