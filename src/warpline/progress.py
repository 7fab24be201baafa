"""Progress of long tasks, reported to an observer if there is one.

The command line installs an observer on a terminal. Without one, reporting does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

Advance = Callable[[int], None]
Observer = Callable[[str, int | None], AbstractContextManager[Advance]]

_observer: ContextVar[Observer | None] = ContextVar("warpline_progress", default=None)


@contextmanager
def task(title: str, total: int | None = None) -> Iterator[Advance]:
    """Report a task while the block runs; yield the function that takes the units done.

    Call it rarely: for a MiB or a table, not for an event.

    Args:
        title: What the task does, such as ``Reading run.sqlite``.
        total: Units of the whole task; None if unknown.
    """
    observer = _observer.get()
    if observer is None:
        yield _ignore
        return
    with observer(title, total) as advance:
        yield advance


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Report the tasks of this thread to an observer while the block runs."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def _ignore(units: int) -> None:
    pass
