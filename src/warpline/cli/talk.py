"""What is said to the user beside the data: lines on stderr."""

from __future__ import annotations

import sys
import traceback


def failure(message: str, hint: str | None, *, debug: bool) -> None:
    """Say why the command failed, and what to do; the traceback first if `debug`."""
    if debug:
        _write(traceback.format_exc())
    _line("error", message)
    if hint:
        _line("hint", hint)


def warning(message: str) -> None:
    """Say what the user must know to trust the data."""
    _line("warning", message)


def note(message: str) -> None:
    """Say what the user may want to know."""
    _line("note", message)


def hint(message: str) -> None:
    """Say what to do next."""
    _line("hint", message)


def printable(text: str) -> str:
    """Return the text with characters that do not print escaped: names may hold anything."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _line(kind: str, message: str) -> None:
    _write(f"{kind}: {printable(message)}\n")


def _write(text: str) -> None:
    if sys.stderr is None:  # closed by whoever started us
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return  # nobody listens
