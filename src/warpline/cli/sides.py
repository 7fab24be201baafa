"""The recordings of one side of a comparison, as they are named on the command line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.comparison import baselines
else:
    baselines = lazy("warpline.comparison.baselines")


_SIDES = 2


def add_sides(
    parser: ArgumentParser,
    metavar: str = "RECORDING",
    runs: str = "runs",
    which: str = "recordings with distinct ranks are one run",
) -> None:
    """Declare the options that name several runs of each side.

    Args:
        parser: Of the command.
        metavar: What one is.
        runs: What they are called.
        which: What counts as one of them.
    """
    group = parser.add_argument_group("sides")
    for name, text in (("before", "before the change"), ("after", "after the change")):
        group.add_argument(
            f"--{name}",
            nargs="+",
            default=[],
            metavar=metavar,
            help=f"{runs} {text}; {which}",
        )
    group.add_argument(
        "--paired",
        action="store_true",
        help=f"the {runs} took turns: compare the first with the first, and so on",
    )


def sides(args: Namespace) -> tuple[list[str], list[str]]:
    """Return the recordings of both sides, from the options of `add_sides` or two arguments.

    Raises:
        UsageError: A side is missing, or `check_runs` refuses one.
    """
    if args.before or args.after:
        if args.recordings or not (args.before and args.after):
            raise UsageError(
                "name both sides: --before and --after",
                hint=f"warpline {args.command} --before A1 A2 --after B1 B2",
            )
        both = list(args.before), list(args.after)
    elif len(args.recordings) != _SIDES:
        raise UsageError(
            f"two recordings are compared, {len(args.recordings)} named",
            hint=f"warpline {args.command} BEFORE AFTER; for several, use --before and --after",
        )
    else:
        both = [args.recordings[0]], [args.recordings[1]]
    for side in both:  # both may have one in common: the result says so
        check_runs(side)
    return both


def share_of(option: str, text: str) -> float:
    """Return the value of an option such as ``2%`` or ``0.02``.

    Raises:
        UsageError: It is not between 0 and 1.
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(
            f"{option}: {text!r} is not a share between 0 and 100%", hint=f"use {option} 5%"
        )
    return value


def check_runs(words: Sequence[str]) -> None:
    """Check that words name recordings, each once: a run counted twice would seem to repeat itself.

    Raises:
        UsageError: A file does not exist, is named twice, or is a baseline.
    """
    seen: set[Path] = set()
    for word in words:
        path = Path(word)
        if not path.exists():
            raise UsageError(f"{word}: no such file", hint="name recordings")
        if path.resolve() in seen:
            raise UsageError(f"{word} is named twice", hint="name each run once")
        seen.add(path.resolve())
        if path.suffix == baselines.SUFFIX and path.is_file() and baselines.is_baseline(path):
            raise UsageError(
                f"{word} is a baseline, not a recording",
                hint=f"warpline gate --folder {path.parent} --baseline {path.stem} RECORDING...",
            )
