"""``with warpline.profile("run.warpline"):`` records the current process.

The agent is loaded into this process and joins a session, as in a program started by ``warpline
profile``. Child processes started during the profile inherit it. One difference: a library that
called NVTX before the profile started found no profiler then, and its later calls are never
recorded. Such libraries are detected and named in a warning. ``warpline.annotate`` does not have
this limit.

numpy and Polars are not imported here, and finishing runs in a separate process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from warpline.annotate import RangeHandle, end_range, start_range
from warpline.annotate.listener import LISTENER
from warpline.capture.flags import capabilities
from warpline.capture.machine.agent import INJECTION_VARIABLE, agent_library
from warpline.capture.machine.cupti import find_cupti
from warpline.capture.session import names
from warpline.capture.session.agent_config import AgentConfig, CudaConfig
from warpline.capture.session.control import ControlFile, State
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import (
    SESSION_VARIABLE,
    Session,
    create_session,
    measure,
    not_writable,
)
from warpline.errors import AgentMissingError, CaptureError, UsageError
from warpline.redaction import Project, redact_command, redact_environment

if TYPE_CHECKING:
    from warpline.trace import Trace

ABI_VERSION = 1
DOMAIN = "warpline"  # of the range that represents a nested profile

_EMPTY = (
    "{} contains no events: no traced API was called, or all NVTX domains were excluded; "
    "use warpline.annotate(...) to add ranges"
)
_LATE = (
    "{} called NVTX before profiling started: its ranges are not recorded; "
    "start the profile earlier, or use `warpline profile`"
)


class Agent:
    """The agent, loaded into this process; it is never unloaded.

    Args:
        path: The library.

    Raises:
        AgentMissingError: It cannot be loaded, or its version does not match.
    """

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
            version = library.wl_agent_abi_version()
            self._attach = library.wl_agent_attach
            self._detach = library.wl_agent_detach
            self._bound = library.wl_agent_nvtx_bound
            self._attach_cuda = library.wl_agent_cuda_attach
            self._detach_cuda = library.wl_agent_cuda_detach
        except (OSError, AttributeError) as error:
            raise AgentMissingError(f"cannot load {path}: {error}") from error
        if version != ABI_VERSION:
            raise AgentMissingError(
                f"{path} has ABI version {version}, expected {ABI_VERSION}",
                hint="reinstall warpline",
            )
        self._attach.argtypes = (ctypes.c_char_p,)
        self._bound.restype = ctypes.c_uint64
        self.path = path

    def attach(self, folder: Path) -> None:
        """Join a session; CaptureError if that fails."""
        number = self._attach(os.fsencode(folder))
        if number:
            raise CaptureError(f"the agent cannot record to {folder}: {os.strerror(number)}")

    def attach_cuda(self) -> None:
        """Start CUDA tracing if the session requests it; on failure, a diagnostic has the reason.

        Call it while the session records: CUDA tracing follows later changes only after
        milliseconds.
        """
        self._attach_cuda()

    def detach(self) -> None:
        """Leave the session, which completes its logs. Without a session, do nothing."""
        self._detach_cuda()
        self._detach()

    def bound(self) -> int:
        """Return the number of libraries in this process whose NVTX calls reach the agent."""
        return int(self._bound())


class Profile:
    """Record this process, from `start` to `stop` or as a ``with`` block.

    In a program that is recorded by ``warpline profile``, the profile becomes a range in that
    recording, in the NVTX domain "warpline", and writes no recording.

    Args:
        path: Output file, with the patterns of ``warpline profile -o``: %p %h %n %q{NAME}. None:
            the first free name of report1.warpline, report2.warpline and so on.
        trace: APIs to trace, as for ``warpline profile -t``: "nvtx", "cuda,nvtx".
        nvtx_domain_include: Record only these NVTX domains; "default" is the unnamed domain.
        nvtx_domain_exclude: Exclude these NVTX domains.
        overwrite: Overwrite an existing recording.
        keep_environment: Store all environment variables unmasked. By default, only those that
            explain a profile are stored.
        keep_command: Store the command line unmasked. By default, only the program, the names of
            its flags and values known to be harmless are stored; the rest becomes ``***``.

    Attributes:
        path: Path of the recording; None before `start`, and for a nested profile.
        finished: Counts of the recorded events; empty until `stop`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        trace: str | Iterable[str] = capabilities.DEFAULT,
        nvtx_domain_include: Iterable[str] = (),
        nvtx_domain_exclude: Iterable[str] = (),
        overwrite: bool = False,
        keep_environment: bool = False,
        keep_command: bool = False,
    ) -> None:
        self._pattern = None if path is None else os.fspath(path)
        self._trace = _wanted(trace)
        self._config = AgentConfig(
            nvtx="nvtx" in self._trace,
            domain_include=tuple(nvtx_domain_include),
            domain_exclude=tuple(nvtx_domain_exclude),
            cuda=_cuda() if "cuda" in self._trace else None,
        )
        self._overwrite = overwrite
        self._keep_environment = keep_environment
        self._keep_command = keep_command
        self._run: _Run | _RangeOfAnother | None = None
        self.path: Path | None = None
        self.finished: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        state = "recording" if self._run else "recorded" if self.finished else "not started"
        return f"<warpline.profile {self.path or self._pattern or ''}: {state}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
            return
        try:
            self.stop()
        except CaptureError as failure:  # must not hide the program's own error
            warnings.warn(_one_line(failure), RuntimeWarning, stacklevel=2)

    def start(self) -> None:
        """Start recording.

        Raises:
            UsageError: The output file exists.
            AgentMissingError: The agent is not installed.
            CaptureError: Another profile is running, or the output directory is not writable.
        """
        self._run = _ACTIVE.begin(self._begin)
        self.path = self._run.output
        self.finished = {}

    def stop(self) -> None:
        """Stop recording and write the recording. Does nothing if the profile is not running.

        Raises:
            CaptureError: The recording cannot be written; the hint has the command to recover it.
        """
        run, self._run = self._run, None
        if run is not None:
            self.finished = _ACTIVE.end(run)

    @property
    def trace(self) -> Trace:
        """The opened recording; CaptureError before `stop`."""
        if not self.finished or self.path is None:
            raise CaptureError("the recording is not available yet", hint="call stop() first")
        trace: Trace = importlib.import_module("warpline.api").open(self.path)  # a layer above
        return trace

    def _begin(self) -> _Run | _RangeOfAnother:
        if _is_recorded():
            return _RangeOfAnother(self._pattern or "warpline.profile")
        agent = Agent(agent_library())
        try:
            place = names.reserve(
                self._pattern, os.environ, pid=os.getpid(), overwrite=self._overwrite, warn=_warn
            )
        except UsageError as error:
            hint = "pass overwrite=True, or use %n in the name to number the files"
            raise UsageError(error.message, hint=hint) from None
        facts = self._facts(place.output)
        session = create_session(place.folder, self._config, facts, state=State.WAITING)
        return _Run(agent, session, place.output)

    def _facts(self, output: Path) -> dict[str, Any]:
        command = sys.orig_argv
        if not self._keep_command:
            command = redact_command(command, Project(Path.cwd()))
        return session_facts(
            output,
            command=command,
            options={
                "in_process": True,
                "trace": list(self._trace),
                "nvtx_domain_include": list(self._config.domain_include),
                "nvtx_domain_exclude": list(self._config.domain_exclude),
            },
            environment=redact_environment(os.environ, keep_all=self._keep_environment),
            collected=capabilities.collected(self._trace),
        )


