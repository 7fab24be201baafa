"""A status line at the bottom of the terminal while a program runs.

The program writes to the same terminal at any time. So the line has a reserved row, and the
terminal scrolls only the rows above it, as package managers do it. Nothing is drawn while a program
reads single keys (an editor, a pager) or while another job is in the foreground.
"""

from __future__ import annotations

import contextlib
import os
import select
import termios

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_MAKE_ROOM = "\x1bD\x1b[1A"  # a row down, scrolling if it must, and up again: same column
_LEAST_ROWS = 4
_LOCAL_MODES = 3  # index in what tcgetattr returns


class StatusLine:
    """The line, on one terminal.

    Args:
        handle: A file descriptor; if it is not a terminal, nothing is drawn.
        is_wanted: Whether to draw at all.
    """

    def __init__(self, handle: int, *, is_wanted: bool = True) -> None:
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        self._handle = handle
        self.is_on = is_wanted and not is_dumb and _is_terminal(handle)
        self._rows = 0  # the terminal's rows while one is reserved

    def draw(self, text: str) -> None:
        """Show a text, truncated to the width of the terminal."""
        if not self.is_on or not _is_ours(self._handle):
            return
        try:
            columns, rows = os.get_terminal_size(self._handle)
        except OSError:
            return
        if rows < _LEAST_ROWS or columns < 1:
            return
        reserve = "" if rows == self._rows else self._release() + _MAKE_ROOM
        self._rows = rows
        self._write(
            f"{reserve}{_SAVE}\x1b[1;{rows - 1}r\x1b[{rows};1H\x1b[2K"
            f"{_DIM}{text[: columns - 1]}{_PLAIN}{_RESTORE}"
        )

    def clear(self) -> None:
        """Release the reserved row; drawing reserves it again."""
        if self._rows:
            self._write(self._release())
            self._rows = 0

    def _release(self) -> str:
        if not self._rows:
            return ""
        return f"{_SAVE}\x1b[r\x1b[{self._rows};1H\x1b[2K{_RESTORE}"

    def _write(self, text: str) -> None:
        # A stopped terminal (Ctrl-S) must not block the launcher: --duration keeps counting.
        with contextlib.suppress(OSError):
            if select.select([], [self._handle], [], 0)[1]:
                os.write(self._handle, text.encode())


def _is_terminal(handle: int) -> bool:
    try:
        return os.isatty(handle)
    except OSError:
        return False


def _is_ours(handle: int) -> bool:
    """Return whether this job is in the foreground and no program reads single keys."""
    try:
        if os.tcgetpgrp(handle) != os.getpgrp():
            return False
        modes = termios.tcgetattr(handle)
    except (OSError, termios.error):
        return False
    return bool(modes[_LOCAL_MODES] & termios.ICANON)
