"""Messages to the user, on stderr."""

from __future__ import annotations

import sys
import traceback


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


def _write(text: str) -> None:
    if sys.stderr is None:  # closed by the parent process
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return  # no reader
