"""The library that samples CPUs through the kernel's perf events, and what stands in its way."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warpline.capture.machine.obstacles import Obstacle
from warpline.errors import AgentMissingError

SAMPLER_NAME = "libwarpline_sampler.so"

_ABI_VERSION = 4
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_MOST_PARANOID = 2  # the highest level at which users may sample their own processes
_PYTHON = {"samples": 1, "gil": 2}
_BACKTRACES = {"none": 0, "fp": 1, "dwarf": 2}
_NO_EVENTS = ("the kernel has no perf events", "sample on another machine")
_NO_FILES = (
    "too many open files: perf events need one per CPU, and for each running thread one more",
    "raise ulimit -n",
)
_OF_ERROR = {
    errno.ENOSYS: _NO_EVENTS,
    errno.ENOENT: _NO_EVENTS,
    errno.EOPNOTSUPP: _NO_EVENTS,
    errno.EMFILE: _NO_FILES,
    errno.ENFILE: _NO_FILES,
    errno.ESRCH: ("the program has ended", "start it again"),
}


class _Options(ctypes.Structure):
    _fields_ = (
        ("folder", ctypes.c_char_p),
        ("pid", ctypes.c_int32),
        ("backtrace", ctypes.c_int32),
        ("period_ns", ctypes.c_int64),
        ("has_switches", ctypes.c_int32),
        ("python", ctypes.c_int32),
        ("python_period_ns", ctypes.c_int64),
        ("running", ctypes.POINTER(ctypes.c_int32)),
        ("running_count", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    )


class _Counts(ctypes.Structure):
    _fields_ = (
        ("samples", ctypes.c_int64),
        ("incomplete", ctypes.c_int64),
        ("switches", ctypes.c_int64),
        ("lost", ctypes.c_int64),
        ("cpu_ns", ctypes.c_int64),
        ("has_kernel", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("python_looks", ctypes.c_int64),
        ("python_stacks", ctypes.c_int64),
        ("python_failed", ctypes.c_int64),
        ("python_cut", ctypes.c_int64),
        ("python_unsettled", ctypes.c_int64),
        ("python_samples", ctypes.c_int64),
        ("python_unmatched", ctypes.c_int64),
    )


@dataclass(frozen=True)
class SamplerCounts:
    """What a sampler did.

    Attributes:
        samples: CPU samples.
        incomplete: Those whose outermost callers were not found.
        switches: Context switches.
        lost: Records that the kernel dropped.
        cpu_ns: CPU time of the sampling process.
        has_kernel: Whether time in the kernel was sampled, too.
        python_looks: How often Python's threads were looked at.
        python_stacks: Python stacks that were read.
        python_failed: Those that could not be read.
        python_cut: Those whose outermost callers were not found.
        python_unsettled: Those that changed while they were read, every time.
        python_samples: CPU samples whose native stack ran Python.
        python_unmatched: Those without a Python stack, as none that was read fitted them.
    """

    samples: int
    incomplete: int
    switches: int
    lost: int
    cpu_ns: int
    has_kernel: bool
    python_looks: int
    python_stacks: int
    python_failed: int
    python_cut: int
    python_unsettled: int
    python_samples: int
    python_unmatched: int

    def plain(self) -> dict[str, int]:
        """Return the counts as plain values, for session.json."""
        return asdict(self)


class PerfSampler:
    """The native library, loaded; one per process.

    Args:
        path: The library.

    Raises:
        AgentMissingError: It cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(os.fspath(path))
            version = int(self._library.wl_sampler_abi_version())
        except (OSError, AttributeError) as error:
            raise AgentMissingError(f"cannot load {path}: {error}") from error
        if version != _ABI_VERSION:
            raise AgentMissingError(f"{path} has another version", hint="reinstall warpline")

    def obstacle(self, period_ns: int = 1_000_000) -> Obstacle | None:
        """Return why processes cannot be sampled; None if they can. Samples nothing."""
        options = _Options(None, os.getpid(), _BACKTRACES["dwarf"], period_ns, 1)
        return _obstacle(self._library.wl_sampler_try(ctypes.byref(options)))

    def open(
        self,
        folder: Path,
        program: int | Sequence[int],
        *,
        period_ns: int,
        backtrace: str,
        has_switches: bool,
        python_period_ns: int = 0,
        python: Sequence[str] = (),
    ) -> Obstacle | None:
        """Prepare to sample a process from its next exec on, or begin to sample those that run.

        Their threads and children are sampled, too.

        Args:
            folder: The session directory.
            program: The process that will execute the program, or processes that run.
            period_ns: CPU time between samples; 0 for no samples.
            backtrace: dwarf, fp or none.
            has_switches: Whether context switches are recorded.
            python_period_ns: Time between looks at Python's threads.
            python: What is recorded of them: samples, gil. That needs no perf events.

        Returns:
            What stands in the way; None if nothing does.
        """
        running = () if isinstance(program, int) else tuple(program)
        options = _Options(
            os.fsencode(folder),
            program if isinstance(program, int) else 0,
            _BACKTRACES[backtrace],
            period_ns,
            int(has_switches),
            sum(_PYTHON[name] for name in python),
            python_period_ns,
            (ctypes.c_int32 * len(running))(*running),
            len(running),
        )
        return _obstacle(self._library.wl_sampler_open(ctypes.byref(options)))

    def run(self, until: int) -> None:
        """Sample until a file descriptor can be read or is closed at its other end."""
        self._library.wl_sampler_run(until)

    def close(self) -> SamplerCounts:
        """Write what is left."""
        counts = _Counts()
        self._library.wl_sampler_close(ctypes.byref(counts))
        return SamplerCounts(
            counts.samples,
            counts.incomplete,
            counts.switches,
            counts.lost,
            counts.cpu_ns,
            bool(counts.has_kernel),
            counts.python_looks,
            counts.python_stacks,
            counts.python_failed,
            counts.python_cut,
            counts.python_unsettled,
            counts.python_samples,
            counts.python_unmatched,
        )


def sampler_library(agent: Path) -> Path:
    """Return the sampling library, which is beside the agent."""
    return agent.with_name(SAMPLER_NAME)


def perf_obstacle(library: Path) -> Obstacle | None:
    """Return why perf events cannot be used for sampling; None if they can."""
    try:
        return PerfSampler(library).obstacle()
    except AgentMissingError as error:
        return Obstacle(error.message, error.hint or "reinstall warpline")


def _obstacle(number: int) -> Obstacle | None:
    if number == 0:
        return None
    if number in {errno.EACCES, errno.EPERM}:
        level = paranoid()
        if level is not None and level > _MOST_PARANOID:
            return Obstacle(
                f"perf_event_paranoid is {level}",
                f"run sysctl kernel.perf_event_paranoid={_MOST_PARANOID}",
                is_about_rights=True,
            )
        return Obstacle(
            "perf events are forbidden here",
            "in a container, allow perf_event_open, such as docker run --cap-add=PERFMON"
            " --security-opt seccomp=unconfined",
            is_about_rights=True,
        )
    if number in _OF_ERROR:
        return Obstacle(*_OF_ERROR[number])
    return Obstacle(f"perf events failed: {os.strerror(number)}", "run warpline doctor")


def paranoid() -> int | None:
    """Return the kernel's perf_event_paranoid, or None if it is unknown."""
    try:
        return int(_PARANOID.read_text())
    except (OSError, ValueError):
        return None
