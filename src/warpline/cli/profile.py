"""``warpline profile``: run a program and record it, with the flags of ``nsys profile``.

Terminal and standard output belong to the program. Messages go to standard error. Only the tables
of ``--stats`` go to standard output.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from warpline.capture.collectors.metrics_request import HELP as LISTS
from warpline.capture.flags import capabilities, parsing
from warpline.capture.flags.declarations import GRAMMAR
from warpline.capture.flags.settings import CaptureSettings
from warpline.cli import running, stdout, talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.capture.launcher import launch, on_finish
    from warpline.capture.launcher.launch import Outcome
    from warpline.cli import recorded_output, sampling_lists
    from warpline.remote import recording
else:
    launch = lazy("warpline.capture.launcher.launch")
    on_finish = lazy("warpline.capture.launcher.on_finish")
    recorded_output = lazy("warpline.cli.recorded_output")
    sampling_lists = lazy("warpline.cli.sampling_lists")
    recording = lazy("warpline.remote.recording")

NAME = "profile"
HELP = "run a program and record it; accepts nsys profile options"

_PATTERNS = (
    "Patterns in the output name: %p process id of the program, %h host name, %n number that makes"
    " the name unique, %q{NAME} environment variable, %% percent sign. Other nsys options are"
    " accepted but have no effect; a warning names them."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = f"{parser.prog} [OPTIONS] [--] PROGRAM [ARGS...]"
    parser.description = "Run a program and record it. Accepts nsys profile options."
    parser.epilog = _PATTERNS
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
    running.add_flags(parser, GRAMMAR.flags)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given before the program."""
    return GRAMMAR.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    return Namespace(options=parsing.parse(words), words=words)


def run(args: Namespace) -> int:
    """Run and record the program, print the result, and exit with the program's status."""
    chosen: CaptureSettings = args.options
    if chosen.asks_for_lists:
        return stdout.write_text("\n".join(_lists(chosen)))
    is_here = chosen.host is None
    start = launch.launch if is_here else partial(recording.launch, words=args.words)
    return running.run_program(chosen, lambda outcome: _afterwards(chosen, outcome), start)


def _lists(chosen: CaptureSettings) -> Iterator[str]:
    """Yield lines with the GPUs and sets of metrics that can be chosen."""
    if chosen.gpu_metrics_devices == LISTS:
        yield from sampling_lists.gpu_lines()
    if chosen.gpu_metrics_set == LISTS:
        yield from sampling_lists.set_lines()


def _afterwards(chosen: CaptureSettings, outcome: Outcome) -> None:
    """Print the summary, tables and warnings, and write the exports.

    Errors here do not change the exit status: the recording exists, and the status is the
    program's.
    """
    wants_summary = not (chosen.no_summary or chosen.quiet or outcome.reason)
    recorded_output.show(chosen, outcome.output, has_summary=wants_summary)
    if not chosen.quiet:
        running.tell(outcome, "nothing was recorded")
        if wants_summary:
            _tell_lacking(chosen)
        else:
            talk.note(f"wrote {running.short(outcome.output)}")
    on_finish.run(chosen.on_finish, outcome.output, talk.warning)


def _tell_lacking(chosen: CaptureSettings) -> None:
    """Print which APIs traced by default are missing from the recording."""
    lacking = capabilities.lacking(chosen.trace)
    if lacking and "trace" not in chosen.given:
        talk.note(f"{', '.join(lacking).upper()} was not recorded: {capabilities.WHY_NOT}")
