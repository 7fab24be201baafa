"""The flags of ``warpline launch`` and ``warpline start``.

They are those of ``warpline profile``: flags about the program belong to ``launch``, flags about
one recording to ``start``, and flags about what is recorded to both: ``launch`` sets what ``start``
may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from warpline.capture.flags import capabilities, parsing, values
from warpline.capture.flags.declarations import FLAGS
from warpline.capture.flags.grammar import Flag, ForeignFlag, Given, Grammar
from warpline.capture.flags.nsys import FOREIGN_FLAGS
from warpline.capture.flags.settings import CaptureSettings, RangeEnd, TargetProcesses
from warpline.capture.session.named import check_name
from warpline.errors import UsageError

_OF_BOTH = frozenset(
    {
        *("trace", "nvtx_domain_include", "nvtx_domain_exclude", "cuda_graph_trace"),
        *("cuda_memory_usage", "cuda_um_cpu_page_faults", "cuda_um_gpu_page_faults"),
        *("cuda_trace_all_apis", "cuda_waits", "cuda_flush_interval", "cudabacktrace"),
        *("python_backtrace", "no_summary", "quiet", "debug", "command_file"),
        # Observed from outside of the program.
        *("sample", "sampling_frequency", "backtrace", "cpuctxsw", "python_sampling"),
        *("python_sampling_frequency", "gpu_health", "gpu_metrics_devices", "gpu_metrics_set"),
        "gpu_metrics_frequency",
    }
)
_OF_LAUNCH = _OF_BOTH | {
    *("env_var", "inherit_environment", "show_output", "wait"),
    *("keep_command", "keep_environment", "discard_environment"),
}
_OF_START = _OF_BOTH | {
    *("output", "force_overwrite", "delay", "duration", "capture_range", "nvtx_capture"),
    *("capture_range_end", "steps", "every", "duty", "step_range", "keep_last", "when"),
    *("export", "stats", "max_size", "on_finish"),
}
# Nsight Systems has them for these commands; here they are flags of profile only.
_WHY_NOT = "use warpline profile"
_NOT_OF_SESSIONS = frozenset(
    {
        *("pytorch", "osrt_threshold", "osrt_backtrace_threshold", "stop_on_exit", "kill"),
        *("stop_on_range_end", "cuda_detach"),
    }
)
# Where the program goes on after the recording, these mean something else.
_MEANING_HERE = {
    "duration": "record for SECONDS",
    "capture_range_end": "none, stop (default) or repeat[:N]; all ranges go into one recording",
    "steps": "record N consecutive steps, then end the recording; with --every or --duty, N steps"
    " per sample",
}
# What the program must be started with.
_NOT_TRACED = frozenset({capabilities.OS_CALLS, capabilities.MPI, capabilities.OPENMP})


@dataclass
class SessionSettings(CaptureSettings):
    """The settings of a launch, or of a recording of one.

    Attributes:
        session: The name of the session; None for the only one, or for a new name.
        start: Whether a launched program is recorded from its start.
        target_processes: Which processes to attach to.
    """

    GOES_ON: ClassVar[bool] = True

    session: str | None = None
    start: bool = False
    target_processes: TargetProcesses = TargetProcesses.ALL


def _session(settings: SessionSettings, flag: Given) -> None:
    settings.session = check_name(flag.value)


def _named(flag: Flag) -> frozenset[str]:
    return frozenset(name.lstrip("-").replace("-", "_") for name in flag.names)


def _of(names: frozenset[str]) -> tuple[Flag, ...]:
    return tuple(
        replace(flag, help=_MEANING_HERE.get(flag.attribute, flag.help))
        for flag in FLAGS
        if not names.isdisjoint(_named(flag))
    )


def _foreign() -> dict[str, ForeignFlag]:
    found = dict(FOREIGN_FLAGS)
    for flag in _of(_NOT_OF_SESSIONS):
        for name in flag.names:
            found[name] = ForeignFlag(flag.names[-1], _WHY_NOT, is_switch=not flag.metavar)
    return found


_NAME = Flag(("--session",), "NAME", "name of the session (default: the only one)", _session)
_NEW = Flag(
    ("--session", "--session-new"),
    "NAME",
    "name of the session (default: the program's name and a number)",
    _session,
)
_START = Flag(
    ("--start",),
    "",
    "record the program from its start; recordings that follow are started by warpline start",
    values.boolean,
    is_switch=True,
)
_TARGETS = Flag(
    ("--target-processes",),
    "WHICH",
    "all (default): the processes that it has started, too; application-only",
    values.one_of(TargetProcesses),
)
_STOP = Flag(("-x", "--stop-on-exit"), "BOOL", "", values.nothing, is_switch=True, is_hidden=True)

_STARTING = tuple(
    replace(flag, group="flags of warpline start, with --start")
    for flag in _of(_OF_START - _OF_BOTH)
)

LAUNCH = Grammar("warpline launch", (_NEW, *_of(_OF_LAUNCH), _START, *_STARTING), _foreign())
START = Grammar("warpline start", (_NAME, _STOP, *_of(_OF_START)), _foreign())
ATTACH = Grammar("warpline attach", (_TARGETS, _STOP, *_of(_OF_START)), _foreign())
_BOTH = Grammar("warpline start", (_NAME, _STOP, *_of(_OF_LAUNCH | _OF_START)), _foreign())


def parse_launch(words: Sequence[str]) -> SessionSettings:
    """Return the settings of a launch.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, or two flags conflict.
    """
    settings = SessionSettings()
    rest = LAUNCH.read(words, settings)
    settings.command = tuple(rest[1:] if rest[:1] == ["--"] else rest)
    if not settings.command:
        raise UsageError("missing PROGRAM argument", hint="run warpline launch -- python train.py")
    of_all, of_first = flags_of_launch(words)
    if of_first and not settings.start:
        raise UsageError(
            f"{of_first[0].partition('=')[0]} is a flag of one recording",
            hint="add --start to record from the program's start, or use it with warpline start",
        )
    if settings.start:
        parse_start((*of_all, *of_first))
    of_program = SessionSettings()  # what it takes to run the program
    LAUNCH.read(of_all, of_program)
    of_program.command, of_program.start = settings.command, settings.start
    return _checked(of_program)


def flags_of_launch(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags of a launch: those of all its recordings, and those of its first one."""
    of_all: list[str] = []
    of_first: list[str] = []
    for flag, piece in LAUNCH.pieces(words):
        if flag is not _START:
            (of_first if flag in _STARTING else of_all).extend(piece)
    return tuple(of_all), tuple(of_first)


