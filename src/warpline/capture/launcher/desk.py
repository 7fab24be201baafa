"""The launcher's side of a named session: starts and stops recordings as others ask.

All of it runs in the loop that watches the program: nothing here waits. Whoever asks for a start
has made the session's directory, and whoever asks for a stop writes the recording. The launcher
only says to the program's processes where to record.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpline.capture.flags.sessions import parse_start
from warpline.capture.launcher.beside import Observers
from warpline.capture.launcher.recorded import Recorded
from warpline.capture.machine import processes
from warpline.capture.machine.loaded import loaded_versions
from warpline.capture.session.control import ControlFile
from warpline.capture.session.facts import StoppedBy, read_facts
from warpline.capture.session.named import (
    MOST_BYTES,
    MOST_LINKS,
    Message,
    listening,
    parsed,
)
from warpline.capture.session.session import Session
from warpline.capture.session.standing import StandingFile
from warpline.errors import WarplineError

_DRAIN_S = 5.0  # the GPU may be waiting for an event that never happens
_LEAVE_S = 2.0  # CUPTI is detached meanwhile
_POLL_S = 0.002
_REQUEST_S = 10.0
_CREDENTIALS = struct.Struct("3i")

Answer = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """A recording that has stopped and is still to be written.

    Attributes:
        folder: The session's directory.
        output: The recording.
        words: The command line of its start.
    """

    folder: Path
    output: Path
    words: tuple[str, ...]

    def plain(self) -> Answer:
        """Return it as plain values."""
        return {"folder": str(self.folder), "output": str(self.output), "words": list(self.words)}


@dataclass
class _Caller:
    """Somebody who is connected."""

    link: socket.socket
    until: float
    received: bytes = b""
    handles: list[int] = field(default_factory=list)  # that came with the request

    def close_handles(self) -> None:
        """Close what nobody has taken."""
        while self.handles:
            os.close(self.handles.pop())


@dataclass
class _Stopping:
    """A recording that is being stopped: the agents write what they have, then they leave."""

    caller: _Caller | None  # who gets the answer
    is_cancelled: bool
    is_deferred: bool  # nobody writes it at once
    until: float
    is_drained: bool = False


class Desk:
    """Starts and stops the recordings of a program that was launched.

    Args:
        name: The session's name.
        folder: Its directory.
        words: The flags of the launch that hold for all its recordings.
        told: What those who start recordings have to know of the program, for "status"; its pid.
        write: Writes a recording that has stopped by itself.
        own: Processes of Warpline's own, which may be children of this one.
        say: Prints a note for the user.

    Attributes:
        end_program: Ends the program by a signal; set by who watches it.
        unwritten: Recordings that have stopped and are to be written later.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        words: Sequence[str],
        told: Mapping[str, Any],
        write: Callable[[Written], None],
        own: Collection[int | None] = (),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.name, self.folder = name, folder
        self.end_program: Callable[[int], None] = lambda _: None
        self.unwritten: list[Written] = []
        self._pid: int = told["pid"]
        self._words = tuple(words)
        self._told = told
        self._write = write
        self._own = frozenset(each for each in own if each is not None)
        self._say = say
        self._page = StandingFile.create(folder)
        self._link = listening(folder)
        self._callers: list[_Caller] = []
        self._waiting: list[_Caller] = []  # for the end of the session
        self._recorded: Recorded | None = None
        self._recorded_words: tuple[str, ...] = ()
        self._observers = Observers()  # of what is recorded
        self._began = 0.0
        self._stopping: _Stopping | None = None
        self._ends_by: int | None = None  # the signal, once nothing is recorded any more
        self._count = 0

    # --- What the watcher asks --------------------------------------------------------------------

    @property
    def current(self) -> Recorded | None:
        """The recording that is under way."""
        return self._recorded

    @property
    def own(self) -> Collection[int]:
        """Processes that observe the program; children of the launcher if that is init."""
        return self._observers.pids

    @property
    def descriptors(self) -> Sequence[int]:
        """The sockets."""
        return [self._link.fileno(), *(caller.link.fileno() for caller in self._callers)]

    def next_times(self) -> Sequence[float]:
        """Return when there is something to look at."""
        times = [caller.until for caller in self._callers]
        if self._stopping is not None:
            times.append(time.monotonic() + _POLL_S)
        return times

    def doing(self) -> str:
        """Return what is done while nothing is recorded."""
        return f"session {self.name}: not recording"

    def stopped(self, recorded: Recorded, why: StoppedBy) -> None:
        """Take leave of a recording that has stopped by itself."""
        if recorded is self._recorded and self._stopping is None:
            self._stop(None)

    def serve(self) -> None:
        """Answer those who ask, and go on with a stop."""
        with contextlib.suppress(OSError):  # nobody, or out of descriptors
            while True:
                link, _ = self._link.accept()
                link.settimeout(0)
                self._callers.append(_Caller(link, time.monotonic() + _REQUEST_S))
        for caller in list(self._callers):
            self._listen(caller)
        if self._stopping is not None:
            self._go_on(self._stopping)

    def end_observers(self) -> Mapping[str, int]:
        """End what observes the program, wait for it, and return what the samples' process did."""
        self._observers.close()
        return self._observers.counts

    def finish(self) -> Written | None:
        """End the session with the program. Return the recording that was under way, if any."""
        left = None
        if self._recorded is not None:
            recorded, self._recorded = self._recorded, None
            left = self._written(recorded.session)
        self._page.close()
        if self._stopping is not None and self._stopping.caller is not None:
            self._reply(self._stopping.caller, {"error": "the program ended meanwhile"})
        return left

    def close(self) -> None:
        """Hang up: the session is over."""
        self._observers.close()
        for caller in (*self._callers, *self._waiting):
            caller.close_handles()
            caller.link.close()
        self._link.close()
        self._page.close()

    # --- Requests ---------------------------------------------------------------------------------

    def _listen(self, caller: _Caller) -> None:
        part = b""
        with contextlib.suppress(BlockingIOError):
            try:
                part, handles, _, _ = socket.recv_fds(
                    caller.link, 1 << 16, MOST_LINKS, socket.MSG_CMSG_CLOEXEC
                )
                caller.handles += handles
            except ConnectionError:
                part = b""
            if not part:
                return self._hang_up(caller)
        caller.received += part
        if caller.received.endswith(b"\n"):
            self._callers.remove(caller)
            self._answer(caller)
        elif len(caller.received) > MOST_BYTES or time.monotonic() > caller.until:
            self._hang_up(caller)
        return None

    def _hang_up(self, caller: _Caller) -> None:
        self._callers.remove(caller)
        caller.close_handles()
        caller.link.close()

    def _answer(self, caller: _Caller) -> None:
        request = parsed(caller.received) if _is_of_this_user(caller.link) else None
        actions: dict[object, Callable[[_Caller, Message], Answer | None]] = {
            "status": self._status,
            "start": self._start,
            "stop": self._ask_stop,
            "cancel": self._ask_stop,
            "hold": self._hold,
            "shutdown": self._shutdown,
            "written": self._forget,
        }
        action = None if request is None else actions.get(request.get("do"))
        if action is None or request is None:
            self._reply(caller, {"error": "not a request"})
            return
        try:
            answer = action(caller, request)
        except WarplineError as error:
            answer = {"error": error.message, "hint": error.hint}
        except (OSError, ValueError, TypeError, KeyError) as error:
            answer = {"error": f"not possible: {error}"}
        caller.close_handles()
        if answer is not None:
            self._reply(caller, answer)

    def _reply(self, caller: _Caller, answer: Answer) -> None:
        with contextlib.suppress(OSError), caller.link as link:
            link.settimeout(1.0)  # it is read at once
            link.sendall(json.dumps(answer).encode() + b"\n")

    def _status(self, _: _Caller, __: Message) -> Answer:
        recorded = self._recorded
        answer: Answer = {
            **self._told,
            "name": self.name,
            "words": list(self._words),
            "recordings": self._count,
            "unwritten": [each.plain() for each in self.unwritten],
            "processes": len(processes.descendants(self._pid)) + 1,
            "pids": processes.descendants(os.getpid(), without={*self._own, *self.own}),
            "recording": None,
        }
        if recorded is not None:
            events, size, dropped = recorded.volume()
            answer["recording"] = {
                "output": recorded.session.facts["output"],
                "doing": "stopping" if self._stopping is not None else recorded.doing(),
                "seconds": round(time.monotonic() - self._began, 1),
                "events": events,
                "size": size,
                "dropped": dropped,
                "processes": len(recorded.control.attached_pids()),
            }
        return answer

    def _start(self, caller: _Caller, request: Message) -> Answer:
        self._check_idle()
        observers = _observers_of(caller, request)
        try:
            self.start(Path(request["folder"]), tuple(map(str, request["words"])), observers)
        except BaseException:
            observers.close()
            raise
        return {"ok": True}

    def start(self, folder: Path, words: tuple[str, ...], observers: Observers) -> None:
        """Start a recording.

        Args:
            folder: Its session's directory.
            words: The flags of its start.
            observers: What observes the program meanwhile.

        Raises:
            WarplineError: One is under way, or the session ends.
        """
        self._check_idle()
        settings = parse_start((*self._words, *words))
        session = Session(folder, ControlFile.open(folder), read_facts(folder))
        recorded = Recorded(self._pid, session, settings, self._say)
        self._page.announce(folder)
        self._recorded, self._recorded_words = recorded, words
        self._observers = observers
        self._began = time.monotonic()
        self._count += 1

    def _check_idle(self) -> None:
        if self._recorded is not None:
            raise _refused(f"session {self.name} is recording already", "run warpline stop first")
        if self._ends_by is not None:
            raise _refused(f"session {self.name} is ending", None)

    def _ask_stop(self, caller: _Caller, request: Message) -> Answer | None:
        if self._recorded is None:
            raise _refused(f"session {self.name} is not recording", "run warpline start first")
        if self._stopping is not None:
            raise _refused(f"session {self.name} is stopping already", None)
        self._recorded.stop(StoppedBy.COMMAND, is_over=False)
        is_cancelled = request.get("do") == "cancel"
        self._stop(caller, is_cancelled=is_cancelled, is_deferred=bool(request.get("defer")))
        return None  # once it has stopped

    def _hold(self, _: _Caller, request: Message) -> Answer:
        """Leave the logs as they are, or trim them again: somebody copies what is kept."""
        recorded = self._recorded
        if recorded is None or recorded.keeper is None:
            raise _refused(
                f"session {self.name} keeps no last seconds",
                "run warpline start --keep-last=30s first",
            )
        recorded.keeper.hold(is_wanted=bool(request.get("wanted")))
        now_ns = time.monotonic_ns()
        kept_from_ns = recorded.keeper.kept_from_ns(now_ns)
        told = self._written(recorded.session).plain()
        return {**told, "kept_from_ns": kept_from_ns, "now_ns": now_ns}

    def _shutdown(self, caller: _Caller, request: Message) -> Answer | None:
        number = request.get("signal")
        self._ends_by = number if isinstance(number, int) else int(signal.SIGTERM)
        self._waiting.append(caller)
        if self._recorded is None:
            self._end()
        elif self._stopping is None:
            self._recorded.stop(StoppedBy.COMMAND, is_over=False)
            self._stop(None)
        return None  # the end of the session is the answer

    def _forget(self, _: _Caller, request: Message) -> Answer:
        folder = Path(request["folder"])
        self.unwritten = [each for each in self.unwritten if each.folder != folder]
        return {"ok": True}

    # --- Stopping ---------------------------------------------------------------------------------

    def _stop(
        self, caller: _Caller | None, *, is_cancelled: bool = False, is_deferred: bool = False
    ) -> None:
        assert self._recorded is not None  # it records
        self._recorded.control.ask_to_drain()
        self._observers.end()
        until = time.monotonic() + (0 if is_cancelled else _DRAIN_S)
        self._stopping = _Stopping(caller, is_cancelled, is_deferred, until)

    def _go_on(self, stopping: _Stopping) -> None:
        """Wait until the agents have written all they have, then until they have left CUPTI."""
        recorded = self._recorded
        assert recorded is not None  # it stops
        control = recorded.control
        now = time.monotonic()
        if not stopping.is_drained:
            if now < stopping.until and any(map(processes.is_alive, control.holds_work())):
                return
            stopping.is_drained = True
            stopping.until = now + _LEAVE_S
            self._page.withdraw()
        if now < stopping.until and any(map(processes.is_alive, control.traced_by_cuda())):
            return
        if not self._observers.have_ended():
            return
        self._recorded = self._stopping = None
        self._leave(recorded, stopping)
        if self._ends_by is not None:
            self._end()

    def _leave(self, recorded: Recorded, stopping: _Stopping) -> None:
        session = recorded.session
        sampled = recorded.close()
        program = {"pid": self._pid, "exit_status": None, "signal": None}
        with contextlib.suppress(OSError):  # a full disk: finishing uses the facts written earlier
            session.add_software(loaded_versions(self._pid))
            session.end(
                program=program,
                cpu_sampler=dict(self.end_observers()),
                **sampled,
                **recorded.stop_facts(),
            )
        written = self._written(session)
        if stopping.is_cancelled:
            session.remove()
        else:
            session.close()
        if stopping.caller is None and not stopping.is_cancelled:
            self._write(written)
            return
        if stopping.is_deferred:
            self.unwritten.append(written)
        if stopping.caller is not None:
            self._reply(stopping.caller, written.plain())

    def _written(self, session: Session) -> Written:
        return Written(session.folder, Path(session.facts["output"]), self._recorded_words)

    def _end(self) -> None:
        if self._ends_by is not None:
            self.end_program(self._ends_by)


def _observers_of(caller: _Caller, request: Message) -> Observers:
    """Return what observes the program, by the links that came with the request."""
    own = request.get("own")
    pids = [pid for pid in own if isinstance(pid, int)] if isinstance(own, list) else []
    links = []
    while caller.handles:
        links.append(socket.socket(fileno=caller.handles[0]))
        del caller.handles[0]
    return Observers(links, pids)


def _is_of_this_user(link: socket.socket) -> bool:
    """Return whether the other end is a process of this user, or of root."""
    try:
        _, user, _ = _CREDENTIALS.unpack(
            link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
    except (OSError, struct.error):
        return False
    return user in {os.getuid(), 0}


def _refused(message: str, hint: str | None) -> WarplineError:
    return WarplineError(message, hint=hint)
