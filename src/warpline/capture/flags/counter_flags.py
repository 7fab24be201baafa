"""The flags of ``warpline kernels``: those of ``ncu``, and its own.

The same flags print reports: a program is run unless reports are named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from warpline.capture.flags import launches, values
from warpline.capture.flags.counter_checks import check, check_report
from warpline.capture.flags.counting import (
    DEFAULT_INTERVAL,
    DEFAULT_OVERHEAD,
    DEFAULT_SAMPLE,
    LONGEST_INTERVAL,
    CacheControl,
    CountingSettings,
    Details,
    Instances,
    MetricNames,
    NameBase,
    Page,
    PushPopScope,
    ReplayMode,
    RunMatch,
    RunMode,
    Source,
    Summary,
    Units,
)
from warpline.capture.flags.grammar import Flag, Given, Grammar, Set
from warpline.capture.flags.ncu import FOREIGN_FLAGS
from warpline.capture.flags.settings import TargetProcesses
from warpline.capture.session.agent_config import Clocks, FilterMode
from warpline.errors import UsageError

# Files with these endings are read, even if their name is all that is given.
REPORT_ENDINGS = (
    *(".ncu-rep", ".ncu-repz", ".csv", ".warpline"),
    *(".nsys-rep", ".qdrep", ".sqlite", ".json", ".json.gz"),
)


def _append(attribute: str) -> Set:
    """Return what adds a text to a list of the settings."""

    def append(settings: CountingSettings, flag: Given) -> None:
        if not flag.value:
            raise UsageError(f"{flag.name} requires a value", hint=flag.hint)
        setattr(settings, attribute, (*getattr(settings, attribute), flag.value))

    return append


def _overhead(settings: CountingSettings, flag: Given) -> None:
    try:
        percent = float(flag.value.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise flag.bad("a percentage from 0 (no limit) to 100")
    settings.overhead = percent


def _sampling_interval(settings: CountingSettings, flag: Given) -> None:
    if flag.value.lower() == "auto":
        settings.sampling_interval = DEFAULT_INTERVAL
    else:
        values.number(0, LONGEST_INTERVAL)(settings, flag)


def _clock_control(settings: CountingSettings, flag: Given) -> None:
    word = flag.value.lower()
    if word == "reset":
        raise UsageError(
            f"{flag.name} reset is not supported: CUPTI releases only the locks of its own process",
            hint="run sudo nvidia-smi --reset-gpu-clocks",
        )
    if word == "force-boost":
        raise UsageError(f"{flag.name} force-boost is not supported", hint="use boost or base")
    values.one_of(Clocks)(settings, flag)


def _refused(reason: str, hint: str | None = None) -> Set:
    def refuse(_: CountingSettings, flag: Given) -> None:
        raise UsageError(f"{flag.name} is not supported: {reason}", hint=hint)

    return refuse


def _only(*accepted: str, otherwise: str, hint: str | None = None) -> Set:
    """Return what accepts some values, which are how Warpline counts, and refuses others."""

    def check(_: CountingSettings, flag: Given) -> None:
        if flag.value.lower() not in accepted:
            raise UsageError(f"{flag.name} {flag.value} is not supported: {otherwise}", hint=hint)

    return check


def _name_of_output(settings: CountingSettings, flag: Given) -> None:
    if not flag.value:
        raise UsageError(f"{flag.name} requires a value", hint=flag.hint)
    # In ncu, %i is the lowest number that makes the name unique: %n in the names of recordings.
    settings.output = re.sub("%(.)", lambda at: "%n" if at[1] == "i" else at[0], flag.value)


def _import(settings: CountingSettings, flag: Given) -> None:
    if not flag.value:
        raise UsageError(f"{flag.name} requires a value", hint=flag.hint)
    settings.imported.append(flag.value)


def _format(settings: CountingSettings, flag: Given) -> None:
    word = flag.value.lower()
    if word not in {"text", "csv", "json"}:
        raise flag.bad("text, csv or json")
    settings.csv, settings.json = word == "csv", word == "json"


_WHAT, _WHICH, _HOW, _PRINT = "what to count", "which launches", "how to count", "output"

FLAGS = (
    Flag(("-h", "--help"), "", "show this help", values.nothing, is_switch=True),
    Flag(("--debug",), "", "show a traceback on errors", values.nothing, is_switch=True),
    Flag(("-i", "--import"), "REPORT", "print a report instead of running a program (repeatable)",
         _import),
    Flag(("--set",), "NAME", "set of metrics, such as light, basic or full; --list-sets lists them"
         " (default: light; repeatable)", _append("sets"), group=_WHAT),
    Flag(("--section",), "ID|regex:EXPRESSION", "section of metrics, or of the details page of a"
         " report; --list-sections lists them (repeatable)", _append("section"), group=_WHAT),
    Flag(("--metrics",), "NAME|regex:EXPRESSION[,...]", "metrics to count, or of a report to print;"
         " breakdown:NAME stands for the parts of a throughput (repeatable)", _append("metrics"),
         group=_WHAT),
    Flag(("--disable-extra-suffixes",), "BOOL", "count the metrics of sections without their other"
         " averages, maxima, minima and sums", values.boolean, is_switch=True, group=_WHAT),
    Flag(("--sample",), "N", "count N launches of each kernel and shape; 0 counts all (default:"
         f" {DEFAULT_SAMPLE} if neither metrics nor launches are chosen, otherwise 0)",
         launches.number, group=_WHAT),
    Flag(("--overhead",), "PERCENT", "share of the run time that counting may take; 0 is no limit"
         f" (default: {DEFAULT_OVERHEAD:g} if neither metrics nor launches are chosen, otherwise"
         " 0)", _overhead, group=_WHAT),
    Flag(("--source",), "", "sample program counters of the whole run in place of counters: samples"
         " and stall reasons per kernel, source line and instruction", values.boolean,
         is_switch=True, group=_WHAT),
    Flag(("--sampling-interval",), "N", "with --source: sample every 2^(5+N) cycles, N from 0 to"
         f" {LONGEST_INTERVAL} (default: {DEFAULT_INTERVAL}, as auto)", _sampling_interval,
         group=_WHAT),
    Flag(("--import-source",), "BOOL", "with --source: keep the source files with samples in the"
         " recording (default: yes)", values.boolean, group=_WHAT),
    Flag(("-k", "--kernel-name"), "NAME|regex:EXPRESSION", "launches of kernels with this name",
         launches.name, group=_WHICH),
    Flag(("--kernel-name-base",), "BASE", "name that -k and --kernel-id compare: function,"
         " demangled, mangled (default: function)", values.one_of(NameBase), group=_WHICH),
    Flag(("--kernel-id",), "CONTEXT:STREAM:NAME:INVOCATION", "these launches; empty parts match"
         " all, invocations count from 1 (repeatable)", launches.kernel_id, group=_WHICH),
    Flag(("-s", "--launch-skip"), "N", "skip the first N launches", launches.number, group=_WHICH),
    Flag(("-c", "--launch-count"), "N", "at most N launches", launches.number, group=_WHICH),
    Flag(("--launch-skip-before-match",), "N", "skip the first N launches, whatever their name",
         launches.number, group=_WHICH),
    Flag(("--profile-from-start",), "BOOL", "no: only between cudaProfilerStart and"
         " cudaProfilerStop", values.boolean, group=_WHICH),
    Flag(("--nvtx",), "", "record NVTX ranges, too", values.boolean, is_switch=True, group=_WHICH),
    Flag(("--nvtx-include",), "[DOMAIN@]RANGE", "launches in NVTX ranges: RANGE/ is a push/pop"
         " range of the thread, RANGE a start/end range, A/*/B one in another; regex:EXPRESSION"
         " (repeatable)", launches.nvtx_ranges, group=_WHICH),
    Flag(("--nvtx-exclude",), "[DOMAIN@]RANGE", "no launches in these NVTX ranges (repeatable)",
         launches.nvtx_ranges, group=_WHICH),
    Flag(("--nvtx-push-pop-scope",), "SCOPE", "process: push/pop ranges of all threads count, such"
         " as those around a backward pass; thread (default): those of the launching thread",
         values.one_of(PushPopScope), group=_WHICH),
    Flag(("--range-filter",), "[yes|no]:INSTANCES:NVTX_INSTANCES", "only these ranges of"
         " cudaProfilerStart, and these that --nvtx-include matches, counted from 1: 3, 2-5 or an"
         " expression; yes restarts the NVTX count at each cudaProfilerStart",
         launches.range_filter, group=_WHICH),
    Flag(("--steps",), "N", "count N consecutive steps per sample; with --every",
         values.number(1, (1 << 16) - 1), group=_WHICH),
    Flag(("--every",), "N", "start a sample every N steps", values.number(1, (1 << 16) - 1),
         group=_WHICH),
    Flag(("--duty",), "SHARE", "fraction of steps to count, such as 0.02", values.share,
         group=_WHICH),
    Flag(("--step-range",), "RANGE[@DOMAIN]", "NVTX range that starts a step; accepts * and ?",
         values.range_and_domain, group=_WHICH),
    Flag(("--devices",), "LIST", "GPUs to count on, such as 0,1 (default: all)", launches.devices,
         group=_WHICH),
    Flag(("--filter-mode",), "MODE", "per-gpu, per-launch-config: apply -s and -c to each GPU, or"
         " to each grid, block and shared memory size (default: global)", values.one_of(FilterMode),
         group=_WHICH),
    Flag(("--target-processes",), "WHICH", "all (default): child processes, too; application-only",
         values.one_of(TargetProcesses), group=_WHICH),
    Flag(("--target-processes-filter",), "LIST", "processes by the name of their executable: NAME,"
         " regex:EXPRESSION, exclude:NAME, exclude-tree:NAME; the first that matches decides",
         launches.processes, group=_WHICH),
    Flag(("--kill",), "BOOL", "yes: stop the program when the launches of -c are counted",
         values.boolean, group=_WHICH),
    Flag(("--replay-mode",), "MODE", "kernel (default): repeat each launch for each pass; steps:"
         " each step is a pass, so that nothing is repeated; application: run the program once for"
         " each pass; range: count the launches of an NVTX range or capture range as a whole, in"
         " one pass; app-range: the same, with a run for each pass",
         values.one_of(ReplayMode), group=_HOW),
    Flag(("--app-replay-match",), "WHAT", "launches of several runs are the same if these are"
         " equal, in their order: name, grid (default): name, grid and block; all: context and"
         " stream, too", values.one_of(RunMatch), group=_HOW),
    Flag(("--app-replay-mode",), "MODE", "strict: all launches must be in all runs; balanced"
         " (default): keep the launches that are in all runs; relaxed: keep all, also with metrics"
         " missing", values.one_of(RunMode), group=_HOW),
    Flag(("--check-exit-code",), "BOOL", "yes (default): --replay-mode application ends with the"
         " first run whose exit status is not 0", values.boolean, group=_HOW),
    Flag(("--cache-control",), "MODE", "all: flush the GPU's caches before each pass, with CUPTI"
         " 13.4 or later; none (default)", values.one_of(CacheControl), group=_HOW),
    Flag(("--clock-control",), "MODE", "base, boost: lock the GPU's clocks, for all programs on it,"
         " with CUPTI 13.4 or later; none (default)", _clock_control, group=_HOW),
    Flag(("--graph-profiling",), "MODE", "", _only("node", otherwise="CUDA graphs are not counted"),
         is_hidden=True),
    Flag(("-o", "--export"), "NAME", "keep the recording; supports the patterns of ncu (default:"
         " print it, and remove it)", _name_of_output, group=_PRINT),
    Flag(("-f", "--force-overwrite"), "BOOL", "overwrite an existing recording", values.boolean,
         is_switch=True, group=_PRINT),
    Flag(("--page",), "PAGE", "summary: one row per kernel and shape (default for the set light);"
         " details: sections and rules (default otherwise); raw: all metrics; source: metrics per"
         " instruction; session: program, machine and GPUs", values.one_of(Page), group=_PRINT),
    Flag(("--csv",), "", "print comma-separated values", values.boolean, is_switch=True,
         group=_PRINT),
    Flag(("--json",), "", "print metrics and findings as JSON, unscaled", values.boolean,
         is_switch=True, group=_PRINT),
    Flag(("--format",), "FORMAT", "text (default), csv or json", _format, group=_PRINT),
    Flag(("--print-units",), "UNITS", "auto: scale values to units that fit; base: as collected"
         " (default: auto)", values.one_of(Units), group=_PRINT),
    Flag(("--print-kernel-base",), "BASE", "name to print: function, demangled, mangled (default:"
         " demangled)", values.one_of(NameBase), group=_PRINT),
    Flag(("--print-metric-name",), "WHICH", "print metrics of the details page with their label or"
         " their name (default: label)", values.one_of(MetricNames), group=_PRINT),
    Flag(("--print-details",), "WHAT", "what the page details shows of a section: header, its"
         " metrics; body, its charts and tables; all. With body and all, JSON has `sections`"
         " (default: header)", values.one_of(Details), group=_PRINT),
    Flag(("--print-source",), "WHAT", "what the page source lists: hot, the lines with most"
         " samples; sass, all instructions; cuda, all lines; cuda,sass, lines with their"
         " instructions; ptx (default: hot)", values.one_of(Source), group=_PRINT),
    Flag(("--print-metric-instances",), "WHAT", "print the values of instances after that of their"
         " metric, such as those of instructions: none, values, or details, with what each belongs"
         " to (default: none)", values.one_of(Instances), group=_PRINT),
    Flag(("--print-summary",), "BY", "per-gpu, per-kernel or per-nvtx: print minimum, maximum and"
         " mean of the launches (default: none)", values.one_of(Summary), group=_PRINT),
    Flag(("--timeline",), "RECORDING", "recording of the same program with times, such as of"
         " warpline profile: findings also say what they save of a step (repeatable, for ranks)",
         _append("timeline"), group=_PRINT),
    Flag(("--ceilings",), "FILE|nominal", "results of warpline bench -o: measured ceilings of"
         " rooflines and findings (default: those of warpline bench --save, of the same GPU model);"
         " nominal: without (repeatable)", _append("ceilings"), group=_PRINT),
    Flag(("--log-file",), "FILE", "print the page to a file; stdout and stderr are the standard"
         " streams", values.text, group=_PRINT),
    Flag(("-q", "--quiet"), "", "print only data and errors", values.boolean, is_switch=True,
         group=_PRINT),
)  # fmt: skip

# Flags that belong to the part ``plan``: they list something and run nothing.
LISTS = ("--query-metrics", "--list-metrics", "--list-sets", "--list-sections", "--list-chips")
_OF_PLAN = tuple(
    Flag((name,), "" if name in LISTS else "VALUE", "", values.nothing, is_hidden=True)
    for name in (*LISTS, "--query-metrics-mode", "--query-metrics-collection", "--chip", "--chips")
)
GRAMMAR = Grammar("warpline kernels", (*FLAGS, *_OF_PLAN), FOREIGN_FLAGS)


def parse(words: Sequence[str]) -> CountingSettings:
    """Return the settings that the command line makes.

    Reports are read if one is imported or the first word is the name of one; options may then
    follow them. All other words are a program and its arguments.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, or two flags conflict.
    """
    settings = CountingSettings()
    rest = GRAMMAR.read(words, settings)
    while rest and rest[0] != "--" and (settings.imported or is_report(rest[0])):
        settings.imported.append(rest[0])
        rest = GRAMMAR.read(rest[1:], settings)
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if settings.imported:
        settings.imported += rest
        check_report(settings)
    else:
        settings.command = tuple(rest)
        check(settings)
    return settings


def is_report(word: str) -> bool:
    """Return whether a word names a report or a recording, by its ending."""
    return Path(word).name.lower().endswith(REPORT_ENDINGS)


def lists_something(words: Sequence[str]) -> bool:
    """Return whether a flag before the program lists metrics, sets, sections or chips."""
    return not set(LISTS).isdisjoint(GRAMMAR.own_names(words))
