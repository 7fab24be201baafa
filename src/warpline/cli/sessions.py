"""``warpline sessions``: the sessions that are running."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import status, talk
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import CaptureError

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
    from warpline.capture.session import named
else:
    steering = lazy("warpline.capture.launcher.steering")
    named = lazy("warpline.capture.session.named")

NAME = "sessions"
HELP = "list the sessions that are running"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "action", nargs="?", choices=("list",), default="list", help="list (default), as in nsys"
    )


def run(args: Namespace) -> int:
    """Print the sessions, those of this user only."""
    lines: list[str] = []
    for name in named.all_names():
        try:
            lines += status.lines_of(steering.status_of(name))
        except CaptureError as error:
            lines.append(f"session {name}: {error.message}")
    if not lines:
        talk.note("no session is running; start one: warpline launch -- python train.py")
        return 0
    return write_text("\n".join(lines))
