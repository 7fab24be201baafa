"""Messages to the user, on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy

if TYPE_CHECKING:
    import traceback
else:
    traceback = lazy("traceback")

# What makes room for a line, such as a progress bar that is taken off the screen meanwhile.
_rooms: list[Callable[[], AbstractContextManager[None]]] = []


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
def interrupting(room: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Write each line within the context that a function returns: one that hides a progress bar."""
    _rooms.append(room)
    try:
        yield
    finally:
        _rooms.remove(room)


def _write(text: str) -> None:
    if sys.stderr is None:  # closed by the parent process
        return
    with contextlib.ExitStack() as stack:
        for room in _rooms:
            stack.enter_context(room())
        with contextlib.suppress(OSError):  # no reader
            sys.stderr.write(text)
            sys.stderr.flush()
