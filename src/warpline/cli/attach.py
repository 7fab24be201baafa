"""``warpline attach``: record a program that was started without Warpline."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.capture.flags import sessions
from warpline.cli import running, talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.capture.launcher import attach
    from warpline.cli import recorded_output
else:
    attach = lazy("warpline.capture.launcher.attach")
    recorded_output = lazy("warpline.cli.recorded_output")

NAME = "attach"
HELP = "record a program that is running already"

_NOTHING = (
    "nothing was recorded: the program called neither CUDA nor NVTX meanwhile; ranges of the nvtx"
    " package for Python, 0.2.12 and later, cannot be recorded by attaching"
)
_NO_STEPS = (
    "nothing was recorded: no step was found; name the range that starts one with --step-range, or"
    " record for a time with -d"
)
_NOTHING_OUTSIDE = (
    "nothing was recorded: -t none records samples only; add -s process-tree or"
    " --python-sampling=true, or record for longer if the program was idle"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = f"{parser.prog} [OPTIONS] PID"
    parser.description = (
        "Record a program that was started without Warpline, and the processes that it has started"
        " (Linux, x86-64)."
    )
    parser.epilog = (
        "Recording ends after --duration or --steps, with Ctrl-C, or with the program, which goes"
        " on. NVTX ranges are recorded, too; domains and strings that the program registered"
        " before are not known. In rare cases a program that uses a GPU crashes when it is attached"
        " to: docs/attaching.md. Use warpline profile where it must not."
    )
    parser.add_argument("pid", nargs="?", metavar="PID", help=SUPPRESS)
    running.add_flags(parser, sessions.ATTACH.flags)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given."""
    return sessions.ATTACH.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    first = words[:1] if words and words[0].isdecimal() else []
    settings, rest = sessions.parse_attach([*words[len(first) :]])
    named = [*first, *rest]
    if len(named) != 1 or not named[0].isdecimal() or int(named[0]) > 2**31 - 1:
        raise UsageError("expected one PID", hint="run warpline attach -d 5 PID")
    return Namespace(options=settings, pid=int(named[0]))


def run(args: Namespace) -> int:
    """Record the program, and print the summary."""
    chosen: sessions.SessionSettings = args.options
    done = attach.attach(args.pid, chosen, running.talk_of(chosen))
    nothing = _NOTHING if done.injected else _NOTHING_OUTSIDE
    if chosen.sampling is not None and not done.steps:
        nothing = _NO_STEPS
    recorded_output.conclude(chosen, done.output, done.finished, nothing)
    if not chosen.quiet and done.injected:
        count = len(done.injected)
        which = "one thread" if count == 1 else f"one thread in each of {count} processes"
        most = "" if count == 1 else "at most "
        stall_ms = max(each.stall_ns for each in done.injected.values()) / 1e6
        talk.note(f"{which} was stopped for {most}{stall_ms:.1f} ms to attach")
    return 0
