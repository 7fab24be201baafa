"""``warpline start``: start a recording of a program under ``warpline launch``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.capture.flags import sessions
from warpline.cli import running, talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
    from warpline.capture.session import named
else:
    steering = lazy("warpline.capture.launcher.steering")
    named = lazy("warpline.capture.session.named")

NAME = "start"
HELP = "start a recording of a program under warpline launch"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = f"{parser.prog} [--session NAME] [OPTIONS]"
    parser.description = "Start a recording of a program under warpline launch."
    parser.epilog = "warpline stop ends it and writes it; so does the program's end."
    running.add_flags(parser, sessions.START.flags)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given."""
    return sessions.START.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    return Namespace(options=sessions.parse_start(words), words=tuple(words))


def run(args: Namespace) -> int:
    """Start the recording."""
    chosen: sessions.SessionSettings = args.options
    name = named.choose(chosen.session)
    output = steering.start(name, args.words, talk.warning)
    if not chosen.quiet:
        until = "warpline stop ends it" if chosen.duration is None else f"for {chosen.duration:g} s"
        talk.note(f"recording session {name} to {running.short(output)}; {until}")
    return 0
