"""The flags of ``warpline profile``: names, values, and the settings that they set.

`FLAGS` declares each flag once. Parsing, help, completion and the reference page are derived from
it.
"""

from __future__ import annotations

import difflib
import enum
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from warpline.capture.flags import capabilities
from warpline.capture.flags.call_chains import parse_call_chains
from warpline.capture.flags.settings import CaptureRange, CaptureSettings, RangeEnd, Wait
from warpline.capture.session.agent_config import GraphTrace, WaitSource
from warpline.errors import UsageError

HINT = "see warpline profile --help"
EXPORT_TYPES = ("sqlite", "json", "parquet", "arrow", "perfetto")
TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})

_EXPORT_ALIASES = {"parquetdir": "parquet", "arrowdir": "arrow"}
_EXPORTS_OF_NSYS = frozenset({"hdf", "info", "jsonlines", "text"})
_DEFAULT_FLUSH_MS, _LONGEST_MS = 1000, 3_600_000

Set = Callable[[CaptureSettings, str, str], None]  # settings, flag as typed, value


@dataclass(frozen=True)
class Flag:
    """A flag of ``warpline profile``.

    Attributes:
        names: Its spellings, the short form first if there is one.
        metavar: The placeholder for its value in the help; empty if it takes none.
        help: The help text.
        set: Stores the value in the settings, or raises UsageError.
        is_switch: The value, true or false, is optional.
        is_hidden: Omitted from the help.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    set: Set
    is_switch: bool = False
    is_hidden: bool = False

    @property
    def attribute(self) -> str:
        """The attribute of `CaptureSettings` that the flag sets."""
        return self.names[-1].lstrip("-").replace("-", "_")


def _bad(name: str, value: str, wanted: str) -> UsageError:
    return UsageError(f"{name} {value}: expected {wanted}", hint=HINT)


def _text(settings: CaptureSettings, name: str, value: str) -> None:
    if not value:
        raise UsageError(f"{name} requires a value", hint=HINT)
    setattr(settings, _attribute(name), value)


def _flag_value(settings: CaptureSettings, name: str, value: str) -> None:
    word = value.lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise _bad(name, value, "true or false")
    setattr(settings, _attribute(name), word in TRUE_WORDS)


def _seconds(settings: CaptureSettings, name: str, value: str) -> None:
    try:
        seconds = float(value.removesuffix("s"))
    except ValueError:
        raise _bad(name, value, "a number of seconds") from None
    is_duration = _attribute(name) == "duration"
    if not 0 <= seconds <= 1e9 or (is_duration and seconds == 0):
        least = " above 0" if is_duration else ", 0 or more"
        raise _bad(name, value, f"a number of seconds{least}")
    setattr(settings, _attribute(name), seconds)


def _count(settings: CaptureSettings, name: str, value: str) -> None:
    if not value.isdecimal() or not 0 < int(value) < 1 << 16:
        raise _bad(name, value, "a number from 1 to 65535")
    setattr(settings, _attribute(name), int(value))


def _share(settings: CaptureSettings, name: str, value: str) -> None:
    is_percent = value.endswith("%")
    try:
        share = float(value.removesuffix("%")) / (100 if is_percent else 1)
    except ValueError:
        share = 0.0
    if not 1e-5 <= share <= 1:
        raise _bad(name, value, "a fraction such as 2% or 0.02")
    settings.duty = share


def _trace(settings: CaptureSettings, name: str, value: str) -> None:
    wanted = tuple(word.strip().lower() for word in value.split(",") if word.strip())
    for word in wanted:
        if word not in capabilities.KNOWN:
            near = difflib.get_close_matches(word, capabilities.COLLECTED, n=1)
            there_are = f"use {' or '.join(capabilities.COLLECTED)}"
            hint = f"did you mean {near[0]}?" if near else there_are
            raise UsageError(f"{name}: unknown API {word!r}", hint=hint)
    wanted = tuple(capabilities.ALIASES.get(word, word) for word in wanted)
    if not wanted:
        raise UsageError(f"{name} requires a value", hint="use -t cuda,nvtx")
    settings.trace = wanted


def _graph_trace(settings: CaptureSettings, name: str, value: str) -> None:
    # nsys's suffix after the colon selects host or device tracing. Ours is always on the device.
    level, _, where = value.lower().partition(":")
    if level not in set(GraphTrace) or where not in {"", "host-only", "host-and-device"}:
        raise _bad(name, value, "graph or node")
    settings.cuda_graph_trace = GraphTrace(level)


def _call_chains(settings: CaptureSettings, name: str, value: str) -> None:
    settings.cudabacktrace = parse_call_chains(value)


def _milliseconds(settings: CaptureSettings, name: str, value: str) -> None:
    if not value.isdecimal() or int(value) > _LONGEST_MS:
        raise _bad(name, value, "a number of milliseconds")
    setattr(settings, _attribute(name), int(value) or _DEFAULT_FLUSH_MS)


def _variables(settings: CaptureSettings, name: str, value: str) -> None:
    # A comma separates only if a name and "=" follow: A=1,2,B=3 are two variables.
    for pair in re.split(r",(?=[A-Za-z_]\w*=)", value):
        key, equals, content = pair.partition("=")
        if not equals or not key:
            raise _bad(name, pair, "NAME=VALUE")
        settings.env_var[key] = content


def _kill(settings: CaptureSettings, name: str, value: str) -> None:
    word = value.upper().removeprefix("SIG")
    numbers = {item.name.removeprefix("SIG"): int(item) for item in signal.Signals}
    if word == "NONE":
        settings.kill = None
    elif word in numbers:
        settings.kill = numbers[word]
    elif word.isdecimal() and 0 < int(word) < signal.NSIG:
        settings.kill = int(word)
    else:
        raise _bad(name, value, "none, sigkill, sigterm or a signal number")


def _one_of(words: type[enum.StrEnum]) -> Set:
    by_word = {word.lower(): word for word in words}

    def set_one(settings: CaptureSettings, name: str, value: str) -> None:
        if value.lower() not in by_word:
            raise _bad(name, value, f"one of {', '.join(words)}")
        setattr(settings, _attribute(name), by_word[value.lower()])

    return set_one


def _range_end(settings: CaptureSettings, name: str, value: str) -> None:
    word, *details = value.split(":")
    counts = [detail for detail in details if detail not in {"sync", "async"}]
    is_right = word in set(RangeEnd) and len(counts) <= 1
    is_right = is_right and (not details or word.startswith("repeat"))
    is_right = is_right and all(count.isdecimal() and int(count) > 0 for count in counts)
    if not is_right or (word == RangeEnd.REPEAT_SHUTDOWN and not counts):
        raise _bad(name, value, "none, stop, stop-shutdown, repeat[:N] or repeat-shutdown:N")
    settings.capture_range_end = (RangeEnd(word), int(counts[0]) if counts else 0)


def _stop_on_range_end(settings: CaptureSettings, name: str, value: str) -> None:
    _flag_value(settings, name, value)  # checks the word
    stops = value.lower() in TRUE_WORDS
    settings.capture_range_end = (RangeEnd.STOP if stops else RangeEnd.NONE, 0)


def _capture(settings: CaptureSettings, name: str, value: str) -> None:
    parts = _split(value, "@")
    if len(parts) > 2:
        parts = ["@".join(parts[:-1]), parts[-1]]
    if not parts[0]:
        raise _bad(name, value, "RANGE[@DOMAIN]")
    setattr(settings, _attribute(name), (parts[0], parts[1] if len(parts) > 1 else None))


def _domains(settings: CaptureSettings, name: str, value: str) -> None:
    given = getattr(settings, _attribute(name))
    setattr(settings, _attribute(name), (*given, *(word for word in _split(value, ",") if word)))


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark; a backslash escapes the next character."""
    parts = [""]
    place = 0
    while place < len(text):
        if text[place] == "\\" and place + 1 < len(text):
            place += 1
            parts[-1] += text[place]
        elif text[place] == mark:
            parts.append("")
        else:
            parts[-1] += text[place]
        place += 1
    return parts


