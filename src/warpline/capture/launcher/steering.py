"""Steer a program under ``warpline launch`` from another shell: start and stop its recordings."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline.capture.flags.sessions import SessionSettings, parse_start
from warpline.capture.launcher import launch
from warpline.capture.launcher.desk import Written
from warpline.capture.launcher.steered import write_recording
from warpline.capture.session import named, names
from warpline.capture.session.control import State
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import create_session
from warpline.errors import CaptureError, UsageError

_STOP_S = 30.0  # the GPU's records are waited for

Say = Callable[[str], None]


def status_of(name: str) -> dict[str, Any]:
    """Return what the launcher of a session says of it."""
    return named.ask(name, {"do": "status"})


def start(name: str, words: Sequence[str], warn: Say) -> Path:
    """Start a recording of a session. Return the path that it will have.

    Args:
        name: The session.
        words: The command line of ``warpline start``.
        warn: Prints a warning.

    Raises:
        WarplineError: A recording is under way, or this one cannot be made.
    """
    told = status_of(name)
    if told["recording"] is not None:
        raise UsageError(
            f"session {name} is recording to {told['recording']['output']}",
            hint="run warpline stop first",
        )
    settings = parse_start((*told["words"], *words))
    for text in settings.warnings:
        warn(text)
    place = names.reserve(
        settings.output,
        os.environ,
        pid=told["pid"],
        overwrite=settings.force_overwrite,
        warn=warn,
        exports=settings.export,
    )
    try:
        _create(place.folder.absolute(), place.output.absolute(), settings, told)
        named.ask(
            name, {"do": "start", "folder": str(place.folder.absolute()), "words": list(words)}
        )
    except BaseException:
        shutil.rmtree(place.folder, ignore_errors=True)
        raise
    return place.output


def _create(folder: Path, output: Path, settings: SessionSettings, told: Mapping[str, Any]) -> None:
    facts = session_facts(
        output,
        command=told["command"],
        options=settings.plain(),
        environment=told["environment"],
        collected=launch.collected_by(settings),
    )
    facts["directory"] = told["directory"]
    facts["launcher_pid"] = told["launcher"]
    facts["program"] = {"pid": told["pid"], "exit_status": None, "signal": None}
    create_session(
        folder,
        launch.config_of(settings, told["cupti"], told["pid"]),
        facts,
        state=State.WAITING if settings.delay else State.RECORDING,
        mode=settings.mode,
        windows_wanted=settings.windows_wanted,
        is_trimmed=settings.kept is not None,
    ).close()


def stop(name: str, *, is_deferred: bool = False) -> Written:
    """Stop the recording of a session.

    Args:
        name: The session.
        is_deferred: Whether it is written by `write` later, or at the session's end. Otherwise the
            caller writes it now.
    """
    return _written(named.ask(name, {"do": "stop", "defer": is_deferred}, seconds=_STOP_S))


def cancel(name: str) -> Path:
    """Stop the recording of a session and discard it. Return the path that it would have had."""
    return _written(named.ask(name, {"do": "cancel"}, seconds=_STOP_S)).output


def shut_down(name: str, number: int) -> None:
    """End the program of a session by a signal, and wait until the session has ended."""
    try:
        named.ask(name, {"do": "shutdown", "signal": number}, seconds=None)
    except named.SessionGoneError:
        return


def unwritten_of(name: str) -> list[Written]:
    """Return the recordings of a session that have stopped and are still to be written."""
    return [_written(each) for each in status_of(name)["unwritten"]]


def write(name: str, written: Written, progress: Callable[[float], None]) -> Mapping[str, Any]:
    """Write a recording that has stopped, and return its counts.

    Raises:
        CaptureError: It cannot be written; the session's directory is kept.
    """
    # First, so that the launcher does not write it, too, if the program ends meanwhile.
    with contextlib.suppress(CaptureError):  # it has ended
        named.ask(name, {"do": "written", "folder": str(written.folder)})
    return write_recording(written, progress)


def _written(answer: Mapping[str, Any]) -> Written:
    return Written(Path(answer["folder"]), Path(answer["output"]), tuple(answer["words"]))
