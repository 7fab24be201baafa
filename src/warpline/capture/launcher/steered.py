"""A program under ``warpline launch``: run, and recorded when others ask for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.finishing.process import run_finishing
from warpline.capture.flags.sessions import SessionSettings, flags_of_launch, parse_start
from warpline.capture.launcher import launch, program
from warpline.capture.launcher.beside import Beside, Observers
from warpline.capture.launcher.desk import Desk, Written
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.launch import Talk
from warpline.capture.launcher.signals import Signals
from warpline.capture.launcher.started import make_session
from warpline.capture.launcher.watching import Watch
from warpline.capture.machine.agent import (
    CUDA_INJECTION_VARIABLE,
    INJECTION_VARIABLE,
    agent_library,
)
from warpline.capture.session import named
from warpline.capture.session.agent_config import CONFIG_NAME, AgentConfig, CudaConfig
from warpline.capture.session.session import SESSION_VARIABLE, free_space
from warpline.errors import CaptureError


@dataclass(frozen=True)
class Steered:
    """The result of a launch.

    Attributes:
        ending: How the program ended.
        last: The recording that was under way at its end, if any: written, with its counts.
    """

    ending: Ending
    last: tuple[Written, Mapping[str, Any]] | None


def launch_session(settings: SessionSettings, words: Sequence[str], talk: Talk) -> Steered:
    """Run a program that can be recorded at any time, until it ends.

    Args:
        settings: The settings of the launch.
        words: Its command line, from which they are.
        talk: Prints messages.

    Raises:
        WarplineError: The program was not started: it or the agent is missing, or the name is used.
    """
    environment = launch.environment_of(settings)
    path = program.find(settings.command[0], environment, "warpline launch")
    agent = agent_library()
    launch.warn_before(settings, environment, agent, talk)
    command, kept = launch.told_of(settings, environment)
    of_all, of_first = flags_of_launch(words)
    first = parse_start((*of_all, *of_first)) if settings.start else None
    # Before this process has threads, and adopts what others leave.
    beside = None if first is None else Beside(first, environment, path, agent)
    folder = named.create_folder(settings.session, path.name)
    signals = Signals()
    writer = _Writer(talk)
    desk = None
    try:
        if beside is not None:
            beside.check()
        program.adopt_orphans()
        child = program.Program(
            path,
            settings.command,
            mask=signals.before,
            output=None if settings.show_output else Path(os.devnull),
            reader=None if beside is None else beside.reader,
        )
        told = {
            "command": list(command),
            "environment": kept,
            "directory": str(Path.cwd()),
            "cupti": list(launch.cupti_for(settings, environment, path)),
            "pid": child.pid,
            "launcher": os.getpid(),
        }
        try:
            own = {signals.listener}
            desk = Desk(folder.name, folder, of_all, told, writer.write_aside, own, talk.note)
            output = None
            if first is not None and beside is not None:
                output = _start(desk, first, of_first, told, beside, talk)
        except BaseException:
            child.abandon()
            raise
        if launch.looks_at_cuda(settings):
            _prepare_cuda(folder, told)
        child.start({**environment, **_variables(agent, folder)})
        talk.note(_beginning(folder.name, output))
        watch = Watch(child.pid, desk, settings, signals, talk.note, own=own)
        desk.end_program = watch.end_program
        ending = watch.run()
        _end(desk, child.pid, ending)
        left, unwritten = desk.finish(), desk.unwritten
    finally:
        if desk is not None:
            desk.close()
        if beside is not None:
            beside.close()
        shutil.rmtree(folder, ignore_errors=True)
        signals.give_back()
        program.adopt_orphans(is_wanted=False)
    writer.wait()
    for written in unwritten:
        writer.write(written)
    finished = None if left is None else writer.write(left, is_told=False)
    return Steered(ending, None if left is None or finished is None else (left, finished))


def _start(
    desk: Desk,
    first: SessionSettings,
    words: Sequence[str],
    told: Mapping[str, Any],
    beside: Beside,
    talk: Talk,
) -> Path:
    """Start the recording of a program that is about to start. Return the path it will have."""
    for text in first.warnings:
        talk.warn(text)
    session = make_session(first, told, talk.warn)
    try:
        beside.sample_running(session, [told["pid"]], first, talk.warn)
        beside.read(session.folder, told["pid"], told["launcher"])
        pids = beside.pids
        desk.start(session.folder, tuple(words), Observers(beside.release(), pids))
    except BaseException:
        session.remove()
        raise
    session.close()
    return Path(session.facts["output"])


def _beginning(name: str, output: Path | None) -> str:
    """Return a line about a session that has begun, and its recording, if any."""
    if output is None:
        return f"session {name}: warpline start --session={name} records it"
    return f"recording session {name} to {_short(output)}; warpline stop --session={name} ends it"


def _end(desk: Desk, pid: int, ending: Ending) -> None:
    """End the session of the recording that is under way, if any: the program has ended."""
    recorded = desk.current
    if recorded is not None:
        launch.end_session(recorded.session, pid, ending, desk.end_observers())


def _prepare_cuda(folder: Path, told: Mapping[str, Any]) -> None:
    """Have the program use CUPTI once while it initializes CUDA: later, that might crash it."""
    config = AgentConfig(cuda=CudaConfig(library_paths=tuple(told["cupti"])))
    (folder / CONFIG_NAME).write_text(config.text(), encoding="ascii")


def _variables(agent: Path, folder: Path) -> dict[str, str]:
    return {
        INJECTION_VARIABLE: str(agent),
        CUDA_INJECTION_VARIABLE: str(agent),
        SESSION_VARIABLE: str(folder),
    }


def write_recording(written: Written, progress: Any) -> Mapping[str, Any]:
    """Write a recording that has stopped, delete its session, and return the counts.

    Raises:
        CaptureError: It cannot be written; the session is kept.
    """
    finished = run_finishing(written.folder, written.output, progress)
    if not finished.get("damaged_logs"):
        free_space(written.folder)
        shutil.rmtree(written.folder, ignore_errors=True)
    return finished


class _Writer:
    """Writes recordings that nobody else writes.

    Args:
        talk: Prints messages.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._threads: list[threading.Thread] = []

    def write_aside(self, written: Written) -> None:
        """Write a recording while the program goes on."""
        thread = threading.Thread(target=self.write, args=(written,))
        self._threads.append(thread)
        thread.start()

    def write(self, written: Written, *, is_told: bool = True) -> Mapping[str, Any] | None:
        """Write a recording; None, and a warning, if it cannot be written."""
        try:
            finished = write_recording(written, lambda _: None)
        except CaptureError as error:
            self._talk.warn(f"{error.message}; {error.hint}" if error.hint else error.message)
            return None
        if is_told:
            self._talk.note(f"wrote {_short(written.output)}")
        return finished

    def wait(self) -> None:
        """Wait for those that are being written."""
        for thread in self._threads:
            thread.join()


def _short(path: Path) -> Path:
    with contextlib.suppress(ValueError, OSError):
        return path.relative_to(Path.cwd())
    return path