def _exports(settings: CaptureSettings, name: str, value: str) -> None:
    for given in value.split(","):
        word = _EXPORT_ALIASES.get(given.strip().lower(), given.strip().lower())
        if word in {"", "none"}:
            continue
        if word in EXPORT_TYPES:
            settings.export = tuple(dict.fromkeys((*settings.export, word)))
        elif word in _EXPORTS_OF_NSYS:
            kinds = ", ".join(EXPORT_TYPES)
            settings.warnings.append(f"{name}={word} is not supported (supported: {kinds})")
        else:
            raise _bad(name, given, f"one of {', '.join(EXPORT_TYPES)}")


def _attribute(name: str) -> str:
    return FLAGS_BY_NAME[name].attribute


FLAGS = (
    Flag(("-o", "--output"), "NAME", "output file; supports nsys patterns (default:"
         " report1.warpline, or the next free number)", _text),
    Flag(("-f", "--force-overwrite"), "BOOL", "overwrite existing output files (default: false)",
         _flag_value, is_switch=True),
    Flag(("-t", "--trace"), "LIST", f"APIs to trace: {', '.join(capabilities.COLLECTED)} (default:"
         f" {','.join(capabilities.DEFAULT)})", _trace),
    Flag(("-y", "--delay"), "SECONDS", "start recording after SECONDS", _seconds),
    Flag(("-d", "--duration"), "SECONDS", "record for SECONDS, then stop the program", _seconds),
    Flag(("-x", "--stop-on-exit"), "BOOL", "false: keep the program running after --duration",
         _flag_value, is_switch=True),
    Flag(("--kill",), "SIGNAL", "signal that stops the program after --duration or a capture range:"
         " none, sigkill, sigterm, or a number (default: sigterm)", _kill),
    Flag(("--wait",), "WHAT", "wait for the program (primary) or also for processes it leaves"
         " running (all, default)", _one_of(Wait)),
    Flag(("-c", "--capture-range"), "WHAT", "range to record: none, nvtx (requires -p),"
         " cudaProfilerApi", _one_of(CaptureRange)),
    Flag(("-p", "--nvtx-capture"), "RANGE[@DOMAIN]", "NVTX range to record; @* matches any domain",
         _capture),
    Flag(("--capture-range-end",), "WHAT", "none, stop, stop-shutdown (default; also stops the"
         " program), repeat[:N], repeat-shutdown:N; all ranges go into one recording", _range_end),
    Flag(("--steps",), "N", "record N consecutive steps per sample", _count),
    Flag(("--every",), "N", "start a sample every N steps", _count),
    Flag(("--duty",), "SHARE", "fraction of steps to record, such as 0.02; use instead of"
         " --every; without --steps, Warpline also chooses the steps per sample", _share),
    Flag(("--step-range",), "RANGE[@DOMAIN]", "NVTX range that starts a step; accepts * and ?"
         " (default: names such as step_12, train_step, iteration 7)", _capture),
    Flag(("--nvtx-domain-include",), "LIST", 'record only these NVTX domains; "default" is the'
         " unnamed domain", _domains),
    Flag(("--nvtx-domain-exclude",), "LIST", "exclude these NVTX domains", _domains),
    Flag(("--cuda-graph-trace",), "LEVEL", "level of detail for CUDA graphs: node (default) records"
         " each kernel and copy; graph records each launch as one row, with less overhead",
         _graph_trace),
    Flag(("--cuda-memory-usage",), "BOOL", "record GPU memory allocations and frees",
         _flag_value, is_switch=True),
    Flag(("--cuda-trace-all-apis",), "BOOL", "record all CUDA API calls, including queries such as"
         " cudaGetDevice", _flag_value, is_switch=True),
    Flag(("--cuda-waits",), "SOURCE", "source of synchronization and event records: calls (default)"
         " or cupti, which adds overhead to every launch", _one_of(WaitSource)),
    Flag(("--cuda-detach",), "BOOL", "detach CUPTI during pauses of a second or more between"
         " samples; false leaves overhead on every launch (default: true)",
         _flag_value, is_switch=True),
    Flag(("--cudabacktrace",), "KINDS", "record backtraces of CUDA API calls: all, kernel, memory,"
         " sync, other; KIND:NS sets the minimum duration (default: 80000)", _call_chains),
    Flag(("--cuda-flush-interval",), "MS", "flush CUPTI buffers every MS milliseconds (default:"
         " 1000); if the program is killed, at most this much GPU work is missing; synchronizing"
         " calls also trigger a flush", _milliseconds),
    Flag(("-e", "--env-var"), "A=B[,C=D]", "environment variables to set for the program",
         _variables),
    Flag(("-n", "--inherit-environment"), "BOOL", "false: the program gets only the"
         " variables set with -e", _flag_value, is_switch=True),
    Flag(("-w", "--show-output"), "BOOL", "false: discard the program's output",
         _flag_value, is_switch=True),
    Flag(("--stats",), "BOOL", "print the nsys statistics tables after recording", _flag_value,
         is_switch=True),
    Flag(("--export",), "LIST", f"also export the recording as: {', '.join(EXPORT_TYPES)}",
         _exports),
    Flag(("--stop-on-range-end",), "BOOL", "what --capture-range-end was before 2021",
         _stop_on_range_end, is_switch=True, is_hidden=True),
    Flag(("--keep-command",), "", "store the command line unmasked, including secrets (default:"
         " only the program, flag names and harmless values)", _flag_value, is_switch=True),
    Flag(("--keep-environment",), "", "store all environment variables unmasked, including secrets",
         _flag_value, is_switch=True),
    Flag(("--discard-environment",), "BOOL", "store no environment variables", _flag_value,
         is_switch=True, is_hidden=True),
    Flag(("--no-summary",), "", "do not print a summary at the end", _flag_value, is_switch=True),
    Flag(("-q", "--quiet"), "", "print only errors", _flag_value, is_switch=True),
    Flag(("--debug",), "", "show a traceback on errors", lambda *_: None, is_switch=True),
    Flag(("--command-file",), "FILE", "read flags from FILE", _text),
)  # fmt: skip
FLAGS_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
