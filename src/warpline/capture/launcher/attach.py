"""Record a program that was started without Warpline, for a while."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.attaching.injecting import Attacher, Injected
from warpline.capture.attaching.targets import targets
from warpline.capture.flags.sessions import SessionSettings
from warpline.capture.flags.settings import TargetProcesses
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
from warpline.units import plural

_FUNCTION = "wl_agent_stand"
_LOOK_S = 0.5
_POLL_S = 0.02
_DRAIN_S = 5.0  # the GPU may be waiting for an event that never happens
_LEAVE_S = 2.0
_PATIENCE_S = 10.0  # for the first step
_PIDS_SHOWN = 8
_BUSY = "it records itself, or is recorded already"
_NO_STEP = (
    "no step was found yet; name the range that starts one with --step-range, or record for a time"
    " with -d"
)


@dataclass(frozen=True)
class Attachment:
    """A recording of a program that was attached to.

    Attributes:
        output: The recording.
        finished: Its counts.
        injected: How the agent came into each process.
        has_ended: Whether all of these ended meanwhile.
        steps: Steps that their processes began, if steps were to be recorded.
    """

    output: Path
    finished: Mapping[str, Any]
    injected: Mapping[int, Injected]
    has_ended: bool
    steps: int


def attach(pid: int, settings: SessionSettings, talk: Talk) -> Attachment:
    """Record a running program until its time is over, Ctrl-C, or its end.

    Raises:
        CaptureError: It cannot be attached to, or the recording cannot be written.
    """
    attacher = Attacher()
    is_tree = settings.target_processes is TargetProcesses.ALL
    group = _Group(attacher, targets(pid) if is_tree else [pid])
    for text in settings.warnings:
        talk.warn(text)
    stand = named.create_folder(None, f"attach-{pid}")
    page = StandingFile.create(stand)
    try:
        session = _create(pid, group.able, settings, talk)
        try:
            group.inject(stand)
            group.tell_refused(talk)
            # Once all of them stand by: they begin together.
            page.announce(session.folder)
        except BaseException:
            page.close()
            session.remove()
            raise
        recorded = Recorded(pid, session, settings, processes_known=len(group.injected))
        with _interrupts() as interrupted:
            talk.note(_beginning(list(group.injected), settings))
            _watch(list(group.injected), recorded, interrupted, talk)
        _leave(page, recorded)
    finally:
        page.close()
        shutil.rmtree(stand, ignore_errors=True)
    has_ended = not any(map(processes.is_alive, group.injected))
    steps = recorded.control.counters().steps_begun
    program = {"pid": pid, "exit_status": None, "signal": None}
    sampled = recorded.close()
    with contextlib.suppress(OSError):  # a full disk: finishing uses the facts written earlier
        session.end(program=program, **sampled, **recorded.stop_facts())
    session.close()
    output = Path(session.facts["output"])
    finished = write_recording(Written(session.folder, output, ()), talk.progress)
    return Attachment(output, finished, group.injected, has_ended, steps)


class _Group:
    """The processes that are attached to.

    Args:
        attacher: The native library.
        pids: The processes.

    Attributes:
        able: Those in which nothing is known to stand in the way.
        injected: How the agent came into each of them.

    Raises:
        CaptureError: None of them can be attached to.
    """

    def __init__(self, attacher: Attacher, pids: Sequence[int]) -> None:
        self._attacher = attacher
        self._refused: dict[int, CaptureError] = {}
        self.injected: dict[int, Injected] = {}
        for pid in pids:
            found = attacher.obstacle(pid)
            if found is not None:
                text = f"cannot attach to process {pid}: {found.cause}"
                self._refused[pid] = CaptureError(text, hint=found.cure)
        self.able = [pid for pid in pids if pid not in self._refused]
        if not self.able:
            raise self._refused[pids[0]]

    def inject(self, stand: Path) -> None:
        """Have the processes stand by, one at a time; those that cannot are left out.

        Raises:
            CaptureError: None of them can.
        """
        agent = agent_library()
        for pid in self.able:
            try:
                self.injected[pid] = self._stand_by(pid, agent, stand)
            except CaptureError as error:
                self._refused[pid] = error
        if not self.injected:
            raise self._refused[self.able[0]]

    def _stand_by(self, pid: int, agent: Path, stand: Path) -> Injected:
        injected = self._attacher.inject(pid, agent, _FUNCTION, str(stand))
        if injected.result:
            is_busy = injected.result == errno.EBUSY
            why = _BUSY if is_busy else os.strerror(injected.result)
            raise CaptureError(f"the agent cannot record process {pid}: {why}")
        return injected

    def tell_refused(self, talk: Talk) -> None:
        """Name the processes that are left out, in one line for each cause."""
        by_cause: dict[str, list[int]] = {}
        for pid, error in self._refused.items():
            by_cause.setdefault(error.message.partition(": ")[2], []).append(pid)
        for cause, pids in by_cause.items():
            talk.warn(f"not recorded: {_named(pids)}: {cause}")


def _beginning(pids: Sequence[int], settings: SessionSettings) -> str:
    """Return a line about a recording that has begun."""
    until = "press Ctrl-C to stop"
    if settings.duration is not None:
        until = f"for {settings.duration:g} s"
    elif settings.sampling is not None and settings.sampling.is_once:
        until = f"{plural(settings.sampling.steps, 'step')} ({until})"
    return f"recording {_named(pids)}; {until}"


def _named(pids: Sequence[int]) -> str:
    """Return how processes are named in a line."""
    shown = ", ".join(map(str, pids[:_PIDS_SHOWN]))
    more = f" and {len(pids) - _PIDS_SHOWN} more" if len(pids) > _PIDS_SHOWN else ""
    return f"process {shown}" if len(pids) == 1 else f"{len(pids)} processes ({shown}{more})"


def _create(pid: int, pids: Sequence[int], settings: SessionSettings, talk: Talk) -> Session:
    settings.command = _command_of(pid)
    place = names.reserve(
        settings.output,
        os.environ,
        pid=pid,
        overwrite=settings.force_overwrite,
        warn=talk.warn,
        exports=settings.export,
    )
    facts = session_facts(
        place.output.absolute(),
        command=redact_command(settings.command, Project(Path.cwd())),
        options=settings.plain(),
        environment=redact_environment(_environment_of(pid), keep_all=False),
        collected=launch.collected_by(settings),
    )
    facts["program"] = {"pid": pid, "exit_status": None, "signal": None}
    return create_session(
        place.folder.absolute(),
        launch.config_of(settings, _cupti_of(pids, settings), pid),
        facts,
        state=State.WAITING if settings.delay else State.RECORDING,
        mode=settings.mode,
        windows_wanted=settings.windows_wanted,
    )


def _cupti_of(pids: Sequence[int], settings: SessionSettings) -> list[str]:
    """Return the libraries of CUPTI that processes may use; they usually run one program."""
    by_program = {processes.executable_of(pid): pid for pid in pids}
    found = [
        path
        for program, pid in by_program.items()
        for path in launch.cupti_for(settings, _environment_of(pid), Path(program or "/"))
    ]
    return list(dict.fromkeys(found))


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


def _watch(pids: Sequence[int], recorded: Recorded, interrupted: int, talk: Talk) -> None:
    """Wait until recording stops by itself, the processes end, or somebody asks for the end."""
    look_at = 0.0
    tell_at = time.monotonic() + _PATIENCE_S
    while alive := [pid for pid in pids if processes.is_alive(pid)]:
        now = time.monotonic()
        if now >= look_at:
            recorded.look(alive)
            look_at = now + _LOOK_S
        if now >= tell_at and recorded.is_without_steps:
            talk.note(_NO_STEP)
            tell_at = math.inf
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
