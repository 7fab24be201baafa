"""What commands that run a program share: messages meanwhile and afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    from warpline.capture.launcher import launch, passes
    from warpline.capture.launcher.launch import Outcome
else:
    launch = lazy("warpline.capture.launcher.launch")
    passes = lazy("warpline.capture.launcher.passes")


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


def run_program(
    settings: CaptureSettings,
    afterwards: Callable[[Outcome], None],
    start: Callable[[CaptureSettings, launch.Talk], Outcome] | None = None,
) -> int:
    """Run and record a program, and return its exit status, or end by the signal that ended it.

    Args:
        settings: The settings of the recording.
        afterwards: Prints the result. Its errors do not change the exit status.
        start: Runs it; None for `launch.launch`.
    """
    try:
        outcome = (start or launch.launch)(settings, talk_of(settings))
    except launch.UnfinishedError as error:
        return _unfinished(settings, error)
    hide_progress(is_quiet=settings.quiet)
    afterwards(outcome)
    _flush()
    return launch.end_like(outcome.ending)


def run_passes(
    runs: Sequence[CaptureSettings],
    afterwards: Callable[[passes.Passes], None],
    *,
    goes_on_after_failure: bool,
) -> int:
    """Run and record a program once for each pass, and return, or end by, what its last run did.

    Args:
        runs: The settings of each recording.
        afterwards: Prints the result. Its errors do not change the exit status.
        goes_on_after_failure: Whether runs follow one whose exit status is not 0.
    """
    settings = runs[0]
    try:
        found = passes.launch_passes(
            runs, talk_of(settings), goes_on_after_failure=goes_on_after_failure
        )
    except launch.UnfinishedError as error:
        return _unfinished(settings, error)
    hide_progress(is_quiet=settings.quiet)
    if found.error is not None:
        talk.failure(found.error.message, found.error.hint, debug=False)
    afterwards(found)
    _flush()
    return launch.end_like(found.last)


def talk_of(settings: CaptureSettings) -> launch.Talk:
    """Return the functions that print messages while a program runs."""
    is_quiet = settings.quiet
    return launch.Talk(
        warn=_nothing if is_quiet else _warn,
        note=_nothing if is_quiet else _note,
        progress=progress_of(settings),
    )


def progress_of(settings: CaptureSettings) -> Callable[[float], None]:
    """Return the function that shows how much of a recording is written."""
    return _nothing if settings.quiet else _show_progress


def _unfinished(settings: CaptureSettings, error: launch.UnfinishedError) -> int:
    """Print why there is no recording, and return the program's exit status, or end like it."""
    hide_progress(is_quiet=settings.quiet)
    talk.failure(error.message, error.hint, debug=False)
    return launch.end_like(error.ending) or 1


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


def _warn(text: str) -> None:
    hide_progress(is_quiet=False)
    talk.warning(text)


def _note(text: str) -> None:
    hide_progress(is_quiet=False)
    talk.note(text)


def _show_progress(part: float) -> None:
    if _is_terminal():
        sys.stderr.write(f"\r\x1b[Kwarpline: writing recording {part:.0%}")
        sys.stderr.flush()


def hide_progress(*, is_quiet: bool) -> None:
    """Clear the line that shows the progress."""
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
