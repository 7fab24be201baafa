"""The flags of ``warpline kernels sweep``: those that say what to count, and its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpline.capture.flags import counter_flags, values
from warpline.capture.flags.counter_checks import check
from warpline.capture.flags.counting import CountingSettings
from warpline.capture.flags.grammar import Flag, Given, Grammar
from warpline.capture.flags.ncu import FOREIGN_FLAGS
from warpline.capture.flags.nvtx_ranges import REGEX
from warpline.counters.names import DURATION
from warpline.errors import UsageError
from warpline.sweep.points import Parameter, check_places, parameter, points
from warpline.sweep.state import Definition

KIND = "kernels"
FORMATS = ("text", "csv", "json", "markdown")
DEFAULT_SAMPLE = 20
SAMPLE_OF_PASSES = 3  # repeating a launch takes long
PLOT_ENDINGS = (".html", ".svg")
_MOST_SECONDS = 7 * 24 * 3600.0
_MOST_REPEATS = 1000
_USE = "warpline kernels sweep --vary N=256,512,1024 -- ./program {N}"
# Flags of `warpline kernels` that say what is counted: a sweep that is resumed has the same ones.
_COUNTING = frozenset(
    {
        *("set", "section", "metrics", "disable_extra_suffixes", "sample", "kernel_name"),
        *("kernel_name_base", "kernel_id", "launch_skip", "launch_count"),
        *("launch_skip_before_match", "profile_from_start", "nvtx_include", "nvtx_exclude"),
        *("nvtx_push_pop_scope", "range_filter", "devices", "filter_mode", "target_processes"),
        *("target_processes_filter", "cache_control", "clock_control", "check_exit_code"),
    }
)
_OTHERS = frozenset({"help", "debug", "force_overwrite", "quiet"})


@dataclass
class SweepSettings(CountingSettings):
    """The settings of ``warpline kernels sweep``.

    Attributes:
        vary: Parameters, as they were given.
        zip: Whether all parameters vary together.
        repeat: Runs of each point.
        time_limit: Seconds after which a run is ended; None for no limit.
        resume: Whether to make the runs that are missing in the directory `output`.
        retry_failed: Whether points that failed are run again then.
        top: Kernels and shapes to show of each point, those with the most time first; 0 shows all.
        format: One of `FORMATS`.
        plot: File for the plot; None for none.
        shown: Directory of a sweep to show without running anything; None to run.
        counting_words: The flags that say what is counted, as they were given.
    """

    vary: tuple[Parameter, ...] = ()
    zip: bool = False
    repeat: int = 1
    time_limit: float | None = None
    resume: bool = False
    retry_failed: bool = False
    top: int = 1
    format: str = "text"
    plot: str | None = None
    shown: str | None = None
    counting_words: tuple[str, ...] = ()

    @property
    def definition(self) -> Definition:
        """What is run."""
        words = self.counting_words
        return Definition(KIND, self.command, self.vary, self.zip, self.repeat, words)


def _vary(settings: SweepSettings, flag: Given) -> None:
    settings.vary = (*settings.vary, parameter(flag.value))


def _seconds(settings: SweepSettings, flag: Given) -> None:
    try:
        seconds = float(flag.value.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise flag.bad("a number of seconds, above 0")
    settings.time_limit = seconds


def _format(settings: SweepSettings, flag: Given) -> None:
    name = flag.value.lower() if flag.attribute == "format" else flag.attribute
    if name not in FORMATS:
        raise flag.bad(f"one of {', '.join(FORMATS)}")
    settings.format = name


def _plot(settings: SweepSettings, flag: Given) -> None:
    if not flag.value.lower().endswith(PLOT_ENDINGS):
        raise flag.bad("a file name that ends in .html or .svg")
    settings.plot = flag.value


_SWEEP, _PRINT = "points", "output"
_OWN = (
    Flag(("--vary",), "NAME=VALUES", "values of {NAME} in the command: N=256,512,1024,"
         " N=256:4096:x2 (times 2 up to 4096) or N=32:256:+32 (repeatable; all combinations are"
         " run)", _vary, group=_SWEEP),
    Flag(("--zip",), "", "vary all parameters together: the first value of each, then the second",
         values.boolean, is_switch=True, group=_SWEEP),
    Flag(("--repeat",), "N", "run each point N times (default: 1)",
         values.number(1, _MOST_REPEATS), group=_SWEEP),
    Flag(("--time-limit",), "SECONDS", "end a run that takes longer; it counts as a failure"
         " (default: no limit)", _seconds, group=_SWEEP),
    Flag(("--resume",), "", "go on with the sweep in the directory of -o: runs that are missing",
         values.boolean, is_switch=True, group=_SWEEP),
    Flag(("--retry-failed",), "", "with --resume: run points that failed again, too",
         values.boolean, is_switch=True, group=_SWEEP),
    Flag(("-o", "--output"), "DIR", "directory for the recordings, the program's output and the"
         " state of the sweep (default: a temporary one)", values.text, group=_PRINT),
    Flag(("--top",), "N", "kernels and shapes to show of each point, those with the most counted"
         " time first; 0 shows all (default: 1)", values.number(0, 1_000_000), group=_PRINT),
    Flag(("--plot",), "FILE", "also write a plot: .html (with the table) or .svg", _plot,
         group=_PRINT),
    Flag(("--csv",), "", "as --format csv", _format, group=_PRINT),
    Flag(("--json",), "", "as --format json", _format, group=_PRINT),
    Flag(("--format",), "FORMAT", f"{', '.join(FORMATS)} (default: text)", _format, group=_PRINT),
)  # fmt: skip
_HELP = {
    "set": "set of metrics, such as basic or full; warpline kernels --list-sets lists them"
    " (default: light, and flop in a second run of the program; repeatable)",
    "section": "section of metrics; warpline kernels --list-sections lists them (repeatable)",
    "metrics": "metrics to count; breakdown:NAME stands for the parts of a throughput (repeatable)",
    "sample": f"count the first N launches of each kernel and shape; 0 counts all (default:"
    f" {DEFAULT_SAMPLE}, or {SAMPLE_OF_PASSES} if launches are repeated for several passes)",
    "check_exit_code": "no: a run whose exit status is not 0 is no failure (default: yes)",
    "force_overwrite": "overwrite an existing sweep, and plot",
}
_SHARED = [
    replace(flag, help=_HELP.get(flag.attribute, flag.help))
    for flag in counter_flags.FLAGS
    if flag.attribute in _COUNTING | _OTHERS
]
FLAGS = (
    *(flag for flag in _SHARED if not flag.group),
    *(flag for flag in _OWN if flag.group == _SWEEP),
    *(flag for flag in _SHARED if flag.group),
    *(flag for flag in _OWN if flag.group != _SWEEP),
)
GRAMMAR = Grammar("warpline kernels sweep", FLAGS, FOREIGN_FLAGS)


def parse(words: Sequence[str]) -> SweepSettings:
    """Return the settings that the command line makes.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, two flags conflict, or the
            command does not have the parameters that are varied.
    """
    settings = SweepSettings()
    rest = GRAMMAR.read(words, settings)
    settings.counting_words = _counting_words(words)
    if rest and not settings.vary and not settings.resume and Path(rest[0]).is_dir():
        settings.shown = rest[0]
        rest = GRAMMAR.read(rest[1:], settings)
        if rest:
            raise UsageError(f"unexpected argument {rest[0]!r}", hint=_hint())
        return settings
    if rest[:1] == ["--"]:
        rest = rest[1:]
    settings.command = tuple(rest)
    if settings.resume and settings.output is None:
        raise UsageError("--resume requires -o DIR, the directory of the sweep", hint=_hint())
    if settings.retry_failed and not settings.resume:
        raise UsageError("--retry-failed requires --resume", hint=_hint())
    if settings.resume and not settings.command and not settings.vary:
        return settings
    if not settings.vary or not settings.command:
        missing = "--vary NAME=VALUES" if not settings.vary else "PROGRAM argument"
        raise UsageError(f"missing {missing}", hint=f"run {_USE}")
    check(settings)
    points(settings.vary, are_zipped=settings.zip)
    check_places(settings.command, [item.name for item in settings.vary])
    return settings


def resumed(settings: SweepSettings, stored: Definition) -> SweepSettings:
    """Return the settings of a sweep that is resumed without its command line.

    Args:
        settings: What the command line says: time limit and output.
        stored: What the sweep was.

    Raises:
        UsageError: The stored flags are not those of this version.
    """
    found = SweepSettings()
    GRAMMAR.read(stored.options, found)
    found.counting_words = stored.options
    found.command, found.vary = stored.command, stored.parameters
    found.zip, found.repeat = stored.are_zipped, stored.repeats
    for name in (
        "output",
        "time_limit",
        "resume",
        "retry_failed",
        "top",
        "format",
        "plot",
        "quiet",
    ):
        setattr(found, name, getattr(settings, name))
    found.force_overwrite = settings.force_overwrite
    return found


def asked_metrics(definition: Definition) -> Callable[[str], bool]:
    """Return whether a metric is one that ``--metrics`` of a sweep asked for."""
    settings = SweepSettings()
    GRAMMAR.read(definition.options, settings)
    words = settings.request.metrics
    if words and not settings.sets and not settings.section:
        return lambda name: name != DURATION or name in words  # time is always counted
    patterns = [re.compile(word.removeprefix(REGEX)) for word in words if word.startswith(REGEX)]
    return lambda name: (
        any(name == word or name.startswith(f"{word}.") for word in words)
        or any(pattern.search(name) for pattern in patterns)
    )


def _counting_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the flags before the program that say what is counted, with their values."""
    found: list[str] = []
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        word = words[place]
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        count = 1 + GRAMMAR.takes_next(words, place)
        flag = GRAMMAR.find(name)
        if isinstance(flag, Flag) and flag.attribute in _COUNTING:
            found += words[place : place + count]
        place += count
    return tuple(found)


def _hint() -> str:
    return f"see {GRAMMAR.command} --help"