class _Run:
    """A session of this process, from its start to the recording."""

    def __init__(self, agent: Agent, session: Session, output: Path) -> None:
        self.output = output
        self._agent = agent
        self._session = session
        variables = session.variables(agent.path)
        self._before = {name: os.environ.get(name) for name in variables}
        self._pid = os.getpid()
        try:
            agent.detach()  # from an earlier session
            agent.attach(session.folder)
            os.environ.update(variables)
            self._look_for_silent_libraries()
            LISTENER.expect()
            # The recording starts here: all earlier time was our own setup.
            session.write_facts(
                started_utc_ns=time.time_ns(), started_monotonic_ns=time.monotonic_ns()
            )
            session.control.state = State.RECORDING
            agent.attach_cuda()
        except BaseException as error:
            self._leave()
            session.remove()
            if isinstance(error, OSError):
                raise not_writable(session.folder, error) from error
            raise
        atexit.register(self.finish_at_exit)

    def finish(self) -> Mapping[str, Any]:
        """Stop recording, write the recording and return its counts."""
        from warpline.capture.finishing.process import run_finishing  # noqa: PLC0415 - at the end only

        atexit.unregister(self.finish_at_exit)
        if os.getpid() != self._pid:  # a fork: the session belongs to its parent
            return {}
        program = {"pid": self._pid, "exit_status": None, "signal": None}
        with contextlib.suppress(OSError):  # a full disk: the recording ends at the last event
            self._session.end(program=program)
        LISTENER.forget()
        for name, touch in _nvtx_users():
            if name not in _SILENT:  # loaded since, or never used: it finds the agent
                touch()
                _REACHING.add(name)
        self._leave()
        events = measure(self._session.folder).events
        finished = run_finishing(self._session.folder, self.output, lambda _: None)
        self._session.remove()
        if not events:
            _warn(_EMPTY.format(self.output.name))
        return finished

    def finish_at_exit(self) -> None:
        """Finish a profile that is still running when the program exits."""
        try:
            self.finish()
        except CaptureError as error:
            sys.stderr.write(f"warpline: {_one_line(error)}\n")

    def _leave(self) -> None:
        LISTENER.forget()
        self._agent.detach()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _look_for_silent_libraries(self) -> None:
        """Warn about libraries whose NVTX calls do not reach the agent."""
        was_named = self._before[INJECTION_VARIABLE] == str(self._agent.path)
        for name, touch in _nvtx_users():
            if was_named:  # by an earlier session, so NVTX has found the agent
                _REACHING.add(name)
            if name not in _REACHING | _SILENT:
                before = self._agent.bound()
                touch()
                (_REACHING if self._agent.bound() > before else _SILENT).add(name)
            if name in _SILENT:
                text = _LATE.format(name)
                self._session.facts["notes"].append(text)
                _warn(text)


