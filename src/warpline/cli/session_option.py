"""What the commands for sessions share: which one is meant, and how a recording is written."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import running
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.capture.flags import sessions
    from warpline.capture.launcher import steering
    from warpline.capture.launcher.desk import Written
    from warpline.capture.session import named
    from warpline.cli import recorded_output
else:
    sessions = lazy("warpline.capture.flags.sessions")
    steering = lazy("warpline.capture.launcher.steering")
    named = lazy("warpline.capture.session.named")
    recorded_output = lazy("warpline.cli.recorded_output")

NOTHING = "nothing was recorded: the program made no traced call meanwhile"


def add(parser: ArgumentParser) -> None:
    """Declare ``--session``."""
    parser.add_argument("--session", metavar="NAME", help="the session (default: the only one)")


def chosen(args: Namespace) -> str:
    """Return the name of the session that is meant.

    Raises:
        UsageError: There is none, or there are several.
    """
    return named.choose(args.session)


def write(name: str, written: Written) -> None:
    """Write a recording of a session, and print its summary.

    Raises:
        CaptureError: It cannot be written.
    """
    settings = sessions.parse_start(written.words)
    finished = steering.write(name, written, running.progress_of(settings))
    recorded_output.conclude(settings, written.output, finished, NOTHING)
