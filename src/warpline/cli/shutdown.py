"""``warpline shutdown``: end a session and its program."""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import session_option, talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
else:
    steering = lazy("warpline.capture.launcher.steering")

NAME = "shutdown"
HELP = "stop the recording of a session and end its program"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    session_option.add(parser)
    parser.add_argument(
        "--kill",
        metavar="SIGNAL",
        default="sigterm",
        help="signal that ends the program: sigterm (default), sigkill, sigint, or a number",
    )


def run(args: Namespace) -> int:
    """End the session, and return once it has ended."""
    number = _signal(args.kill)
    name = session_option.chosen(args)
    steering.shut_down(name, number)
    talk.note(f"session {name} has ended")
    return 0


def _signal(word: str) -> int:
    """Return the number of a signal; UsageError if there is no such signal."""
    try:
        if word.isdecimal():
            return int(signal.Signals(int(word)))
        name = word.upper()
        return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except (ValueError, KeyError):
        raise UsageError(
            f"--kill {word}: expected a signal", hint="use sigterm, sigkill or sigint"
        ) from None