class _RangeOfAnother:
    """A profile in a program that is being recorded: a range in that recording."""

    output: Path | None = None

    def __init__(self, name: str) -> None:
        _warn(f"this program is already being recorded; adding {name} as a range to that recording")
        self._range: RangeHandle | None = start_range(name, domain=DOMAIN)

    def finish(self) -> Mapping[str, Any]:
        """End the range."""
        end_range(self._range)
        return {}


class _Active:
    """The active profile of a process; there is at most one."""

    def __init__(self) -> None:
        self._run: _Run | _RangeOfAnother | None = None
        self._pid = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock, in a fork: another thread may have acquired the old one."""
        self._lock = threading.Lock()

    def begin(self, make: Callable[[], _Run | _RangeOfAnother]) -> _Run | _RangeOfAnother:
        with self._lock:
            if self._run is not None and self._pid == os.getpid():
                raise CaptureError(
                    f"a profile is already running: {self._run.output or 'of the whole program'}",
                    hint="call its stop() before starting another",
                )
            self._run = make()
            self._pid = os.getpid()
            return self._run

    def end(self, run: _Run | _RangeOfAnother) -> Mapping[str, Any]:
        with self._lock:
            if self._run is run:
                self._run = None
            return run.finish()


_ACTIVE = _Active()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ACTIVE.renew_lock)
_REACHING: set[str] = set()  # libraries whose NVTX reaches the agent
_SILENT: set[str] = set()  # libraries whose NVTX never reaches it


def profile(
    path: str | os.PathLike[str] | None = None,
    *,
    trace: str | Iterable[str] = capabilities.DEFAULT,
    nvtx_domain_include: Iterable[str] = (),
    nvtx_domain_exclude: Iterable[str] = (),
    overwrite: bool = False,
    keep_environment: bool = False,
    keep_command: bool = False,
) -> Profile:
    """Record this process: ``with warpline.profile("run.warpline") as run:``, then `run.trace`.

    The arguments are those of `Profile`. Call its `start` and `stop` where a ``with`` block does
    not fit.
    """
    return Profile(
        path,
        trace=trace,
        nvtx_domain_include=nvtx_domain_include,
        nvtx_domain_exclude=nvtx_domain_exclude,
        overwrite=overwrite,
        keep_environment=keep_environment,
        keep_command=keep_command,
    )


def _wanted(trace: str | Iterable[str]) -> tuple[str, ...]:
    """Return the APIs to trace; UsageError if one is unknown."""
    words = trace.split(",") if isinstance(trace, str) else list(trace)
    wanted = tuple(_without_alias(word.strip().lower()) for word in words)
    unknown = [word for word in wanted if word not in capabilities.KNOWN]
    if unknown:
        raise UsageError(f"trace={unknown[0]!r}: unknown API", hint='use trace="cuda,nvtx"')
    if wanted != capabilities.DEFAULT:
        for word in capabilities.lacking(wanted):
            _warn(f"{word} is not recorded ({capabilities.WHY_NOT})")
    return wanted


def _without_alias(word: str) -> str:
    return capabilities.ALIASES.get(word, word)


def _cuda() -> CudaConfig:
    return CudaConfig(library_paths=tuple(map(str, find_cupti(os.environ))))


def _is_recorded() -> bool:
    """Return whether the session in this process's environment is still recording."""
    folder = os.environ.get(SESSION_VARIABLE)
    if not folder:
        return False
    try:
        control = ControlFile.open(Path(folder))
    except (OSError, CaptureError):  # finished and removed
        return False
    state = control.state
    control.close()
    return state is not State.STOPPED


def _nvtx_users() -> list[tuple[str, Callable[[], Any]]]:
    """Return the loaded libraries with a copy of NVTX.

    Each comes with a call that makes its NVTX look for a profiler, if it has not yet, and that
    records nothing.
    """
    users: list[tuple[str, Callable[[], Any]]] = []
    if "nvtx" in sys.modules:
        with contextlib.suppress(ImportError):  # waits for a concurrent import
            users.append(("nvtx", importlib.import_module("nvtx._lib.lib").initialize))
    torch = getattr(getattr(sys.modules.get("torch"), "_C", None), "_nvtx", None)
    pop = getattr(torch, "rangePop", None)
    if pop is not None:  # no push was recorded yet, so this closes no range
        users.append(("torch.cuda.nvtx", pop))
    return users


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=_frames_of_ours())


def _frames_of_ours() -> int:
    """Return the stack level of the caller's code, for the location that a warning shows."""
    depth = 1
    frame = sys._getframe(1)  # noqa: SLF001 - what `warnings` itself does
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
        depth += 1
    return depth


def _one_line(error: CaptureError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
