"""``warpline stop``: stop a recording of a program under ``warpline launch``, and write it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import running, session_option, talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
else:
    steering = lazy("warpline.capture.launcher.steering")

NAME = "stop"
HELP = "stop a recording of a session and write it"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    session_option.add(parser)
    parser.add_argument(
        "--defer",
        action="store_true",
        help="do not write it yet: warpline finalize does, or the end of the session",
    )


def run(args: Namespace) -> int:
    """Stop the recording, and write it unless that is deferred."""
    name = session_option.chosen(args)
    written = steering.stop(name, is_deferred=args.defer)
    if args.defer:
        talk.note(f"stopped; warpline finalize writes {running.short(written.output)}")
        return 0
    session_option.write(name, written)
    return 0
