"""``warpline graphcheck``: may the step of a program be captured as a CUDA graph?

A program is recorded with the flags of ``profile``. Terminal and standard output belong to it; the
check follows on standard output when it has ended, messages go to standard error.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline import installation
from warpline.cli import bar, freed_memory, running, talk
from warpline.cli.startup import lazy
from warpline.errors import WarplineError

if TYPE_CHECKING:
    import contextlib
    import tempfile

    from warpline import api, render
    from warpline.capture.flags import graphcheck_flags
    from warpline.capture.flags.graphcheck_flags import GraphCheckSettings
    from warpline.capture.launcher.launch import Outcome
    from warpline.render import graphcheck as rendering
    from warpline.result.graphcheck import GraphCheck
else:
    contextlib = lazy("contextlib")
    tempfile = lazy("tempfile")
    api = lazy("warpline.api")
    render = lazy("warpline.render")
    graphcheck_flags = lazy("warpline.capture.flags.graphcheck_flags")
    rendering = lazy("warpline.render.graphcheck")

NAME = "graphcheck"
HELP = "check whether steps may be captured as a CUDA graph: offending lines, saving"

_TEMPORARY = "graphcheck.warpline"
_KEEP_HINT = "use -o NAME to keep the recording"
_UNDECIDED = 4


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = (
        f"{parser.prog} [OPTIONS] [--] PROGRAM [ARGS...]\n"
        f"       {parser.prog} [OPTIONS] RECORDING..."
    )
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
    running.add_flags(parser, graphcheck_flags.FLAGS)
    parser.epilog = (
        "A program is recorded with --python-backtrace=cuda and --pytorch=all, unless these are"
        " given; -d SECONDS records and runs it that long. Exit status: 0 yes; 3 no; 4 cannot"
        " decide; the program's own if it fails; 1 and 2 errors."
    )


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given before the program."""
    return graphcheck_flags.GRAMMAR.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    return Namespace(options=graphcheck_flags.parse(words))


def run(args: Namespace) -> int:
    """Print the check of a program or of recordings; status 0 yes, 3 no, 4 cannot decide."""
    chosen: GraphCheckSettings = args.options
    if chosen.recordings:
        freed_memory.reuse()
        with bar.shown(Namespace(quiet=chosen.quiet)):
            found = _check(chosen, chosen.recordings)
        for text in () if chosen.quiet else found.warnings:
            talk.warning(text)
        return found.status
    installation.require_linux()
    is_kept = chosen.output is not None
    with contextlib.ExitStack() as stack:
        if not is_kept:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="warpline-"))
            chosen.output = str(Path(folder, _TEMPORARY)).replace("%", "%%")
        return _run(chosen, stack, is_kept=is_kept)


def _run(chosen: GraphCheckSettings, stack: contextlib.ExitStack, *, is_kept: bool) -> int:
    """Record the program and print the check; return its status, or the program's if it failed.

    The stack is closed before this process ends, perhaps by a signal.
    """
    statuses = [_UNDECIDED]

    def afterwards(outcome: Outcome) -> None:
        with stack, running.keeping_status(_KEEP_HINT):
            if outcome.reason is None:
                statuses.append(_check(chosen, (str(outcome.output),)).status)
        if not chosen.quiet:
            running.tell(outcome, "nothing was recorded")
            if is_kept:
                talk.note(f"wrote {running.short(outcome.output)}")

    return running.run_program(chosen, afterwards) or statuses[-1]


def _check(chosen: GraphCheckSettings, recordings: Sequence[str]) -> GraphCheck:
    """Print the check of recordings, without warnings about them, and return it."""
    found = api.graphcheck(list(recordings), steps=chosen.steps_from)
    if sys.stdout is None:
        raise WarplineError("standard output is closed")
    options = render.detect_options(sys.stdout, os.environ)
    rendering.WRITERS[chosen.format](found, sys.stdout, options)
    sys.stdout.flush()
    return found
