"""Record a program that was started without Warpline, for a while."""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from warpline.capture.attaching.group import Group
from warpline.capture.attaching.injecting import Attacher, Injected
from warpline.capture.attaching.targets import targets
from warpline.capture.flags import capabilities
from warpline.capture.flags.sessions import SessionSettings
from warpline.capture.flags.settings import TargetProcesses
from warpline.capture.launcher import launch
from warpline.capture.launcher.beside import Beside
from warpline.capture.launcher.desk import Written
from warpline.capture.launcher.launch import Talk
from warpline.capture.launcher.recorded import Recorded
from warpline.capture.launcher.steered import write_recording
from warpline.capture.machine import processes
from warpline.capture.machine.agent import agent_library
from warpline.capture.session import named, names
from warpline.capture.session.control import RangeMode, State
from warpline.capture.session.facts import StoppedBy, session_facts
from warpline.capture.session.session import Session, create_session
from warpline.capture.session.standing import StandingFile
from warpline.errors import CaptureError
from warpline.redaction import Project, redact_command, redact_environment
from warpline.units import plural

_LOOK_S = 0.5
_POLL_S = 0.02
_DRAIN_S = 5.0  # the GPU may be waiting for an event that never happens
_LEAVE_S = 2.0
_SETTLE_NOTE_S = 3.0
_SETTLE_S = 15.0  # beyond kLongestStartNs of the agent's start_up.cpp
_JOIN_S = 5.0  # the agent's threads may wait for a processor
_PATIENCE_S = 10.0  # for the first step
_PIDS_SHOWN = 8
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
        injected: How the agent came into each process; none if it was not needed.
        has_ended: Whether all processes ended meanwhile.
        steps: Steps that they began, if steps were to be recorded.
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
    is_tree = settings.target_processes is TargetProcesses.ALL
    attacher = Attacher() if _needs_agent(settings) else None
    group = Group(attacher, targets(pid) if is_tree else [pid])
    for text in settings.warnings:
        talk.warn(text)
    settings.command = _command_of(pid)
    environment = processes.environment_of(pid)
    executable = Path(processes.executable_of(pid) or settings.command[0])
    beside = Beside(settings, environment, executable, agent_library())
    stand = named.create_folder(None, f"attach-{pid}")
    page = StandingFile.create(stand)
    try:
        beside.check()
        session = _create(pid, group.able, environment, settings, talk)
        # The first event may be recorded while this attaches.
        with _signals(settings.triggers.signal) as received:
            try:
                group.inject(stand)
                _tell_refused(group, talk)
                if launch.looks_at_cuda(settings):
                    _wait_for_cuda(group, page, talk)
                # Once all of them stand by: they begin together.
                page.announce(session.folder)
                _wait_for_all(group, session)
                _observe(beside, pid, session, settings, talk)
            except BaseException:
                page.close()
                session.remove()
                raise
            recorded = Recorded(
                pid, session, settings, talk.note, processes_known=len(group.recorded)
            )
            talk.note(_beginning(group.recorded, settings))
            _watch(group.recorded, recorded, received, talk)
        beside.close()
        _leave(page, recorded)
    finally:
        beside.close()
        page.close()
        shutil.rmtree(stand, ignore_errors=True)
    has_ended = not any(map(processes.is_alive, group.recorded))
    steps = recorded.control.counters().steps_begun
    program = {"pid": pid, "exit_status": None, "signal": None}
    sampled = recorded.close()
    with contextlib.suppress(OSError):  # a full disk: finishing uses the facts written earlier
        session.end(
            program=program,
            cpu_sampler=dict(beside.counts),
            **sampled,
            **recorded.stop_facts(),
        )
    session.close()
    output = Path(session.facts["output"])
    finished = write_recording(Written(session.folder, output, ()), talk.progress)
    return Attachment(output, finished, group.injected, has_ended, steps)


def _wait_for_cuda(group: Group, page: StandingFile, talk: Talk) -> None:
    """Wait until no process is starting to use CUDA: CUPTI that begins meanwhile may crash it."""

    def have_settled() -> bool:
        return page.unsettled == 0 or not any(map(processes.is_alive, group.recorded))

    if not _wait(have_settled, _SETTLE_NOTE_S):
        talk.note(f"waiting for {_named(group.recorded)} to finish initializing CUDA")
        _wait(have_settled, _SETTLE_S - _SETTLE_NOTE_S)


def _wait_for_all(group: Group, session: Session) -> None:
    """Wait until all processes record: what they do from then on is in the recording."""

    def have_joined() -> bool:
        missing = set(group.injected) - session.control.attached_pids()
        return not any(map(processes.is_alive, missing))

    _wait(have_joined, _JOIN_S)


def _needs_agent(settings: SessionSettings) -> bool:
    """Return whether something is recorded that cannot be observed from outside of the program."""
    traced = set(capabilities.collected(settings.trace)) - {capabilities.PYTHON_GIL}
    return bool(traced) or settings.mode is not RangeMode.NONE


