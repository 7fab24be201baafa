"""Loads a library into a running process and calls a function of it."""

from __future__ import annotations

import ctypes
import enum
import os
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.attaching.refusals import library_obstacle, obstacle, rights
from warpline.capture.machine.agent import agent_library
from warpline.capture.machine.obstacles import Obstacle
from warpline.errors import AgentMissingError, CaptureError

ATTACH_NAME = "libwarpline_attach.so"

_ABI_VERSION = 1
_MOST_SECONDS = 3600.0
_LATER = "try again, or raise the timeout"
_MEANWHILE = "try again when it does not start up, load libraries, or fork"


class _Call(ctypes.Structure):
    _fields_ = (
        ("library", ctypes.c_char_p),
        ("function", ctypes.c_char_p),
        ("argument", ctypes.c_char_p),
        ("timeout_ns", ctypes.c_int64),
        ("pid", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    )


class _Outcome(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("result", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("attempts", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("stall_ns", ctypes.c_int64),
        ("queued_ns", ctypes.c_int64),
        ("longest_look_ns", ctypes.c_int64),
        ("call_ns", ctypes.c_int64),
        ("text", ctypes.c_char * 512),
    )


class _Status(enum.IntEnum):
    """What came of a call: WL_ATTACH_ and the name."""

    CALLED = 0
    UNSUPPORTED = 1
    REFUSED = 2
    ENDED = 3
    STOPPED = 4
    NO_LIBRARY = 5
    NO_MOMENT = 6
    NO_MEMORY = 7
    NO_THREAD = 8
    NOT_LOADED = 9
    NO_FUNCTION = 10
    NOT_CREATED = 11
    NOT_RETURNED = 12


@dataclass(frozen=True)
class Injected:
    """A call in another process.

    Attributes:
        result: What the function returned.
        thread: The thread that was stopped, so that it made another one for the call.
        attempts: How many times a thread was stopped until one was at a safe place.
        stall_ns: From asking that thread to stop until it went on.
        queued_ns: Of that, the thread could run but other threads had the processors.
        longest_look_ns: The same of a thread that was found at no safe place; 0 if there was none.
        call_ns: From the start of the new thread until the function had returned.
    """

    result: int
    thread: int
    attempts: int
    stall_ns: int
    queued_ns: int
    longest_look_ns: int
    call_ns: int


class Attacher:
    """The native library, loaded.

    Args:
        path: The library; beside the agent by default.

    Raises:
        AgentMissingError: It cannot be loaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        path = path or agent_library().with_name(ATTACH_NAME)
        try:
            self._library = ctypes.CDLL(os.fspath(path))
            version = int(self._library.wl_attach_abi_version())
        except (OSError, AttributeError) as error:
            raise AgentMissingError(f"cannot load {path}: {error}") from error
        if version != _ABI_VERSION:
            raise AgentMissingError(f"{path} has another version", hint="reinstall warpline")

    def try_rights(self, pid: int) -> int:
        """Return 0 if a process may be attached to, or a number of errno. Does not stop it."""
        return int(self._library.wl_attach_try(pid))

    def obstacle(self, pid: int) -> Obstacle | None:
        """Return what stands in the way of attaching to a process; None if nothing does."""
        return obstacle(pid, self.try_rights)

    def inject(
        self, pid: int, library: Path, function: str, argument: str, *, timeout_s: float = 5.0
    ) -> Injected:
        """Load a library into a process and call ``int32_t function(const char *)``.

        The call is made by a thread of its own, so only making that is what a thread of the process
        is stopped for. The library stays loaded. A process of its own does this: it is not ended by
        what ends this one.

        Args:
            pid: The process.
            library: The library; the process must see it by this absolute path.
            function: The name of the function.
            argument: What it is given.
            timeout_s: Time for all of it.

        Raises:
            CaptureError: It cannot be done; the hint says what to do.
        """
        if not library.is_file():
            raise CaptureError(f"{library}: no such file", hint="name the library by its path")
        # Whether we may is seen when it is done.
        found = obstacle(pid, lambda _: 0) or library_obstacle(pid, library)
        if found is not None:
            raise _refusal(pid, found)
        call = _Call(
            os.fsencode(library.absolute()),
            function.encode(),
            os.fsencode(argument),
            int(min(timeout_s, _MOST_SECONDS) * 1e9),
            pid,
        )
        outcome = _Outcome()
        self._library.wl_attach_inject(ctypes.byref(call), ctypes.byref(outcome))
        if outcome.status != _Status.CALLED:
            raise _refusal(pid, _failure(pid, outcome, timeout_s))
        return Injected(
            outcome.result,
            outcome.thread,
            outcome.attempts,
            outcome.stall_ns,
            outcome.queued_ns,
            outcome.longest_look_ns,
            outcome.call_ns,
        )


def inject(
    pid: int, library: Path, function: str, argument: str, *, timeout_s: float = 5.0
) -> Injected:
    """Load a library into a process and call a function of it; see `Attacher.inject`.

    Raises:
        AgentMissingError: Our own library cannot be loaded.
        CaptureError: It cannot be done; the hint says what to do.
    """
    return Attacher().inject(pid, library, function, argument, timeout_s=timeout_s)


def _refusal(pid: int, found: Obstacle) -> CaptureError:
    return CaptureError(f"cannot attach to process {pid}: {found.cause}", hint=found.cure)


def _failure(pid: int, outcome: _Outcome, timeout_s: float) -> Obstacle:
    """Return what a call failed by."""
    status = _Status(outcome.status)
    text = outcome.text.decode("utf-8", "replace")
    error = os.strerror(outcome.error)
    if status is _Status.REFUSED:
        return rights(pid, outcome.error)
    causes = {
        _Status.UNSUPPORTED: (
            "this processor is not supported",
            "record the program from its start with warpline profile",
        ),
        _Status.ENDED: ("it ended, or executes another program now", "start it, or try, again"),
        _Status.STOPPED: ("it is stopped", f"let it go on: kill -CONT {pid}"),
        _Status.NO_LIBRARY: (
            f"it lacks {text}, or has just begun to start",
            "try again, or record the program from its start with warpline profile",
        ),
        _Status.NO_MOMENT: (
            f"none of its threads was at a safe place in {timeout_s:g} s",
            _MEANWHILE,
        ),
        _Status.NO_MEMORY: (f"it gets no memory ({error})", "raise its memory limit"),
        _Status.NO_THREAD: (
            f"it cannot start a thread ({error})",
            "raise its limit of threads (ulimit -u, pids.max) or of memory",
        ),
        _Status.NOT_LOADED: (text or "dlopen failed", "make the library usable for the process"),
        _Status.NO_FUNCTION: (text or "dlsym failed", "reinstall warpline"),
        _Status.NOT_CREATED: (
            f"starting a thread in it took more than {timeout_s:g} s; that goes on by itself",
            _LATER,
        ),
        _Status.NOT_RETURNED: (
            f"loading the library took more than {timeout_s:g} s; that goes on in its own thread",
            _LATER,
        ),
    }
    return Obstacle(*causes[status])
