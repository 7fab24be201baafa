"""Arguments that several commands share, and the trace that they ask for."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli.startup import load_api
from warpline.errors import UsageError

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from warpline.trace import Trace

_FILTERS = ("filter_time", "filter_nvtx", "exclude", "process", "device", "stream")


def add_recordings(parser: ArgumentParser) -> None:
    """Declare the recordings to read."""
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help="a recording; several, such as one per rank, are read as one",
    )
    parser.usage = f"{parser.prog} RECORDING... [OPTIONS]"


def add_steps(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Declare the option that names the steps."""
    parser.add_argument(
        "--steps",
        metavar="NAME",
        help="the ranges that are steps, with * for any text, such as 'epoch_*'; without it they"
        " are found",
    )


def add_filters(parser: ArgumentParser) -> None:
    """Declare the options that choose a part of the recording."""
    group = parser.add_argument_group("choose a part")
    group.add_argument(
        "--filter-time",
        metavar="START/END",
        help="what overlaps this time; such as 1.5s/2s, 200ms/ or /3000 (ns)",
    )
    group.add_argument(
        "--filter-nvtx",
        metavar="RANGE[@DOMAIN][/INDEX]",
        help="what overlaps this instance of a range, the first one without an index; takes"
        " precedence over --filter-time",
    )
    group.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="RANGE[@DOMAIN]",
        help="without what was done in any instance of this range, such as warm-up, and the"
        " device work launched from it; may be repeated",
    )
    for name, metavar, text in (
        ("process", "PID|NAME", "of these processes"),
        ("device", "INDEX|UUID", "of these devices; the beginning of a UUID is enough"),
        ("stream", "ID", "of these streams, by CUDA's ids"),
    ):
        group.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=metavar,
            help=f"{text}; several with commas",
        )


def open_trace(args: Namespace) -> Trace:
    """Open the recordings and choose the part that the arguments ask for."""
    if not args.recordings:
        raise UsageError("no recording is named", hint=f"warpline {args.command} RECORDING")
    api = load_api()
    from warpline.trace.selection import select  # noqa: PLC0415 - start-up: brings numpy

    for word in args.recordings:
        if not Path(word).exists():
            _refuse_table(word)
    return select(api.open(*args.recordings), **{name: getattr(args, name) for name in _FILTERS})


def _refuse_table(word: str) -> None:
    """Raise a UsageError if a word that should name a file names a table."""
    from warpline import plugins  # noqa: PLC0415 - start-up: only mistakes need it
    from warpline.result import ANALYSES  # noqa: PLC0415 - likewise

    plugins.load("analyses")
    if word.split(":", maxsplit=1)[0] in ANALYSES:
        raise UsageError(
            f"{word!r} is a table, not a recording", hint=f"warpline stats -r {word} RECORDING"
        )


def filters_in_words(args: Namespace) -> str:
    """Return the filters that the arguments hold, as they would be typed; empty for none."""
    said = []
    for name in _FILTERS:
        value = getattr(args, name)
        option = "--" + name.replace("_", "-")
        said += [
            f"{option} {word}" for word in ([value] if isinstance(value, str) else value or [])
        ]
    return " ".join(said)
