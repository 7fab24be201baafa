"""``warpline cancel``: stop a recording of a session and discard it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import running, session_option, talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
else:
    steering = lazy("warpline.capture.launcher.steering")

NAME = "cancel"
HELP = "stop a recording of a session and discard it"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    session_option.add(parser)


def run(args: Namespace) -> int:
    """Stop the recording."""
    output = steering.cancel(session_option.chosen(args))
    talk.note(f"cancelled: {running.short(output)} is not written")
    return 0
