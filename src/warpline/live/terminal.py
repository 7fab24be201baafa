"""The screen of ``warpline top``: redrawn once per second, on the terminal's other screen.

Lines are written as they are: laying out a table with rich each second takes as long as all else.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator

from warpline.live.screen import Screen, lines, screen
from warpline.live.watch import Watcher

_PERIOD_S = 1.0
_QUIT = (b"q", b"Q", b"\x03")
_ENTER, _LEAVE = (
    "\x1b[?1049h\x1b[?25l",
    "\x1b[?25h\x1b[?1049l",
)  # the other screen, without a cursor
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def is_possible() -> bool:
    """Return whether standard output is a terminal that can be drawn on."""
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    return not is_dumb and sys.stdout is not None and sys.stdout.isatty()


def run(watched: Watcher, most: int | None, window_s: float) -> Screen | None:
    """Show updates until the user quits or the recording ends. Return the last one, if it ended.

    Args:
        watched: The recording.
        most: The number of updates; None for as many as there are.
        window_s: The length of the window.
    """
    shown = None
    with _keys() as keys, _other_screen():
        due, done = time.monotonic(), 0
        while most is None or done < most:
            update = watched.update()
            shown = screen(update, window_s)
            _draw(shown)
            done += 1
            if not update.is_recording:
                break
            due = max(due + _PERIOD_S, time.monotonic())
            if _is_quit(keys, due):
                return None
    return shown


def drawn(shown: Screen, columns: int, rows: int) -> str:
    """Return what draws a screen on a terminal of that size, line by line over what was there."""
    title, table, foot = lines(shown, columns)
    most = max(rows - 4, 1)  # rows of the table with its header
    left = max(len(table) - most, 0)
    kept = table[: most - (left > 0)]
    more = [f"and {left + 1:,} more (--format json has all)"] if left else []
    head = [f"{_BOLD}{_cut(line, columns)}{_PLAIN}" for line in (title, "", *kept[:1])]
    tail = [f"{_DIM}{_cut(line, columns)}{_PLAIN}" for line in (*more, f"{foot}; q quits")]
    body = [_cut(line, columns) for line in kept[1:]]
    text = f"{_CLEAR_LINE}\r\n".join([*head, *body, *tail])
    return f"{_HOME}{text}{_CLEAR_LINE}{_CLEAR_REST}"


def _cut(line: str, columns: int) -> str:
    clean = "".join(char if char.isprintable() else "?" for char in line)
    return clean if len(clean) <= columns else f"{clean[: columns - 1]}…"


def _draw(shown: Screen) -> None:
    text = drawn(shown, *shutil.get_terminal_size())  # 80 x 24 where it has no size
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


@contextlib.contextmanager
def _other_screen() -> Iterator[None]:
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Let keys arrive one by one, as long as the context; yield where from, or None."""
    try:
        handle = sys.stdin.fileno()
        before = termios.tcgetattr(handle)
    except (AttributeError, OSError, ValueError, termios.error):
        yield None  # no terminal
        return
    try:
        tty.setcbreak(handle)
        yield handle
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _is_quit(keys: int | None, until: float) -> bool:
    """Wait until a time; return whether a key to quit was pressed meanwhile."""
    while (left := until - time.monotonic()) > 0:
        if keys is None:
            time.sleep(left)
        elif select.select([keys], [], [], left)[0]:
            pressed = os.read(keys, 64)
            if not pressed:
                keys = None  # the terminal is gone
            elif any(key in pressed for key in _QUIT):
                return True
    return False
