"""Record a program that was started without Warpline, for a while."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.attaching.injecting import Attacher, Injected
from warpline.capture.flags.sessions import SessionSettings
from warpline.capture.launcher import launch
from warpline.capture.launcher.desk import Written
from warpline.capture.launcher.launch import Talk
from warpline.capture.launcher.recorded import Recorded
from warpline.capture.launcher.steered import write_recording
from warpline.capture.machine import processes
from warpline.capture.machine.agent import agent_library
from warpline.capture.session import named, names
from warpline.capture.session.control import State
from warpline.capture.session.facts import StoppedBy, session_facts
from warpline.capture.session.session import Session, create_session
from warpline.capture.session.standing import StandingFile
from warpline.errors import CaptureError
from warpline.redaction import Project, redact_command, redact_environment

_FUNCTION = "wl_agent_stand"
_LOOK_S = 0.5
_POLL_S = 0.02
_DRAIN_S = 5.0  # the GPU may be waiting for an event that never happens
_LEAVE_S = 2.0


@dataclass(frozen=True)
class Attachment:
    """A recording of a program that was attached to.

    Attributes:
        output: The recording.
        finished: Its counts.
        injected: How the agent came into the program.
        has_ended: Whether the program ended meanwhile.
    """

    output: Path
    finished: Mapping[str, Any]
    injected: Injected
    has_ended: bool


def attach(pid: int, settings: SessionSettings, talk: Talk) -> Attachment:
    """Record a running program until its time is over, Ctrl-C, or its end.

    Raises:
        CaptureError: It cannot be attached to, or the recording cannot be written.
    """
    attacher = Attacher()
    found = attacher.obstacle(pid)
    if found is not None:
        raise CaptureError(f"cannot attach to process {pid}: {found.cause}", hint=found.cure)
    for text in settings.warnings:
        talk.warn(text)
    stand = named.create_folder(None, f"attach-{pid}")
    page = StandingFile.create(stand)
    try:
        session = _create(pid, settings, talk)
        try:
            page.announce(session.folder)
            injected = _inject(attacher, pid, stand)
        except BaseException:
            page.close()
            session.remove()
            raise
        recorded = Recorded(pid, session, settings)
        with _interrupts() as interrupted:
            _watch(pid, recorded, interrupted)
        _leave(page, recorded)
    finally:
        page.close()
        shutil.rmtree(stand, ignore_errors=True)
    has_ended = not processes.is_alive(pid)
    program = {"pid": pid, "exit_status": None, "signal": None}
    sampled = recorded.close()
    with contextlib.suppress(OSError):  # a full disk: finishing uses the facts written earlier
        session.end(program=program, **sampled, **recorded.stop_facts())
    session.close()
    output = Path(session.facts["output"])
    finished = write_recording(Written(session.folder, output, ()), talk.progress)
    return Attachment(output, finished, injected, has_ended)


def _inject(attacher: Attacher, pid: int, stand: Path) -> Injected:
    injected = attacher.inject(pid, agent_library(), _FUNCTION, str(stand))
    if injected.result:
        why = os.strerror(injected.result)
        raise CaptureError(f"the agent cannot record process {pid}: {why}")
    return injected


def _create(pid: int, settings: SessionSettings, talk: Talk) -> Session:
    environment = _environment_of(pid)
    settings.command = _command_of(pid)
    place = names.reserve(
        settings.output,
        os.environ,
        pid=pid,
        overwrite=settings.force_overwrite,
        warn=talk.warn,
        exports=settings.export,
    )
    executable = Path(processes.executable_of(pid) or settings.command[0])
    facts = session_facts(
        place.output.absolute(),
        command=redact_command(settings.command, Project(Path.cwd())),
        options=settings.plain(),
        environment=redact_environment(environment, keep_all=False),
        collected=launch.collected_by(settings),
    )
    facts["program"] = {"pid": pid, "exit_status": None, "signal": None}
    return create_session(
        place.folder.absolute(),
        launch.config_of(settings, launch.cupti_for(settings, environment, executable), pid),
        facts,
        state=State.WAITING if settings.delay else State.RECORDING,
        mode=settings.mode,
        windows_wanted=settings.windows_wanted,
        is_trimmed=settings.kept is not None,
    )


def _environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with."""
    pairs = (text.partition("=") for text in _words_of(pid, "environ"))
    return {name: value for name, _, value in pairs}


def _command_of(pid: int) -> tuple[str, ...]:
    return _words_of(pid, "cmdline") or (processes.name_of(pid),)


def _words_of(pid: int, file: str) -> tuple[str, ...]:
    try:
        content = Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in content.split(b"\0") if word)


@contextlib.contextmanager
def _interrupts() -> Iterator[int]:
    """Yield a descriptor that is readable once this process was asked to end."""
    receiving, sending = os.pipe()
    os.set_blocking(sending, False)
    taken = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in taken}

    def end(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(sending, b"x")

    try:
        for number in taken:
            signal.signal(number, end)
        yield receiving
    finally:
        for number, action in before.items():
            signal.signal(number, action)
        os.close(receiving)
        os.close(sending)


def _watch(pid: int, recorded: Recorded, interrupted: int) -> None:
    """Wait until recording stops by itself, the program ends, or somebody asks for the end."""
    look_at = 0.0
    while processes.is_alive(pid):
        now = time.monotonic()
        if now >= look_at:
            recorded.look([pid])
            look_at = now + _LOOK_S
        recorded.attached.sweep()
        if recorded.keep_time(is_over=False) is not None:
            return
        due = min([look_at, *recorded.next_times()]) - time.monotonic()
        wakers = [interrupted, *recorded.attached.descriptors]
        ready, _, _ = select.select(wakers, [], [], max(due, 0.0))
        if interrupted in ready:
            recorded.stop(StoppedBy.INTERRUPT, is_over=False)
            return


def _leave(page: StandingFile, recorded: Recorded) -> None:
    """Wait until the agent has written what it has, then until it has left CUPTI."""
    control = recorded.control
    control.ask_to_drain()
    _wait(lambda: not any(map(processes.is_alive, control.holds_work())), _DRAIN_S)
    page.withdraw()
    _wait(lambda: not any(map(processes.is_alive, control.traced_by_cuda())), _LEAVE_S)


def _wait(is_over: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not is_over() and time.monotonic() < until:
        time.sleep(_POLL_S)
