"""``warpline launch``: run a program that other commands start and stop recordings of."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.capture.flags import sessions
from warpline.cli import running, session_option
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.capture.launcher import launch, steered
    from warpline.cli import recorded_output
else:
    launch = lazy("warpline.capture.launcher.launch")
    steered = lazy("warpline.capture.launcher.steered")
    recorded_output = lazy("warpline.cli.recorded_output")

NAME = "launch"
HELP = "run a program, to be recorded by warpline start and stop"

_AFTERWARDS = (
    "From another shell: warpline start, stop, cancel, status, shutdown. Before the first start"
    " the program runs without CUPTI. Flags about what is recorded hold for all recordings; start"
    " may change them. With --start, the first recording begins with the program."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = f"{parser.prog} [OPTIONS] [--] PROGRAM [ARGS...]"
    parser.description = "Run a program, to be recorded by warpline start and stop."
    parser.epilog = _AFTERWARDS
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
    running.add_flags(parser, sessions.LAUNCH.flags)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given before the program."""
    return sessions.LAUNCH.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    return Namespace(options=sessions.parse_launch(words), words=tuple(words))


def run(args: Namespace) -> int:
    """Run the program until it ends, and exit with its status."""
    chosen: sessions.SessionSettings = args.options
    done = steered.launch_session(chosen, args.words, running.talk_of(chosen))
    if done.last is not None:
        written, finished = done.last
        of_all, _ = sessions.flags_of_launch(args.words)
        start = sessions.parse_start((*of_all, *written.words))
        recorded_output.conclude(start, written.output, finished, session_option.NOTHING)
    return launch.end_like(done.ending)
