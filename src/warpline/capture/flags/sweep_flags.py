"""The flags of all sweeps: which points are run, and what is printed of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from warpline.capture.flags import values
from warpline.capture.flags.grammar import Flag, Given, Grammar
from warpline.errors import UsageError
from warpline.sweep.axes import axis
from warpline.sweep.points import Parameter, check_places, parameter, points
from warpline.sweep.state import Definition

FORMATS = ("text", "csv", "json", "markdown")
PLOT_ENDINGS = (".html", ".svg")
POINTS, PRINT = "points", "output"  # headings of the help
_MOST_SECONDS = 7 * 24 * 3600.0
_MOST_REPEATS = 1000
# What a sweep that is resumed without its command takes from the command line.
_OF_THIS_TIME = (
    *("output", "force_overwrite", "time_limit", "resume", "retry_failed", "skip_oom"),
    *("find_border", "format", "plot", "quiet"),
)


@dataclass
class SweepOptions:
    """What all sweeps have in common.

    Attributes:
        vary: Parameters, as they were given.
        zip: Whether all parameters vary together.
        repeat: Runs of each point.
        time_limit: Seconds after which a run is ended; None for no limit.
        resume: Whether to make the runs that are missing in the directory `output`.
        retry_failed: Whether points that failed are run again then.
        skip_oom: Whether points that are predicted to run out of GPU memory are not run.
        find_border: Whether to add points until it is known where GPU memory runs out.
        format: One of `FORMATS`.
        plot: File for the plot; None for none.
        shown: Directory of a sweep to show without running anything; None to run.
        recording_words: The flags that say what is recorded, as they were given.
    """

    vary: tuple[Parameter, ...] = ()
    zip: bool = False
    repeat: int = 1
    time_limit: float | None = None
    resume: bool = False
    retry_failed: bool = False
    skip_oom: bool = False
    find_border: bool = False
    format: str = "text"
    plot: str | None = None
    shown: str | None = None
    recording_words: tuple[str, ...] = ()


Settings = TypeVar("Settings", bound=Any)  # SweepOptions, with those of what is recorded


def _vary(settings: SweepOptions, flag: Given) -> None:
    settings.vary = (*settings.vary, parameter(flag.value))


def _seconds(settings: SweepOptions, flag: Given) -> None:
    try:
        seconds = float(flag.value.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise flag.bad("a number of seconds, above 0")
    settings.time_limit = seconds


def _format(settings: SweepOptions, flag: Given) -> None:
    name = flag.value.lower() if flag.attribute == "format" else flag.attribute
    if name not in FORMATS:
        raise flag.bad(f"one of {', '.join(FORMATS)}")
    settings.format = name


def _plot(settings: SweepOptions, flag: Given) -> None:
    if not flag.value.lower().endswith(PLOT_ENDINGS):
        raise flag.bad("a file name that ends in .html or .svg")
    settings.plot = flag.value


FLAGS = (
    Flag(("--vary",), "NAME=VALUES", "values of {NAME} in the command: N=256,512,1024,"
         " N=256:4096:x2 (times 2 up to 4096), N=32:256:+32, or N=1,2,4,... (goes on until a run"
         " fails); repeatable, all combinations are run", _vary, group=POINTS),
    Flag(("--zip",), "", "vary all parameters together: the first value of each, then the second",
         values.boolean, is_switch=True, group=POINTS),
    Flag(("--repeat",), "N", "run each point N times (default: 1)",
         values.number(1, _MOST_REPEATS), group=POINTS),
    Flag(("--time-limit",), "SECONDS", "end a run that takes longer; it counts as a failure"
         " (default: no limit)", _seconds, group=POINTS),
    Flag(("--resume",), "", "go on with the sweep in the directory of -o: runs that are missing",
         values.boolean, is_switch=True, group=POINTS),
    Flag(("--retry-failed",), "", "with --resume: run points that failed again, too",
         values.boolean, is_switch=True, group=POINTS),
    Flag(("-o", "--output"), "DIR", "directory for the recordings, the program's output and the"
         " state of the sweep (default: a temporary one)", values.text, group=PRINT),
    Flag(("--plot",), "FILE", "also write a plot: .html (with the table) or .svg", _plot,
         group=PRINT),
    Flag(("--csv",), "", "as --format csv", _format, group=PRINT),
    Flag(("--json",), "", "as --format json", _format, group=PRINT),
    Flag(("--format",), "FORMAT", f"{', '.join(FORMATS)} (default: text)", _format, group=PRINT),
)  # fmt: skip


def joined(
    own: Iterable[Flag], recording: Iterable[Flag], helps: Mapping[str, str]
) -> tuple[Flag, ...]:
    """Return the flags of a sweep in the order of its help.

    Args:
        own: Flags that only this kind of sweep has.
        recording: Flags that say what is recorded.
        helps: Help texts of these that differ here, by attribute.
    """
    shared = [replace(flag, help=helps.get(flag.attribute, flag.help)) for flag in recording]
    mine = [*FLAGS, *own]
    return (
        *(flag for flag in shared if not flag.group),
        *(flag for flag in mine if flag.group == POINTS),
        *(flag for flag in shared if flag.group),
        *(flag for flag in mine if flag.group != POINTS),
    )


def read(
    words: Sequence[str],
    settings: Settings,
    grammar: Grammar,
    recording: Collection[str],
    check: Callable[[Settings], None],
) -> Settings:
    """Set what the command line says, and check it.

    Args:
        words: The command line.
        settings: The settings, as they are by default.
        grammar: The flags.
        recording: Attributes of those that say what is recorded.
        check: Checks these, when all are set.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, two flags conflict, or the
            command does not have the parameters that are varied.
    """
    rest = grammar.read(words, settings)
    settings.recording_words = _words_of(words, grammar, recording)
    if rest and not settings.vary and not settings.resume and Path(rest[0]).is_dir():
        settings.shown = rest[0]
        rest = grammar.read(rest[1:], settings)
        if rest:
            raise UsageError(f"unexpected argument {rest[0]!r}", hint=grammar.hint)
        return settings
    if rest[:1] == ["--"]:
        rest = rest[1:]
    settings.command = tuple(rest)
    if settings.resume and settings.output is None:
        raise UsageError("--resume requires -o DIR, the directory of the sweep", hint=grammar.hint)
    if settings.retry_failed and not settings.resume:
        raise UsageError("--retry-failed requires --resume", hint=grammar.hint)
    if settings.resume and not settings.command and not settings.vary:
        return settings
    if not settings.vary or not settings.command:
        missing = "--vary NAME=VALUES" if not settings.vary else "PROGRAM argument"
        use = f"{grammar.command} --vary N=256,512,1024 -- ./program {{N}}"
        raise UsageError(f"missing {missing}", hint=f"run {use}")
    check(settings)
    points(settings.vary, are_zipped=settings.zip)
    check_places(settings.command, [item.name for item in settings.vary])
    return settings


def resumed(
    settings: Settings, stored: Definition, grammar: Grammar, also: Sequence[str] = ()
) -> Settings:
    """Return the settings of a sweep that is resumed without its command line.

    Args:
        settings: What the command line says: time limit and output.
        stored: What the sweep was.
        grammar: The flags.
        also: Further attributes that are taken from the command line.

    Raises:
        UsageError: The stored flags are not those of this version.
    """
    found: Settings = type(settings)()
    grammar.read(stored.options, found)
    found.recording_words = stored.options
    found.command, found.vary = stored.command, stored.parameters
    found.zip, found.repeat = stored.are_zipped, stored.repeats
    for name in (*_OF_THIS_TIME, *also):
        setattr(found, name, getattr(settings, name))
    return found


def definition_of(settings: Settings, kind: str) -> Definition:
    """Return what is run."""
    words = settings.recording_words
    return Definition(kind, settings.command, settings.vary, settings.zip, settings.repeat, words)


def check_border(settings: SweepOptions) -> None:
    """Reject --find-border where no parameter can have other values.

    Raises:
        UsageError: There is none.
    """
    along = axis(Definition("", (), settings.vary))
    if settings.find_border and (settings.zip or along is None):
        why = "--zip" if settings.zip else "values that are no numbers"
        raise UsageError(f"--find-border cannot be used with {why}", hint="vary a number")


def _words_of(
    words: Sequence[str], grammar: Grammar, recording: Collection[str]
) -> tuple[str, ...]:
    """Return the flags before the program that say what is recorded, with their values."""
    found: list[str] = []
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        word = words[place]
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        count = 1 + grammar.takes_next(words, place)
        flag = grammar.find(name)
        if isinstance(flag, Flag) and flag.attribute in recording:
            found += words[place : place + count]
        place += count
    return tuple(found)