def _observe(
    beside: Beside, pid: int, session: Session, settings: SessionSettings, talk: Talk
) -> None:
    """Begin to sample the program, and to read the state of GPUs and machine."""
    is_tree = settings.target_processes is TargetProcesses.ALL
    pids = [pid, *(processes.descendants(pid, without={os.getpid()}) if is_tree else ())]
    obstacle = beside.sample_running(session, pids, settings, talk.warn)
    if obstacle is not None and not beside.is_sampling and not _needs_agent(settings):
        raise CaptureError(f"cannot sample process {pid}: {obstacle.cause}", hint=obstacle.cure)
    beside.read(session.folder, pid, pid)


def _beginning(pids: Sequence[int], settings: SessionSettings) -> str:
    """Return a line about a recording that has begun."""
    until = "press Ctrl-C to stop"
    if settings.duration is not None:
        until = f"for {settings.duration:g} s"
    elif settings.sampling is not None and settings.sampling.is_once:
        until = f"{plural(settings.sampling.steps, 'step')} ({until})"
    return f"recording {_named(pids)}; {until}"


def _tell_refused(group: Group, talk: Talk) -> None:
    """Name the processes that are left out, in one line for each cause."""
    by_cause: dict[str, list[int]] = {}
    for pid, error in group.refused.items():
        by_cause.setdefault(error.message.partition(": ")[2], []).append(pid)
    for cause, pids in by_cause.items():
        talk.warn(f"not recorded: {_named(pids)}: {cause}")


def _named(pids: Sequence[int]) -> str:
    """Return how processes are named in a line."""
    shown = ", ".join(map(str, pids[:_PIDS_SHOWN]))
    more = f" and {len(pids) - _PIDS_SHOWN} more" if len(pids) > _PIDS_SHOWN else ""
    return f"process {shown}" if len(pids) == 1 else f"{len(pids)} processes ({shown}{more})"


def _create(
    pid: int,
    pids: Sequence[int],
    environment: Mapping[str, str],
    settings: SessionSettings,
    talk: Talk,
) -> Session:
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
        environment=redact_environment(environment, keep_all=False),
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
        is_trimmed=settings.kept is not None,
    )


def _cupti_of(pids: Sequence[int], settings: SessionSettings) -> list[str]:
    """Return the libraries of CUPTI that processes may use; they usually run one program."""
    by_program = {processes.executable_of(pid): pid for pid in pids}
    found = [
        path
        for program, pid in by_program.items()
        for path in launch.cupti_for(settings, processes.environment_of(pid), Path(program or "/"))
    ]
    return list(dict.fromkeys(found))


def _command_of(pid: int) -> tuple[str, ...]:
    return processes.command_of(pid) or (processes.name_of(pid),)


class _Received(NamedTuple):
    """Signals.

    Attributes:
        end: A descriptor that is readable once this process was asked to end.
        requests: Signals that ask for what is kept, which nobody has taken yet.
    """

    end: int
    requests: list[int]


@contextlib.contextmanager
def _signals(wanted: int | None) -> Iterator[_Received]:
    """Take the signals that end the recording, and one that asks for what is kept, if any."""
    receiving, sending = os.pipe()
    os.set_blocking(sending, False)
    received = _Received(receiving, [])
    taken = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} | ({wanted} if wanted else set())
    before = {number: signal.getsignal(number) for number in taken}

    def receive(number: int, _: object) -> None:
        if number == wanted:
            received.requests.append(number)
            return
        with contextlib.suppress(BlockingIOError):
            os.write(sending, b"x")

    try:
        for number in taken:
            signal.signal(number, receive)
        yield received
    finally:
        for number, action in before.items():
            signal.signal(number, action)
        os.close(receiving)
        os.close(sending)


def _watch(pids: Sequence[int], recorded: Recorded, received: _Received, talk: Talk) -> None:
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
        while received.requests and recorded.keeper is not None:
            recorded.keeper.hear(received.requests.pop())
        if recorded.keep_time(is_over=False) is not None:
            return
        due = min([look_at, *recorded.next_times()]) - time.monotonic()
        wakers = [received.end, *recorded.attached.descriptors]
        ready, _, _ = select.select(wakers, [], [], max(due, 0.0))
        if received.end in ready:
            recorded.stop(StoppedBy.INTERRUPT, is_over=False)
            return


def _leave(page: StandingFile, recorded: Recorded) -> None:
    """Wait until the agent has written what it has, then until it has left CUPTI."""
    control = recorded.control
    control.ask_to_drain()
    _wait(lambda: not any(map(processes.is_alive, control.holds_work())), _DRAIN_S)
    page.withdraw()
    _wait(lambda: not any(map(processes.is_alive, control.traced_by_cuda())), _LEAVE_S)


def _wait(is_over: Callable[[], bool], seconds: float) -> bool:
    """Wait for so long at most. Return whether it is over."""
    until = time.monotonic() + seconds
    while not (has_ended := is_over()) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return has_ended
