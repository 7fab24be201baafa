"""``warpline profile``: run a program and record it, with the flags of ``nsys profile``.

The program has the terminal and standard output for itself: all that is said here goes to standard
error, but for the tables that ``--stats`` asks for.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.capture import capabilities, options
from warpline.capture.flags import FLAGS, Options
from warpline.cli import talk
from warpline.cli.output import say_failed
from warpline.cli.startup import load_api
from warpline.errors import WarplineError

if TYPE_CHECKING:
    from warpline.capture.launch import Outcome
    from warpline.result import Result, Skipped
    from warpline.trace import Trace

NAME = "profile"
HELP = "run a program and record it, with the flags of nsys profile"

_PATTERNS = (
    "Patterns in the recording's name: %p the program's process id, %h the host, %n a number that"
    " makes it new, %q{NAME} an environment variable, %% a per cent sign. Flags of nsys that are"
    " not listed are understood, and say that they are not collected."
)
_ALWAYS_SHOWN = ("process_sum", "recording")
_ENDINGS = {"perfetto": ".perfetto.json", "parquet": ".parquet", "arrow": ".arrow"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command, for its help; `read` reads them."""
    parser.usage = f"{parser.prog} [FLAGS] [--] PROGRAM [ARGUMENTS]"
    parser.epilog = _PATTERNS
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="what to run, as you would")
    known = {name for action in parser._actions for name in action.option_strings}  # noqa: SLF001 - argparse has no public way to list them
    for flag in FLAGS:
        if flag.is_hidden or not known.isdisjoint(flag.names):
            continue
        if flag.metavar:
            dest = flag.attribute
            parser.add_argument(*flag.names, dest=dest, metavar=flag.metavar, help=flag.help)
        else:
            parser.add_argument(*flag.names, action="store_true", help=flag.help)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether help is asked for before the program's words."""
    return options.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Return what the words ask for."""
    return Namespace(options=options.parse(words))


def run(args: Namespace) -> int:
    """Run the program, record it, say what was recorded, and end as the program did."""
    from warpline.capture.launch import (  # noqa: PLC0415 - start-up: only running needs it
        Talk,
        UnfinishedError,
        end_like,
        launch,
    )

    chosen: Options = args.options
    says = Talk(
        warn=_nothing if chosen.quiet else talk.warning,
        note=_nothing if chosen.quiet else talk.note,
        progress=_nothing if chosen.quiet else _show_progress,
    )
    try:
        outcome = launch(chosen, says)
    except UnfinishedError as error:
        _hide_progress(chosen)
        talk.failure(error.message, error.hint, debug=False)
        return end_like(error.ending) or 1
    _hide_progress(chosen)
    is_complete = _afterwards(chosen, outcome)
    _flush()
    return end_like(outcome.ending) or (0 if is_complete else 1)


def _afterwards(chosen: Options, outcome: Outcome) -> bool:
    """Say what was recorded and write what was asked for; return whether all of it worked."""
    name = _short(outcome.output)
    wants_summary = not (chosen.no_summary or chosen.quiet or outcome.reason)
    is_complete = True
    try:
        if wants_summary or chosen.stats or chosen.export:
            trace = load_api().open(name)
            if wants_summary:
                _summarise(trace)
            if chosen.stats:
                is_complete = _print_tables(trace)
            is_complete = _export(chosen, trace, outcome.output) and is_complete
    except WarplineError as error:  # the recording is there, and the status is the program's
        talk.failure(error.message, error.hint, debug=False)
        is_complete = False
    if not chosen.quiet:
        _tell(outcome)
        if wants_summary:
            _tell_lacking(chosen)
        else:
            talk.note(f"{name} is written")
    return is_complete


def _tell(outcome: Outcome) -> None:
    """Say what must be known to trust the recording."""
    finished, reason = outcome.finished, outcome.reason
    if reason is not None:
        talk.warning(f"nothing was recorded: {reason.text}")
        if reason.hint:
            talk.hint(reason.hint)
    if finished.get("lost"):
        talk.warning(f"{finished['lost']:,} events were lost")
    for warning in finished.get("warnings", ()):
        if reason is None or not warning.endswith(reason.text):
            talk.warning(warning)


def _tell_lacking(chosen: Options) -> None:
    """Say which of what is asked for by default the recording lacks."""
    lacking = capabilities.lacking(chosen.trace)
    if lacking and "trace" not in chosen.given:
        talk.note(f"{', '.join(lacking).upper()} was not recorded: {capabilities.WHY_NOT}")


def _summarise(trace: Trace) -> None:
    """Write the summary to standard error."""
    from dataclasses import replace  # noqa: PLC0415 - start-up

    from warpline.render import detect_options  # noqa: PLC0415 - start-up: brings numpy
    from warpline.render.screen import render  # noqa: PLC0415 - likewise

    if sys.stderr is None:
        return
    document = load_api().summary(trace, with_layers=True)
    # What there is no trace of for want of CUDA is said below, once.
    shown = (item for item in document.sections if _is_shown(item))
    screen = replace(document, sections=tuple(shown))
    try:
        sys.stderr.write("\n")
        render(screen, sys.stderr, detect_options(sys.stderr, os.environ))
    except OSError:
        return  # nobody listens


def _is_shown(section: Result | Skipped) -> bool:
    """Return whether the screen has a use for a section."""
    from warpline.result import Result  # noqa: PLC0415 - start-up: brings numpy

    return isinstance(section, Result) or section.name in _ALWAYS_SHOWN


def _print_tables(trace: Trace) -> bool:
    """Write those of nsys's tables that have rows to standard output; return whether all worked."""
    from dataclasses import replace  # noqa: PLC0415 - start-up

    from warpline import plugins  # noqa: PLC0415 - start-up: brings numpy
    from warpline.render import RENDERERS, detect_options  # noqa: PLC0415 - likewise
    from warpline.result import Result, Skipped  # noqa: PLC0415 - likewise

    if sys.stdout is None:
        return True
    api = load_api()
    plugins.load("renderers")
    document = api.document(trace, api.default_tables(), keep_going=True)
    filled = tuple(item for item in document.sections if isinstance(item, Result) and len(item))
    detected = detect_options(sys.stdout, os.environ)
    RENDERERS.get("text").render(replace(document, sections=filled), sys.stdout, detected)
    return not say_failed(item for item in document.sections if isinstance(item, Skipped))


def _export(chosen: Options, trace: Trace, output: Path) -> bool:
    """Write the recording in other formats beside it; return whether all could be written."""
    is_complete = True
    for kind in chosen.export:
        path = output.with_name(output.stem + _ENDINGS.get(kind, f".{kind}"))
        try:
            load_api().export(trace, path, kind, overwrite=chosen.force_overwrite)
        except WarplineError as error:
            talk.failure(error.message, error.hint, debug=False)
            is_complete = False
        else:
            if not chosen.quiet:
                talk.note(f"{_short(path)} is written")
    return is_complete


def _short(path: Path) -> str:
    """Return a path as it would be typed here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _show_progress(part: float) -> None:
    if _is_terminal():
        sys.stderr.write(f"\r\x1b[Kwarpline: finishing {part:.0%}")
        sys.stderr.flush()


def _hide_progress(chosen: Options) -> None:
    if not chosen.quiet and _is_terminal():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _is_terminal() -> bool:
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    return sys.stderr is not None and sys.stderr.isatty() and not is_dumb


def _nothing(_: object) -> None:
    """Say nothing."""


def _flush() -> None:
    """Write what is buffered: the end may be a signal."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                continue