def parse_start(words: Sequence[str]) -> SessionSettings:
    """Return the settings of a recording, from the flags of its launch and those of its start.

    The program is left running, whatever ends the recording.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, or two flags conflict.
    """
    settings = SessionSettings()
    rest = _BOTH.read(words, settings)
    if rest:
        raise UsageError(
            f"unexpected argument {rest[0]!r}", hint="programs are started by warpline launch"
        )
    return _of_recording(settings)


def parse_attach(words: Sequence[str]) -> tuple[SessionSettings, list[str]]:
    """Return the settings of ``warpline attach``, and the words that are no flags.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, or two flags conflict.
    """
    settings = SessionSettings()
    rest = ATTACH.read(words, settings)
    return _of_recording(settings), rest


def _of_recording(settings: SessionSettings) -> SessionSettings:
    """Return checked settings of a recording of a program that goes on."""
    settings.kill = None
    end, count = settings.capture_range_end
    if end is RangeEnd.STOP_SHUTDOWN:
        settings.capture_range_end = (RangeEnd.STOP, count)
    elif end is RangeEnd.REPEAT_SHUTDOWN:
        settings.capture_range_end = (RangeEnd.REPEAT, count)
    settings.command = ("program",)  # that of the launch
    return _checked(settings)


def _checked(settings: SessionSettings) -> SessionSettings:
    """Check the settings, and leave out what only ``warpline profile`` records."""
    if settings.asks_for_lists:
        raise UsageError(
            "only warpline profile lists GPUs and sets of metrics",
            hint="run warpline profile --gpu-metrics-devices=help --gpu-metrics-set=help",
        )
    left_out = [word for word in settings.trace if word in _NOT_TRACED]
    if left_out:
        settings.trace = tuple(word for word in settings.trace if word not in _NOT_TRACED)
        what = f"-t {','.join(left_out)} is"
        settings.warnings.append(f"{what} not recorded in sessions ({_WHY_NOT})")
    parsing.check(settings)
    return settings
