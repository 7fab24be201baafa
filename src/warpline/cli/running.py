"""What commands that run a program share: messages meanwhile and afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import WarplineError
from warpline.units import plural

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from warpline.capture.flags.grammar import Flag
    from warpline.capture.flags.settings import CaptureSettings
    from warpline.capture.launcher import launch
    from warpline.capture.launcher.launch import Outcome
else:
    launch = lazy("warpline.capture.launcher.launch")


def add_flags(parser: ArgumentParser, flags: Iterable[Flag]) -> None:
    """Declare flags for the help of a command that parses its own words."""
    known = {name for action in parser._actions for name in action.option_strings}  # noqa: SLF001 - argparse has no public way to list them
    groups: dict[str, ArgumentParser | _ArgumentGroup] = {"": parser}
    for flag in flags:
        if flag.is_hidden or not known.isdisjoint(flag.names):
            continue
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        group, text = groups[flag.group], flag.help.replace("%", "%%")
        if flag.metavar:
            group.add_argument(*flag.names, dest=flag.attribute, metavar=flag.metavar, help=text)
        else:
            group.add_argument(*flag.names, action="store_true", help=text)


def run_program(settings: CaptureSettings, afterwards: Callable[[Outcome], None]) -> int:
    """Run and record a program, and return its exit status, or end by the signal that ended it.

    Args:
        settings: The settings of the recording.
        afterwards: Prints the result. Its errors do not change the exit status.
    """
    is_quiet = settings.quiet
    says = launch.Talk(
        warn=_nothing if is_quiet else talk.warning,
        note=_nothing if is_quiet else talk.note,
        progress=_nothing if is_quiet else _show_progress,
    )
    try:
        outcome = launch.launch(settings, says)
    except launch.UnfinishedError as error:
        _hide_progress(is_quiet=is_quiet)
        talk.failure(error.message, error.hint, debug=False)
        return launch.end_like(error.ending) or 1
    _hide_progress(is_quiet=is_quiet)
    afterwards(outcome)
    _flush()
    return launch.end_like(outcome.ending)


@contextlib.contextmanager
def keeping_status(hint: str) -> Iterator[None]:
    """Report errors of what is printed after the program, and go on.

    Args:
        hint: What to do if standard output cannot be written.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk may only show here
    except WarplineError as error:
        talk.failure(error.message, error.hint, debug=False)
    except OSError as error:  # of standard output: exports raise WarplineError
        _discard_output()
        if not isinstance(error, BrokenPipeError):
            why = f"cannot write to standard output: {error.strerror or error}"
            talk.failure(why, hint, debug=False)


def tell(outcome: Outcome, nothing: str) -> None:
    """Print the warnings about a recording.

    Args:
        outcome: The result of the run.
        nothing: What to say if it is empty, before the reason: ``nothing was recorded``.
    """
    finished, reason = outcome.finished, outcome.reason
    if reason is not None:
        talk.warning(f"{nothing}: {reason.text}")
        if reason.hint:
            talk.hint(reason.hint)
    if finished.get("lost"):
        talk.warning(f"{plural(finished['lost'], 'event')} dropped")
    for warning in finished.get("warnings", ()):
        if reason is None or not warning.endswith(reason.text):
            talk.warning(warning)


def short(path: Path) -> str:
    """Return a path relative to the current directory if possible."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _show_progress(part: float) -> None:
    if _is_terminal():
        sys.stderr.write(f"\r\x1b[Kwarpline: writing recording {part:.0%}")
        sys.stderr.flush()


def _hide_progress(*, is_quiet: bool) -> None:
    if not is_quiet and _is_terminal():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _is_terminal() -> bool:
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    return sys.stderr is not None and sys.stderr.isatty() and not is_dumb


def _nothing(_: object) -> None:
    """Print nothing, with --quiet."""


def _discard_output() -> None:
    """Redirect standard output to the null device: the buffered rest cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _flush() -> None:
    """Flush the output streams: this process may end by a signal."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                continue
