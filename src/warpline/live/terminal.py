"""The screen of ``warpline top``: redrawn once per second, on the terminal's other screen."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from warpline.live.screen import Screen, is_number, screen
from warpline.live.watch import Watcher

_PERIOD_S = 1.0
_AROUND = 4  # lines beside the rows
_QUIT = (b"q", b"Q", b"\x03")


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
    console = Console()
    shown = None
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        due, done = time.monotonic(), 0
        while most is None or done < most:
            update = watched.update()
            shown = screen(update, window_s)
            live.update(_drawn(shown, console.height), refresh=True)
            done += 1
            if not update.is_recording:
                break
            due = max(due + _PERIOD_S, time.monotonic())
            if _is_quit(keys, due):
                return None
    return shown


def _drawn(shown: Screen, height: int) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in shown.header:
        is_text = name in {"name", "process"} or name.startswith("idle")
        table.add_column(
            name,
            justify="right" if is_number(name) else "left",
            no_wrap=True,
            min_width=None if is_text else len(name),
        )
    most = max(height - _AROUND, 1)
    for row in shown.rows[:most]:
        table.add_row(*map(Text, row))
    left = len(shown.rows) - most
    more = [Text(f"and {left:,} more (--format json has all)")] if left > 0 else []
    foot = Text(f"{shown.foot}; q quits", style="dim")
    return Group(Text(shown.title, style="bold"), Text(), table, *more, foot)


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
