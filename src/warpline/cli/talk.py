"""Messages to the user, on stderr."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator

_before: list[Callable[[], None]] = []


def failure(message: str, hint: str | None, *, debug: bool) -> None:
    """Print an error and its hint, after the traceback if `debug`."""
    if debug:
        _write(traceback.format_exc())
    _line("error", message)
    if hint:
        _line("hint", hint)


def warning(message: str) -> None:
    """Print a fact that affects how far the data can be trusted."""
    _line("warning", message)


def note(message: str) -> None:
    """Print a fact that may help the user."""
    _line("note", message)


def hint(message: str) -> None:
    """Print the next action."""
    _line("hint", message)


def printable(text: str) -> str:
    """Return the text with unprintable characters escaped: names may contain anything."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _line(kind: str, message: str) -> None:
    _write(f"{kind}: {printable(message)}\n")


@contextlib.contextmanager
def interrupting(hide: Callable[[], None]) -> Iterator[None]:
    """Call a function before each line, such as one that hides a progress bar."""
    _before.append(hide)
    try:
        yield
    finally:
        _before.remove(hide)


def _write(text: str) -> None:
    if sys.stderr is None:  # closed by the parent process
        return
    for hide in _before:
        hide()
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return  # no reader
