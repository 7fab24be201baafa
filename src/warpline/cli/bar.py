"""A progress bar on stderr for tasks that take more than a second.

It shows on a terminal only, and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpline import progress
from warpline.cli import talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from rich import console, table
    from rich import progress as rich_progress
    from rich.progress import Progress, TaskID
else:
    console = lazy("rich.console")
    rich_progress = lazy("rich.progress")
    table = lazy("rich.table")

DELAY_S = 1.0  # a shorter task shows nothing
_TICK_S = 0.1


def shown(args: Namespace) -> contextlib.AbstractContextManager[None]:
    """Return a context that shows the progress of a command; on a terminal and without -q only."""
    is_quiet = getattr(args, "quiet", False)
    if is_quiet or not _is_terminal() or os.environ.get("TERM", "dumb") == "dumb":
        return contextlib.nullcontext()
    return _shown(_Bar(DELAY_S))


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


@contextlib.contextmanager
def _shown(bar: _Bar) -> Iterator[None]:
    with progress.observed(bar.task), talk.interrupting(bar.hidden):
        yield


class _Task:
    """A task that runs.

    Attributes:
        title: What the task does.
        total: Units of the whole task; None if unknown.
        done: Units done.
        began_s: When it began.
        number: Its id in rich, once it is shown.
    """

    def __init__(self, title: str, total: int | None) -> None:
        self.title = talk.printable(title)
        self.total = total
        self.done = 0
        self.began_s = time.monotonic()
        self.number: TaskID | None = None

    def advance(self, units: int) -> None:
        """Count units as done."""
        self.done += units


class _Bar:
    """Draws a line for each long task, from a separate thread.

    Work in native code, which reports nothing, still shows the elapsed time.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._tasks: list[_Task] = []
        self._drawn: Progress | None = None
        self._lock = threading.RLock()  # a signal handler may write a line, too
        self._over: threading.Event | None = None  # ends the thread that draws

    @contextlib.contextmanager
    def task(self, title: str, total: int | None) -> Iterator[progress.Advance]:
        """Show a task while the block runs."""
        task = _Task(title, total)
        self._begin(task)
        try:
            yield task.advance
        finally:
            self._end(task)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the bar off the screen while the block writes a line."""
        with self._lock:
            self._clear()
            yield

    def _begin(self, task: _Task) -> None:
        with self._lock:
            self._tasks.append(task)
        if self._over is None:
            self._over = threading.Event()
            threading.Thread(target=self._tick, args=(self._over,), daemon=True).start()
        if self._delay_s <= 0:
            self._draw()

    def _end(self, task: _Task) -> None:
        with self._lock:
            self._tasks.remove(task)
            if self._tasks:
                if self._drawn is not None and task.number is not None:
                    self._drawn.remove_task(task.number)
                return
            self._clear()
        if self._over is not None:
            self._over.set()
        self._over = None

    def _tick(self, over: threading.Event) -> None:
        # A terminal that is gone must not cost the work.
        with contextlib.suppress(Exception):
            while not over.wait(_TICK_S):
                self._draw()

    def _draw(self) -> None:
        due_s = time.monotonic() - self._delay_s
        if not any(task.began_s <= due_s for task in self._tasks[:]):
            return
        # Not under the lock: the first call imports rich, which is slow.
        fresh = _new_progress() if self._drawn is None else None
        with self._lock:
            for task in self._tasks:
                if task.began_s > due_s:
                    continue
                if self._drawn is None:
                    self._drawn = fresh or _new_progress()
                    self._drawn.start()
                if task.number is None:
                    task.number = self._drawn.add_task(task.title, total=task.total)
                self._drawn.update(task.number, completed=task.done)
            if self._drawn is not None:
                self._drawn.refresh()

    def _clear(self) -> None:
        drawn, self._drawn = self._drawn, None
        for task in self._tasks:
            task.number = None
        if drawn is not None:
            with contextlib.suppress(OSError):
                drawn.stop()


def _new_progress() -> Progress:

    title = table.Column(no_wrap=True, overflow="ellipsis", ratio=1)

    class Terminal(console.Console):
        def show_cursor(self, show: bool = True) -> bool:  # noqa: FBT001, FBT002
            """Leave the cursor alone: a signal may end us before it could be shown again."""
            return False

    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False, table_column=title),
        rich_progress.BarColumn(bar_width=20),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeElapsedColumn(),
        console=Terminal(file=sys.stderr),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        expand=True,
    )
