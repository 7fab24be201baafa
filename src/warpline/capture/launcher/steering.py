"""Steer a program under ``warpline launch`` from another shell: start and stop its recordings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline.capture.flags.sessions import SessionSettings, parse_start
from warpline.capture.launcher.beside import Beside
from warpline.capture.launcher.desk import Written
from warpline.capture.launcher.started import make_session
from warpline.capture.launcher.steered import write_recording
from warpline.capture.machine import processes
from warpline.capture.machine.agent import agent_library
from warpline.capture.session import named
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
    pid = told["pid"]
    environment = processes.environment_of(pid) or told["environment"]
    executable = Path(processes.executable_of(pid) or told["command"][0])
    beside = Beside(settings, environment, executable, agent_library())
    try:
        beside.check()
        return _start(name, words, settings, told, beside, warn)
    finally:
        beside.close()


def _start(
    name: str,
    words: Sequence[str],
    settings: SessionSettings,
    told: Mapping[str, Any],
    beside: Beside,
    warn: Say,
) -> Path:
    session = make_session(settings, told, warn)
    folder = session.folder
    try:
        beside.sample_running(session, told["pids"] or [told["pid"]], settings, warn)
        beside.read(folder, told["pid"], told["launcher"])
        own = sorted(beside.pids)
        request = {"do": "start", "folder": str(folder), "words": list(words), "own": own}
        links = beside.release()
        try:
            named.ask(name, request, links=links)
        finally:
            for link in links:
                link.close()
    except BaseException:
        session.remove()
        raise
    session.close()
    return Path(session.facts["output"])


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
