"""The flags of ``warpline profile``: names, values, and the settings that they set.

`FLAGS` declares each flag once. Parsing, help, completion and the reference page are derived from
it.
"""

from __future__ import annotations

import difflib
import re
import shlex
import signal
from collections.abc import Collection
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from warpline.capture.collectors.metrics_request import (
    ALL,
    HELP,
    LEAST_HZ,
    MOST_HZ,
    NONE,
    VISIBLE,
)
from warpline.capture.flags import capabilities, values
from warpline.capture.flags.call_chains import parse_call_chains, parse_python_chains
from warpline.capture.flags.finish_command import words_of
from warpline.capture.flags.grammar import IDLE_VALUES, TRUE_WORDS, Flag, Given, Grammar, Set
from warpline.capture.flags.hosting import HOST_FLAGS
from warpline.capture.flags.nsys import FOREIGN_FLAGS
from warpline.capture.flags.pytorch import parse_pytorch
from warpline.capture.flags.settings import (
    Backtrace,
    CaptureRange,
    CaptureSettings,
    RangeEnd,
    SampleScope,
    SwitchScope,
    Wait,
)
from warpline.capture.flags.values import split
from warpline.capture.session.agent_config import GraphTrace, WaitSource
from warpline.capture.session.keeping import KeepLast
from warpline.capture.session.triggers import Triggers
from warpline.counters import sampled_sets
from warpline.errors import UsageError

EXPORT_TYPES = (
    *("sqlite", "json", "parquet", "arrow", "perfetto"),
    *("collapsed", "firefox", "pprof", "speedscope"),
)

_EXPORT_ALIASES = {"parquetdir": "parquet", "arrowdir": "arrow"}
_EXPORTS_OF_NSYS = frozenset({"hdf", "info", "jsonlines", "text"})
_DEFAULT_FLUSH_MS, _LONGEST_MS = 1000, 3_600_000
_LONGEST_NS = 1_000_000_000_000
_SLOWEST_HZ, _FASTEST_HZ = 0.01, 100
_MOST_SAMPLES = 10_000
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LEAST_SIZE = 1 << 20
_MOST_PYTHON_SAMPLES = 2000

# Sets of nsys have numbers or the names of chips: 0, gh100, ga10x-gfxt.
_SET_OF_NSYS = re.compile(r"\d{1,2}|(tu|ga|ad|gh|gb|gv)\d+\w*(-\w+)*")

_step_count = values.number(1, (1 << 16) - 1)


def _seconds(settings: CaptureSettings, flag: Given) -> None:
    try:
        seconds = float(flag.value.removesuffix("s"))
    except ValueError:
        raise flag.bad("a number of seconds") from None
    is_duration = flag.attribute == "duration"
    if not 0 <= seconds <= 1e9 or (is_duration and seconds == 0):
        raise flag.bad(f"a number of seconds{' above 0' if is_duration else ', 0 or more'}")
    setattr(settings, flag.attribute, seconds)


def _keep_last(settings: CaptureSettings, flag: Given) -> None:
    KeepLast.of(flag.value)  # checks it
    settings.keep_last = flag.value.strip()


def _when(settings: CaptureSettings, flag: Given) -> None:
    Triggers.of(flag.value)  # checks it
    settings.when = flag.value if settings.when is None else f"{settings.when},{flag.value}"


def _trace(settings: CaptureSettings, flag: Given) -> None:
    wanted = tuple(word.strip().lower() for word in flag.value.split(",") if word.strip())
    for word in wanted:
        if word not in capabilities.KNOWN:
            near = difflib.get_close_matches(word, capabilities.COLLECTED, n=1)
            hint = f"did you mean {near[0]}?" if near else capabilities.HINT
            raise UsageError(f"{flag.name}: unknown API {word!r}", hint=hint)
    wanted = tuple(capabilities.ALIASES.get(word, word) for word in wanted)
    if not wanted:
        raise UsageError(f"{flag.name} requires a value", hint="use -t cuda,nvtx")
    settings.trace = wanted


def _graph_trace(settings: CaptureSettings, flag: Given) -> None:
    # nsys's suffix after the colon selects host or device tracing. Ours is always on the device.
    level, _, where = flag.value.lower().partition(":")
    if level not in set(GraphTrace) or where not in {"", "host-only", "host-and-device"}:
        raise flag.bad("graph or node")
    settings.cuda_graph_trace = GraphTrace(level)


