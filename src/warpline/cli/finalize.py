"""``warpline finalize``: write the recordings of a session that were stopped with ``--defer``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import session_option, talk
from warpline.cli.startup import lazy
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
else:
    steering = lazy("warpline.capture.launcher.steering")

NAME = "finalize"
HELP = "write the recordings that warpline stop --defer has left"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    session_option.add(parser)


def run(args: Namespace) -> int:
    """Write the recordings."""
    name = session_option.chosen(args)
    waiting = steering.unwritten_of(name)
    for written in waiting:
        session_option.write(name, written)
    if not waiting:
        talk.note(f"session {name} has no recording to write")
    else:
        talk.note(f"wrote {plural(len(waiting), 'recording')}")
    return 0
