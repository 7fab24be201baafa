"""Command lines of nsys and ncu as those of Warpline, with what differs.

The grammars of Warpline's own commands read the lines, so what comes out is what these accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from warpline.capture.flags import capabilities, counter_flags, parsing, sessions
from warpline.capture.flags.counting import CountingSettings
from warpline.capture.flags.declarations import GRAMMAR
from warpline.capture.flags.grammar import Flag, ForeignFlag, Grammar
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.flags.shell_words import Word
from warpline.capture.session.names import ENDING, FOREIGN_ENDINGS
from warpline.errors import UsageError

_NOT_NEEDED = "not needed: it is the default"
_TURNED_OFF = "it turns off what Warpline does not do"


@dataclass
class Translation:
    """A line, translated.

    Attributes:
        lines: Warpline's command lines; several if one does not do.
        left_out: Flags that are not in them, each with the reason.
        differs: Sentences on what these lines do otherwise than the original.
    """

    lines: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Kind:
    """A command whose flags are read by a grammar.

    Attributes:
        command: Warpline's command.
        grammar: Its flags.
        settings: Makes settings to read single flags into.
        check: Reads the translated words; UsageError if they do not fit together.
    """

    command: str
    grammar: Grammar
    settings: Callable[[], Any]
    check: Callable[[Sequence[str]], Any]


PROFILE = Kind("profile", GRAMMAR, CaptureSettings, parsing.parse)
LAUNCH = Kind("launch", sessions.LAUNCH, sessions.SessionSettings, sessions.parse_launch)
START = Kind("start", sessions.START, sessions.SessionSettings, sessions.parse_start)
KERNELS = Kind("kernels", counter_flags.GRAMMAR, CountingSettings, counter_flags.parse)


def of_flags(kind: Kind, words: Sequence[Word], prefix: Sequence[Word]) -> Translation:
    """Translate flags and what follows them.

    Args:
        kind: The command.
        words: What follows the command of the other profiler.
        prefix: What precedes its name, such as ``mpirun -n 4``.

    Raises:
        UsageError: A flag is unknown, or the line cannot be translated.
    """
    found = Translation()
    kept: list[list[Word]] = []
    unchecked: list[list[Word]] = []
    given: set[str] = set()
    rest = list(words)
    while rest and rest[0].value.startswith("-") and rest[0].value not in {"-", "--"}:
        piece, flag, rest = _next(kind.grammar, rest)
        if isinstance(flag, Flag):
            given.add(flag.attribute)
        fitting = _fitting(kind, piece, flag, found, unchecked)
        if fitting is not None:
            kept.append(fitting)
    program = [word.raw for word in rest]
    flags = [word.raw for piece in kept for word in piece]
    checked = [word.value for piece in kept if piece not in unchecked for word in piece]
    settings = kind.check([*checked, *(word.value for word in rest)])
    for warning in getattr(settings, "warnings", ()):
        found.differs.append(f"{warning[0].upper()}{warning[1:]}.")
    found.differs += _differences(kind, given, settings)
    before = [word.raw for word in prefix]
    found.lines = [" ".join([*before, "warpline", kind.command, *flags, *program])]
    return found


def _next(grammar: Grammar, words: list[Word]) -> tuple[list[Word], Flag | ForeignFlag, list[Word]]:
    """Return the first flag with its words, and what follows."""
    first = words[0].value
    name = first.partition("=")[0] if first.startswith("--") else first[:2]
    flag = grammar.find(name)
    if flag is None:
        raise grammar.unknown(name)
    values = [word.value for word in words]
    has_value = "=" in first if first.startswith("--") else len(first) > 2
    count = 1 if has_value else 1 + grammar.takes_next(values, 0)
    if count > len(words):
        raise UsageError(f"{name} requires a value", hint=grammar.hint)
    return words[:count], flag, words[count:]


def _fitting(
    kind: Kind,
    piece: list[Word],
    flag: Flag | ForeignFlag,
    found: Translation,
    unchecked: list[list[Word]],
) -> list[Word] | None:
    """Return the words to keep of a flag; None if it is left out, which is noted."""
    shown = " ".join(word.raw for word in piece)
    if isinstance(flag, ForeignFlag):
        value = piece[-1].value.partition("=")[2] if len(piece) == 1 else piece[-1].value
        is_off = flag.is_idle(value) and not (flag.is_switch or value == "")
        found.left_out.append((shown, _TURNED_OFF if is_off else flag.reason))
        return None
    settings = kind.settings()
    values = [word.value for word in piece]
    try:
        kind.grammar.read(values, settings)
    except UsageError as error:
        if _is_computed(piece):
            unchecked.append(piece)
            found.differs.append(f"{shown} was not checked: the shell computes it.")
            return piece
        is_useful = error.hint is not None and "--help" not in error.hint
        said = error.message.removeprefix(f"{' '.join(values)}: ")
        found.left_out.append((shown, f"{said}; {error.hint}" if is_useful else said))
        return None
    return _as_read(kind, piece, flag, settings, found)


def _as_read(
    kind: Kind, piece: list[Word], flag: Flag, settings: Any, found: Translation
) -> list[Word] | None:
    """Return the words to keep of a flag, given the settings that it makes."""
    if flag.attribute == "trace":
        return _traced(piece, settings, found)
    if _is_default(kind, flag, settings):
        found.left_out.append((" ".join(word.raw for word in piece), _NOT_NEEDED))
        return None
    for warning in getattr(settings, "warnings", ()):
        return _replaced(piece, flag, settings, warning, found)
    return piece


def _is_default(kind: Kind, flag: Flag, settings: Any) -> bool:
    """Return whether a flag sets what holds without it."""
    if kind is KERNELS or settings.warnings:  # there, defaults depend on which flags are given
        return False
    nothing = object()
    taken = getattr(settings, flag.attribute, nothing)
    return taken is not nothing and bool(taken == getattr(kind.settings(), flag.attribute))


def _replaced(
    piece: list[Word], flag: Flag, settings: CaptureSettings, warning: str, found: Translation
) -> list[Word] | None:
    """Return the flag with the value that takes the place of one that is not supported."""
    shown = " ".join(word.raw for word in piece)
    taken = getattr(settings, flag.attribute)
    value = taken if isinstance(taken, str) else ",".join(taken)
    reason = warning.partition(" is ")[2]  # which begins with the flag and its value
    found.left_out.append((shown, reason))
    name = piece[0].value.partition("=")[0] if len(piece) == 1 else piece[0].value
    name = name if name.startswith("--") else name[:2]
    return [Word(name, name), Word(str(value), str(value))] if value else None


def _traced(piece: list[Word], settings: CaptureSettings, found: Translation) -> list[Word]:
    """Return the flag -t with only what can be recorded."""
    lacking = capabilities.lacking(settings.trace)
    if not lacking:
        return piece
    names = ",".join(capabilities.collected(settings.trace)) or capabilities.NOTHING
    found.left_out.append((f"-t {','.join(lacking)}", "not recorded by Warpline"))
    return [Word("-t", "-t"), Word(names, names)]


def _is_computed(piece: Sequence[Word]) -> bool:
    return any(word.is_computed for word in piece)


def _differences(kind: Kind, given: set[str], settings: Any) -> Iterator[str]:
    """Yield what Warpline does otherwise if flags are not given, and otherwise in any case."""
    if kind is KERNELS:
        yield from _of_ncu(given, settings)
        return
    if kind in {PROFILE, LAUNCH} and "trace" not in given:
        names = ",".join((*capabilities.DEFAULT, capabilities.OS_CALLS))
        yield f"nsys also traces osrt and opengl by default. For C library calls: -t {names}."
    if kind in {PROFILE, LAUNCH} and "sample" not in given:
        yield "nsys samples CPUs by default, Warpline on request: -s process-tree."
    if kind is not START and "cuda_graph_trace" not in given:
        yield "CUDA graphs are recorded node by node. nsys's default: --cuda-graph-trace=graph."
    if kind in {PROFILE, START}:
        yield _named(settings.output)


def _named(output: str | None) -> str:
    if output is None:
        return f"The recording is report1{ENDING}, or the next free number."
    name = PurePosixPath(output).name
    ending = next((end for end in FOREIGN_ENDINGS if name.endswith(end)), "")
    return f"The recording is {name.removesuffix(ending).removesuffix(ENDING)}{ENDING}."


def _of_ncu(given: set[str], settings: CountingSettings) -> Iterator[str]:
    if settings.imported:
        return
    if given.isdisjoint({"set", "section", "metrics"}):
        yield "ncu's default is the set basic, Warpline's the set light, in one pass: --set basic."
        chosen = {"launch_skip", "launch_count", "kernel_name", "kernel_id", "sample", "overhead"}
        if given.isdisjoint(chosen):
            yield (
                "Some launches of each kernel are counted, in at most 5% of the run time."
                " ncu counts all: --sample 0 --overhead 0."
            )
    if "cache_control" not in given:
        yield "Caches are not flushed; ncu does by default: --cache-control all (CUPTI 13.4)."
    if "clock_control" not in given:
        yield "Clocks are not locked; ncu does by default: --clock-control base (CUPTI 13.4)."
    for name in settings.ignored:
        yield f"{name} has no effect here."
    if settings.output is not None:
        yield f"{_named(settings.output)} warpline kernels prints it, warpline view opens it."
