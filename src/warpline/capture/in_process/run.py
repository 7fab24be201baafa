"""The recording of this process while it is under way: at most one at a time."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline import injected, installation
from warpline.annotate import RangeHandle, end_range, start_range
from warpline.annotate.listener import LISTENER
from warpline.capture.in_process.agent import Agent, is_attached_to
from warpline.capture.in_process.nvtx_libraries import find_silent, introduce_others
from warpline.capture.in_process.warning import warn
from warpline.capture.machine.loaded import loaded_versions
from warpline.capture.session.control import ControlFile, State
from warpline.capture.session.facts import start_times
from warpline.capture.session.session import SESSION_VARIABLE, Session, measure, not_writable
from warpline.capture.session.standing import announced_in
from warpline.errors import CaptureError, WarplineError
from warpline.lazy import lazy

if TYPE_CHECKING:
    from warpline.capture.finishing import process
else:  # only the end of a recording needs it
    process = lazy("warpline.capture.finishing.process")

DOMAIN = "warpline"  # of the range that represents a nested profile

_LATE = (
    "{} called NVTX before profiling started: its ranges are not recorded; "
    "start the profile earlier, or use `warpline profile`"
)


class Run:
    """A session of this process, from its start to the recording.

    Args:
        agent: The agent.
        session: A session that waits.
        output: The recording.
        empty: What to warn of if there are no events; empty for nothing.
    """

    def __init__(self, agent: Agent, session: Session, output: Path, empty: str) -> None:
        self.output = output
        self._empty = empty
        self._agent = agent
        self._session = session
        variables = session.variables(agent.path, os.environ)
        self._before = {name: os.environ.get(name) for name in variables}
        self._pid = os.getpid()
        try:
            agent.detach()  # from an earlier session
            agent.attach(session.folder)
            os.environ.update(variables)
            self._warn_of_silent_libraries()
            LISTENER.expect()
            # The recording starts here: all earlier time was our own setup.
            session.write_facts(**start_times())
            session.control.state = State.RECORDING
            agent.attach_cuda()
            injected.begin()
        except BaseException as error:
            self._leave()
            session.remove()
            if isinstance(error, OSError):
                raise not_writable(session.folder, error) from error
            raise
        atexit.register(self.finish_at_exit)

    def finish(self) -> Mapping[str, Any]:
        """Stop recording, write the recording and return its counts."""
        atexit.unregister(self.finish_at_exit)
        if os.getpid() != self._pid:  # a fork: the session belongs to its parent
            return {}
        program = {"pid": self._pid, "exit_status": None, "signal": None}
        with contextlib.suppress(OSError):  # a full disk: the recording ends at the last event
            self._session.end(program=program)
            self._session.add_software(loaded_versions(self._pid))
        LISTENER.forget()
        introduce_others()
        self._leave()
        if is_recorded():
            warn("a recording was started meanwhile; it has this process from now on")
        events = measure(self._session.folder).events
        finished = process.run_finishing(self._session.folder, self.output, lambda _: None)
        self._session.remove()
        # Operators of PyTorch are not among the agent's events.
        if not events and finished.get("is_empty", True) and self._empty:
            warn(f"{self.output.name} {self._empty}")
        return finished

    def finish_at_exit(self) -> None:
        """Finish a profile that is still running when the program exits."""
        try:
            self.finish()
        except CaptureError as error:
            sys.stderr.write(f"warpline: {one_line(error)}\n")

    def _leave(self) -> None:
        injected.end()
        LISTENER.forget()
        self._agent.detach()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        LISTENER.look_again()

    def _warn_of_silent_libraries(self) -> None:
        for name in find_silent():
            text = _LATE.format(name)
            self._session.facts["notes"].append(text)
            warn(text)


class RangeOfAnother:
    """A profile in a program that is being recorded: a range in that recording."""

    output: Path | None = None

    def __init__(self, name: str) -> None:
        if os.environ.get(SESSION_VARIABLE):
            what = f"adding {name} as a range to that recording"
        else:  # by warpline attach; NVTX found no profiler when the program began
            what = f"{name} records nothing"
        warn(f"this program is already being recorded; {what}")
        self._range: RangeHandle | None = start_range(name, domain=DOMAIN)

    def finish(self) -> Mapping[str, Any]:
        """End the range."""
        end_range(self._range)
        return {}


class Active:
    """The active profile of a process; there is at most one."""

    def __init__(self) -> None:
        self._run: Run | RangeOfAnother | None = None
        self._pid = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock, in a fork: another thread may have acquired the old one."""
        self._lock = threading.Lock()

    def begin(self, make: Callable[[], Run | RangeOfAnother]) -> Run | RangeOfAnother:
        """Start a profile; CaptureError if one is running, InstallationError without Linux."""
        installation.require_linux()
        with self._lock:
            if self._run is not None and self._pid == os.getpid():
                raise CaptureError(
                    f"a profile is already running: {self._run.output or 'of the whole program'}",
                    hint="call its stop() before starting another",
                )
            self._run = make()
            self._pid = os.getpid()
            return self._run

    def end(self, run: Run | RangeOfAnother) -> Mapping[str, Any]:
        """Finish a profile and return the counts of its recording."""
        with self._lock:
            if self._run is run:
                self._run = None
            return run.finish()


ACTIVE = Active()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ACTIVE.renew_lock)


def is_recorded() -> bool:
    """Return whether this process is being recorded.

    That is by the session in its environment, by the one that ``warpline start`` has begun, or by
    ``warpline attach``.
    """
    named = os.environ.get(SESSION_VARIABLE)
    if not named:
        return is_attached_to()
    folder: Path | None = Path(named)
    with contextlib.suppress(OSError):  # a session, not a program that stands by for sessions
        folder = announced_in(Path(named))
    if folder is None:
        return is_attached_to()
    try:
        control = ControlFile.open(folder)
    except (OSError, CaptureError):  # finished and removed
        return False
    state = control.state
    control.close()
    return state is not State.STOPPED


def one_line(error: WarplineError) -> str:
    """Return the message and the hint of an error."""
    return f"{error.message}; {error.hint}" if error.hint else error.message
