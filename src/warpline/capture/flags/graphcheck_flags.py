"""The flags of ``warpline graphcheck``: those of ``warpline profile``, and its own.

The same command checks recordings: a program is run unless the first word is an existing file that
no ``--`` precedes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpline.capture.flags import declarations, parsing, values
from warpline.capture.flags.call_chains import parse_python_chains
from warpline.capture.flags.grammar import Flag, Given, Grammar
from warpline.capture.flags.nsys import FOREIGN_FLAGS
from warpline.capture.flags.pytorch import OF_ALL
from warpline.capture.flags.settings import CaptureSettings
from warpline.errors import UsageError

FORMATS = ("text", "markdown", "json")
_CHECK = "check"
# Endings of recordings: a file with one of these is read, any other is a program.
_RECORDINGS = (
    *(".warpline", ".nsys-rep", ".qdrep", ".sqlite", ".json", ".json.gz", ".pt.trace.json"),
)
_NOT_HERE = frozenset(("stats", "export", "no_summary", "keep_last", "when"))


@dataclass
class GraphCheckSettings(CaptureSettings):
    """The settings of ``warpline graphcheck``.

    Attributes:
        steps_from: Name of the ranges that are steps; None detects steps.
        format: One of `FORMATS`.
        recordings: Recordings to check, instead of a program.
    """

    steps_from: str | None = None
    format: str = FORMATS[0]
    recordings: tuple[str, ...] = ()


def _format(settings: GraphCheckSettings, flag: Given) -> None:
    if flag.value not in FORMATS:
        raise flag.bad(f"one of {', '.join(FORMATS)}")
    settings.format = flag.value


_OWN = (
    Flag(("--steps-from",), "NAME", "ranges that are steps; accepts *, such as 'epoch_*';"
         " 'launches' takes repeating launches (default: detected)", values.text, group=_CHECK),
    Flag(("--format",), "FORMAT", f"{', '.join(FORMATS)} (default: text)", _format, group=_CHECK),
)  # fmt: skip
_HELP = {
    "output": "keep the recording under this name (default: it is removed)",
    "pytorch": "as for warpline profile (default: all)",
    "python_backtrace": "as for warpline profile (default: cuda)",
}
FLAGS = (
    *(
        replace(flag, help=_HELP.get(flag.attribute, flag.help))
        for flag in declarations.FLAGS
        if flag.attribute not in _NOT_HERE
    ),
    *_OWN,
)
GRAMMAR = Grammar("warpline graphcheck", FLAGS, FOREIGN_FLAGS)


def parse(words: Sequence[str]) -> GraphCheckSettings:
    """Return the settings that the command line makes.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, two flags conflict, or
            neither a program nor a recording is named.
    """
    settings = GraphCheckSettings()
    rest = GRAMMAR.read(words, settings)
    if rest and rest[0] != "--" and rest[0].endswith(_RECORDINGS) and Path(rest[0]).exists():
        settings.recordings = _recordings(settings, rest)
        return settings
    settings.command = tuple(rest[1:] if rest[:1] == ["--"] else rest)
    if not settings.command:
        raise UsageError(
            "missing PROGRAM or RECORDING argument",
            hint="run warpline graphcheck -- python train.py",
        )
    parsing.check(settings)
    _set_defaults(settings)
    return settings


def _recordings(settings: GraphCheckSettings, words: Sequence[str]) -> tuple[str, ...]:
    """Return the recordings that the words name; flags may follow them."""
    named, rest = list[str](), list(words)
    while rest:
        if rest[0].startswith("-"):
            rest = GRAMMAR.read(rest, settings)
        else:
            named.append(rest.pop(0))
    return tuple(named)


def _set_defaults(settings: GraphCheckSettings) -> None:
    """Record what the check needs, unless a flag says otherwise."""
    if "python_backtrace" not in settings.given:
        settings.python_backtrace = parse_python_chains("cuda")
        settings.given.add("python_backtrace")
    if "pytorch" not in settings.given:
        settings.pytorch = OF_ALL
    settings.no_summary = True