def _call_chains(settings: CaptureSettings, flag: Given) -> None:
    settings.cudabacktrace = parse_call_chains(flag.value)


def _pytorch(settings: CaptureSettings, flag: Given) -> None:
    settings.pytorch = parse_pytorch(flag.value, name=flag.name)


def _python_chains(settings: CaptureSettings, flag: Given) -> None:
    settings.python_backtrace = parse_python_chains(flag.value)


def _milliseconds(settings: CaptureSettings, flag: Given) -> None:
    if not flag.value.isdecimal() or int(flag.value) > _LONGEST_MS:
        raise flag.bad("a number of milliseconds")
    setattr(settings, flag.attribute, int(flag.value) or _DEFAULT_FLUSH_MS)


def _health(settings: CaptureSettings, flag: Given) -> None:
    word = flag.value.lower()
    if word in TRUE_WORDS:
        settings.gpu_health = 1.0
        return
    try:
        hz = 0.0 if word in IDLE_VALUES else float(word)
    except ValueError:
        hz = -1.0
    if hz and not _SLOWEST_HZ <= hz <= _FASTEST_HZ:
        raise flag.bad(f"off, or a number of readings per second up to {_FASTEST_HZ}")
    settings.gpu_health = hz


def _metrics_devices(settings: CaptureSettings, flag: Given) -> None:
    words = [word.strip().lower() for word in flag.value.split(",")]
    is_list = all(word.isascii() and word.isdecimal() for word in words)
    if not is_list and (len(words) > 1 or words[0] not in {ALL, VISIBLE, NONE, HELP}):
        raise flag.bad(f"{ALL}, {VISIBLE}, {NONE}, or numbers of GPUs ({HELP} lists them)")
    settings.gpu_metrics_devices = ",".join(words)


def _metrics_set(settings: CaptureSettings, flag: Given) -> None:
    values.text(settings, flag)
    if _SET_OF_NSYS.fullmatch(flag.value.lower()):
        settings.gpu_metrics_set = sampled_sets.DEFAULT
        settings.warnings.append(
            f"{flag.name}={flag.value} is a set of nsys; {sampled_sets.DEFAULT} is sampled instead"
        )


def _variables(settings: CaptureSettings, flag: Given) -> None:
    # A comma separates only if a name and "=" follow: A=1,2,B=3 are two variables.
    for pair in re.split(r",(?=[A-Za-z_]\w*=)", flag.value):
        key, equals, content = pair.partition("=")
        if not equals or not key:
            raise replace(flag, value=pair).bad("NAME=VALUE")
        settings.env_var[key] = content


def _kill(settings: CaptureSettings, flag: Given) -> None:
    word = flag.value.upper().removeprefix("SIG")
    numbers = {item.name.removeprefix("SIG"): int(item) for item in signal.Signals}
    if word == "NONE":
        settings.kill = None
    elif word in numbers:
        settings.kill = numbers[word]
    elif word.isdecimal() and 0 < int(word) < signal.NSIG:
        settings.kill = int(word)
    else:
        raise flag.bad("none, sigkill, sigterm or a signal number")


def _range_end(settings: CaptureSettings, flag: Given) -> None:
    word, *details = flag.value.split(":")
    counts = [detail for detail in details if detail not in {"sync", "async"}]
    is_right = word in set(RangeEnd) and len(counts) <= 1
    is_right = is_right and (not details or word.startswith("repeat"))
    is_right = is_right and all(count.isdecimal() and int(count) > 0 for count in counts)
    if not is_right or (word == RangeEnd.REPEAT_SHUTDOWN and not counts):
        raise flag.bad("none, stop, stop-shutdown, repeat[:N] or repeat-shutdown:N")
    settings.capture_range_end = (RangeEnd(word), int(counts[0]) if counts else 0)


def _stop_on_range_end(settings: CaptureSettings, flag: Given) -> None:
    values.boolean(settings, flag)  # checks the word
    stops = flag.value.lower() in TRUE_WORDS
    settings.capture_range_end = (RangeEnd.STOP if stops else RangeEnd.NONE, 0)


