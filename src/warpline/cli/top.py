"""``warpline top``: GPUs, steps and causes of idle time of a recording in progress."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.live import answers, finding, screen, terminal, watch
    from warpline.live.watch import Update, Watcher
else:
    terminal = lazy("warpline.live.terminal")
    answers = lazy("warpline.live.answers")
    finding = lazy("warpline.live.finding")
    screen = lazy("warpline.live.screen")
    watch = lazy("warpline.live.watch")

NAME = "top"
HELP = "show what a recording in progress has of the last seconds"

_PERIOD_S = 1.0
_LEAST_S, _MOST_S = 1.0, 60.0
_SOON_S = 0.25


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = f"{parser.prog} [SESSION] [OPTIONS]"
    add_session(parser)
    add_window(parser)
    parser.add_argument("--once", action="store_true", help="print one screen and end")
    parser.add_argument(
        "-n", "--updates", type=_count, metavar="N", help="end after N updates, one per second"
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=("text", "json"),
        default="text",
        help="text (default), or a line of JSON per second (docs/top.schema.json)",
    )


def add_session(parser: ArgumentParser) -> None:
    """Declare which recording is meant."""
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="name of a session, process id, or file of the recording that is being made (default:"
        " the only one)",
    )
    parser.add_argument("--session", dest="named", metavar="NAME", help="the same")


def add_window(parser: ArgumentParser) -> None:
    """Declare the length of the window."""
    parser.add_argument(
        "--window",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="time that steps and idle causes are of (default: 10)",
    )


def watcher(args: Namespace) -> Watcher:
    """Return what looks at the recording that the arguments name.

    Raises:
        WarplineError: There is none, or several, or it cannot be read.
    """
    if args.session is not None and args.named is not None:
        raise UsageError("the session is named twice", hint="omit --session")
    return watch.Watcher(finding.find(args.session or args.named), args.window)


def run(args: Namespace) -> int:
    """Show the recording until it ends, or the user does."""
    with contextlib.closing(watcher(args)) as watched, contextlib.suppress(KeyboardInterrupt):
        if not args.once and args.format == "text" and terminal.is_possible():
            last = terminal.run(watched, args.updates, args.window)
            return 0 if last is None else write_text(screen.text(last))
        for update in updates(watched, 1 if args.once else args.updates):
            _print(update, args)
    return 0


def updates(watched: Watcher, most: int | None) -> Iterator[Update]:
    """Yield updates, one per second, from the first with numbers until the recording has ended."""
    due, done = time.monotonic(), 0
    while most is None or done < most:
        update = watched.update()
        if update.times is None and update.is_recording:
            time.sleep(_SOON_S)
            due = time.monotonic()
            continue
        yield update
        done += 1
        if not update.is_recording or done == most:
            return
        due = max(due + _PERIOD_S, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0))


def _print(update: Update, args: Namespace) -> None:
    if args.format == "json":
        write_text(json.dumps(answers.plain(update)))
    else:
        write_text(screen.text(screen.screen(update, args.window)))
    sys.stdout.flush()


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"expected a number of updates, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not _LEAST_S <= seconds <= _MOST_S:
        raise ArgumentTypeError(f"expected 1 to 60 seconds, not {text!r}")
    return seconds
