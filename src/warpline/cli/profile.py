"""``warpline profile``: run a program and record it, with the flags of ``nsys profile``.

Terminal and standard output belong to the program. Messages go to standard error. Only the tables
of ``--stats`` go to standard output.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.capture.collectors.metrics_request import HELP as LISTS
from warpline.capture.flags import capabilities, parsing
from warpline.capture.flags.declarations import FLAGS, GRAMMAR
from warpline.capture.flags.settings import CaptureSettings
from warpline.cli import running, stdout, talk
from warpline.cli.messages import say_failed
from warpline.cli.startup import lazy
from warpline.errors import WarplineError

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, plugins, render, result
    from warpline.capture.launcher.launch import Outcome
    from warpline.capture.session import names
    from warpline.cli import sampling_lists
    from warpline.render import screen
    from warpline.result import Result, Skipped
    from warpline.trace import Trace
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    result = lazy("warpline.result")
    names = lazy("warpline.capture.session.names")
    sampling_lists = lazy("warpline.cli.sampling_lists")
    screen = lazy("warpline.render.screen")

NAME = "profile"
HELP = "run a program and record it; accepts nsys profile options"

_PATTERNS = (
    "Patterns in the output name: %p process id of the program, %h host name, %n number that makes"
    " the name unique, %q{NAME} environment variable, %% percent sign. Other nsys options are"
    " accepted but have no effect; a warning names them."
)
_ALWAYS_SHOWN = ("process_sum", "recording")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = f"{parser.prog} [OPTIONS] [--] PROGRAM [ARGS...]"
    parser.description = "Run a program and record it. Accepts nsys profile options."
    parser.epilog = _PATTERNS
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
    running.add_flags(parser, FLAGS)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given before the program."""
    return GRAMMAR.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    return Namespace(options=parsing.parse(words))


def run(args: Namespace) -> int:
    """Run and record the program, print the result, and exit with the program's status."""
    chosen: CaptureSettings = args.options
    if chosen.asks_for_lists:
        return stdout.write_text("\n".join(_lists(chosen)))
    return running.run_program(chosen, lambda outcome: _afterwards(chosen, outcome))


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
    name = running.short(outcome.output)
    wants_summary = not (chosen.no_summary or chosen.quiet or outcome.reason)
    with running.keeping_status(f"run warpline stats {name}"):
        if wants_summary or chosen.stats or chosen.export:
            trace = api.open(name)
            if wants_summary:
                _summarise(trace)
            _export(chosen, trace, outcome.output)
            if chosen.stats:
                _print_tables(trace)
    if not chosen.quiet:
        running.tell(outcome, "nothing was recorded")
        if wants_summary:
            _tell_lacking(chosen)
        else:
            talk.note(f"wrote {name}")


def _tell_lacking(chosen: CaptureSettings) -> None:
    """Print which APIs traced by default are missing from the recording."""
    lacking = capabilities.lacking(chosen.trace)
    if lacking and "trace" not in chosen.given:
        talk.note(f"{', '.join(lacking).upper()} was not recorded: {capabilities.WHY_NOT}")


def _summarise(trace: Trace) -> None:
    """Write the summary to standard error."""
    if sys.stderr is None:
        return
    document = api.summary(trace, with_layers=True)
    # Sections skipped for lack of CUDA are left out: a note mentions that once.
    shown = (item for item in document.sections if _is_shown(item))
    document = dataclasses.replace(document, sections=tuple(shown))
    try:
        sys.stderr.write("\n")
        screen.render(document, sys.stderr, render.detect_options(sys.stderr, os.environ))
    except OSError:
        return  # standard error is closed


def _is_shown(section: Result | Skipped) -> bool:
    """Return whether a section belongs on the screen."""
    return isinstance(section, result.Result) or section.name in _ALWAYS_SHOWN


def _print_tables(trace: Trace) -> None:
    """Write the nonempty nsys tables to standard output."""
    if sys.stdout is None:
        return
    document = api.document(trace, api.default_tables(), keep_going=True)
    filled = tuple(
        item for item in document.sections if isinstance(item, result.Result) and len(item)
    )
    detected = render.detect_options(sys.stdout, os.environ)
    plugins.find("renderers", "text", render.RENDERERS).render(
        dataclasses.replace(document, sections=filled), sys.stdout, detected
    )
    say_failed(item for item in document.sections if isinstance(item, result.Skipped))


def _export(chosen: CaptureSettings, trace: Trace, output: Path) -> None:
    """Write the exports next to the recording."""
    for kind in chosen.export:
        path = names.export_path(output, kind)
        try:
            api.export(trace, path, kind, overwrite=chosen.force_overwrite)
        except WarplineError as error:
            retry = f"run warpline export --type {kind} -o FILE {running.short(output)}"
            talk.failure(error.message, retry, debug=False)
        else:
            if not chosen.quiet:
                talk.note(f"wrote {running.short(path)}")