def _domains(settings: CaptureSettings, flag: Given) -> None:
    given = getattr(settings, flag.attribute)
    setattr(settings, flag.attribute, (*given, *(word for word in split(flag.value, ",") if word)))


def _command_file(name: str) -> list[str]:
    try:
        return shlex.split(Path(name).read_text(encoding="utf-8"), comments=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--command-file {name}: {why}") from None


def _possible(words: type[StrEnum], impossible: Collection[str], instead: str, why: str) -> Set:
    """Return what stores one of some words, and another one instead of the impossible ones."""
    store = values.one_of(words)

    def set_one(settings: CaptureSettings, flag: Given) -> None:
        store(settings, flag)
        if getattr(settings, flag.attribute) in impossible:
            setattr(settings, flag.attribute, words(instead))
            settings.warnings.append(
                f"{flag.name}={flag.value} is not supported; using {instead} ({why})"
            )

    return set_one


_sample = _possible(
    SampleScope, {"cpu", "system-wide"}, "process-tree", "other processes are not sampled"
)
_switches = _possible(
    SwitchScope, {"system-wide"}, "process-tree", "other processes are not recorded"
)
_backtrace = _possible(Backtrace, {"lbr"}, "dwarf", "the software clock has no branch records")


def _max_size(settings: CaptureSettings, flag: Given) -> None:
    if flag.value.lower() in IDLE_VALUES:
        settings.max_size = 0
        return
    found = _SIZE.fullmatch(flag.value.strip())
    size = 0 if found is None else round(float(found[1]) * _SIZES[found[2].upper()])
    if not _LEAST_SIZE <= size < 1 << 60:
        raise flag.bad("none, or a size of 1M or more, such as 500M or 2G")
    settings.max_size = size


def _on_finish(settings: CaptureSettings, flag: Given) -> None:
    words_of(flag.value, Path())  # checks it
    settings.on_finish = flag.value


def _exports(settings: CaptureSettings, flag: Given) -> None:
    for given in flag.value.split(","):
        word = _EXPORT_ALIASES.get(given.strip().lower(), given.strip().lower())
        if word in {"", "none"}:
            continue
        if word in EXPORT_TYPES:
            settings.export = tuple(dict.fromkeys((*settings.export, word)))
        elif word in _EXPORTS_OF_NSYS:
            kinds = ", ".join(EXPORT_TYPES)
            settings.warnings.append(f"{flag.name}={word} is not supported (supported: {kinds})")
        else:
            raise replace(flag, value=given).bad(f"one of {', '.join(EXPORT_TYPES)}")


FLAGS = (
    Flag(("-o", "--output"), "NAME", "output file; supports nsys patterns (default:"
         " report1.warpline, or the next free number)", values.text),
    Flag(("-f", "--force-overwrite"), "BOOL", "overwrite existing output files (default: false)",
         values.boolean, is_switch=True),
    Flag(("-t", "--trace"), "LIST", f"APIs to trace: {', '.join(capabilities.COLLECTED)} (default:"
         f" {','.join(capabilities.DEFAULT)})", _trace),
    Flag(("-y", "--delay"), "SECONDS", "start recording after SECONDS", _seconds),
    Flag(("-d", "--duration"), "SECONDS", "record for SECONDS, then stop the program", _seconds),
    Flag(("-x", "--stop-on-exit"), "BOOL", "false: keep the program running after --duration",
         values.boolean, is_switch=True),
    Flag(("--kill",), "SIGNAL", "signal that stops the program after --duration or a capture range:"
         " none, sigkill, sigterm, or a number (default: sigterm)", _kill),
    Flag(("--wait",), "WHAT", "wait for the program (primary) or also for processes it leaves"
         " running (all, default)", values.one_of(Wait)),
    Flag(("-c", "--capture-range"), "WHAT", "range to record: none, nvtx (requires -p),"
         " cudaProfilerApi", values.one_of(CaptureRange)),
    Flag(("-p", "--nvtx-capture"), "RANGE[@DOMAIN]", "NVTX range to record; @* matches any domain",
         values.range_and_domain),
    Flag(("--capture-range-end",), "WHAT", "none, stop, stop-shutdown (default; also stops the"
         " program), repeat[:N], repeat-shutdown:N; all ranges go into one recording", _range_end),
    Flag(("--steps",), "N", "record N consecutive steps per sample", _step_count),
    Flag(("--every",), "N", "start a sample every N steps", _step_count),
    Flag(("--duty",), "SHARE", "fraction of steps to record, such as 0.02; use instead of"
         " --every; without --steps, Warpline also chooses the steps per sample", values.share),
    Flag(("--step-range",), "RANGE[@DOMAIN]", "NVTX range that starts a step; accepts * and ?"
         " (default: names such as step_12, train_step, iteration 7)", values.range_and_domain),
    Flag(("--keep-last",), "WHAT", "keep only the end of the recording, such as 30s, 5m or 20steps,"
         " in bounded memory and disk; it is written when the program ends, by warpline dump, or by"
         " --when", _keep_last),
    Flag(("--when",), "CONDITION", "with --keep-last: write what is kept, and go on, when a step is"
         ' slow ("step > 2 x median", "step > 500ms"), nothing happens ("hang 30s"),'
         ' or Warpline receives a signal ("signal USR2")', _when),
    Flag(("--max-size",), "SIZE", "stop recording, not the program, when its events take this much"
         " on the disk, such as 500M or 2G; none: no limit (default: 512M in jobs of more than 8"
         " ranks, none otherwise)", _max_size),
    Flag(("--nvtx-domain-include",), "LIST", 'record only these NVTX domains; "default" is the'
         " unnamed domain", _domains),
    Flag(("--nvtx-domain-exclude",), "LIST", "exclude these NVTX domains", _domains),
    Flag(("--cuda-graph-trace",), "LEVEL", "level of detail for CUDA graphs: node (default) records"
         " each kernel and copy; graph records each launch as one row, with less overhead",
         _graph_trace),
    Flag(("--cuda-memory-usage",), "BOOL", "record GPU memory allocations and frees",
         values.boolean, is_switch=True),
    Flag(("--cuda-um-cpu-page-faults",), "BOOL", "record CPU page faults of unified memory, and its"
         " migrations; may slow down programs that use it", values.boolean, is_switch=True),
    Flag(("--cuda-um-gpu-page-faults",), "BOOL", "record GPU page faults of unified memory, and its"
         " migrations; may slow down programs that use it", values.boolean, is_switch=True),
    Flag(("--cuda-trace-all-apis",), "BOOL", "record all CUDA API calls, including queries such as"
         " cudaGetDevice", values.boolean, is_switch=True),
    Flag(("--cuda-waits",), "SOURCE", "source of synchronization and event records: calls (default)"
         " or cupti, which adds overhead to every launch", values.one_of(WaitSource)),
    Flag(("--cuda-detach",), "BOOL", "detach CUPTI during pauses of a second or more between"
         " samples; false leaves overhead on every launch (default: true)",
         values.boolean, is_switch=True),
    Flag(("--cudabacktrace",), "KINDS", "record backtraces of CUDA API calls: all, kernel, memory,"
         " sync, other; KIND:NS sets the minimum duration (default: 80000)", _call_chains),
    Flag(("--python-backtrace",), "KINDS", "record Python backtraces of CUDA API calls: cuda (all"
         " calls), kernel, memory, sync, other; KIND:NS sets the minimum duration (default: 0)",
         _python_chains),
    Flag(("--cuda-flush-interval",), "MS", "flush CUPTI buffers every MS milliseconds (default:"
         " 1000); if the program is killed, at most this much GPU work is missing; synchronizing"
         " calls also trigger a flush", _milliseconds),
    Flag(("--osrt-threshold",), "NS", "with -t osrt: record calls of the C library that take"
         " at least NS nanoseconds (default: 1000)", values.number(0, _LONGEST_NS)),
    Flag(("--osrt-backtrace-threshold",), "NS", "with -t osrt: record backtraces, native and"
         " Python, of calls that take at least NS nanoseconds; 0 for none (default: 80000)",
         values.number(0, _LONGEST_NS)),
    Flag(("--library-backtrace-threshold",), "NS", "with -t cublas, cudnn, nccl and other"
         " libraries: record backtraces, native and Python, of calls that take at least NS"
         " nanoseconds; 0 for all (default: none)", values.number(0, _LONGEST_NS)),
    Flag(("--pytorch",), "LIST", "record names from PyTorch: modules, optimizer, dataloader, or"
         " all of these; operators as NVTX ranges (autograd-nvtx, autograd-shapes-nvtx) or in the"
         " table op (functions-trace, functions-trace-shapes); the allocations of GPU memory, and"
         " what they are for (memory); none (default)", _pytorch),
    Flag(("--gpu-health",), "HZ", "readings per second of the state of GPUs and machine: clocks,"
         " power, temperature, memory, links, CPU; off for none (default: 1)", _health,
         is_switch=True),
    Flag(("--gpu-metrics-device", "--gpu-metrics-devices"), "GPUS", "sample hardware"
         " metrics of these GPUs: all, cuda-visible, none (default), or numbers as nvidia-smi shows"
         " them; help lists the GPUs",
         _metrics_devices),
    Flag(("--gpu-metrics-set",), "SET", "metrics to sample: general (default), nvlink, l2, pipes,"
         " or a file with one metric per line; help lists them", _metrics_set),
    Flag(("--gpu-metrics-frequency",), "HZ", "samples per second, from 10 to 200000 (default:"
         " 10000); above about 10000, some may be dropped", values.number(LEAST_HZ, MOST_HZ)),
    Flag(("-s", "--sample"), "SCOPE", "sample what the CPU runs, with backtraces: process-tree (the"
         " program and all its children), none (default)", _sample),
    Flag(("--sampling-frequency",), "HZ", "CPU samples per second of CPU time of each thread, from"
         " 1 to 10000 (default: 1000)", values.number(1, _MOST_SAMPLES)),
    Flag(("-b", "--backtrace"), "HOW", "backtraces of CPU samples: dwarf (default), fp (frame"
         " pointers only), none", _backtrace),
    Flag(("--cpuctxsw",), "SCOPE", "record when threads start and stop running: process-tree"
         " (default with -s), none", _switches),
    Flag(("--python-sampling",), "BOOL", "sample the Python stacks of all threads, whether they run"
         " or wait", values.boolean, is_switch=True),
    Flag(("--python-sampling-frequency",), "HZ", "looks at Python's threads per second, from 1"
         " to 2000 (default: 1000), for --python-sampling and -t python-gil",
         values.number(1, _MOST_PYTHON_SAMPLES)),
    Flag(("-e", "--env-var"), "A=B[,C=D]", "environment variables to set for the program",
         _variables),
    Flag(("-n", "--inherit-environment"), "BOOL", "false: the program gets only the"
         " variables set with -e", values.boolean, is_switch=True),
    Flag(("-w", "--show-output"), "BOOL", "false: discard the program's output",
         values.boolean, is_switch=True),
    Flag(("--stats",), "BOOL", "print the nsys statistics tables after recording", values.boolean,
         is_switch=True),
    Flag(("--export",), "LIST", f"also export the recording as: {', '.join(EXPORT_TYPES)}",
         _exports),
    Flag(("--on-finish",), "COMMAND", "run this when the recording is written, such as an upload:"
         " {} is replaced by its path, which is appended without it; no shell, and no effect on the"
         " exit status", _on_finish),
    Flag(("--stop-on-range-end",), "BOOL", "what --capture-range-end was before 2021",
         _stop_on_range_end, is_switch=True, is_hidden=True),
    Flag(("--keep-command",), "", "store the command line unmasked, including secrets (default:"
         " only the program, flag names and harmless values)", values.boolean, is_switch=True),
    Flag(("--keep-environment",), "", "store all environment variables unmasked, including secrets",
         values.boolean, is_switch=True),
    Flag(("--discard-environment",), "BOOL", "store no environment variables", values.boolean,
         is_switch=True, is_hidden=True),
    Flag(("--no-summary",), "", "do not print a summary at the end", values.boolean,
         is_switch=True),
    Flag(("-q", "--quiet"), "", "print only errors", values.boolean, is_switch=True),
    Flag(("--debug",), "", "show a traceback on errors", values.nothing, is_switch=True),
    Flag(("--command-file",), "FILE", "read flags from FILE", values.nothing,
         expand=_command_file),
)  # fmt: skip
GRAMMAR = Grammar("warpline profile", (*FLAGS, *HOST_FLAGS), FOREIGN_FLAGS)
