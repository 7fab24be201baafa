"""The parts of the package: which of them are asked for, and their start and stop."""

from __future__ import annotations

import atexit
import importlib
import sys
from types import ModuleType

from .context import Context
from .watch_import import call_after_import, forget

# The file of a part, and the words of --pytorch that it is for. In this order they start.
PARTS = (
    ("observer", {"modules", "autograd-nvtx", "autograd-shapes-nvtx"}),
    ("modules", {"modules"}),
    ("profiler_ranges", {"optimizer", "dataloader"}),
    ("operators", {"functions-trace", "functions-trace-shapes"}),
    ("compiled", {"modules"}),
)


class Parts:
    """The parts that a program is recorded with.

    Args:
        session: The session's directory.
        agent: The agent's file.
        asked: The words of --pytorch.
    """

    def __init__(self, session: str, agent: str, asked: frozenset[str]) -> None:
        self._context = Context(session, agent, asked)
        self._started: list[ModuleType] = []

    def begin(self) -> None:
        """Start the parts once torch has been imported."""
        self._context.tell_process()
        atexit.register(self.end)
        call_after_import("torch", self._start)

    def end(self) -> None:
        """Stop the parts that were started, the last one first."""
        atexit.unregister(self.end)
        forget(self._start)
        while self._started:
            part = self._started.pop()
            try:
                part.stop()
            except Exception as error:  # noqa: BLE001 - noted; the program must not notice
                self._context.note_error(part.__name__, error)

    def _start(self) -> None:
        context = self._context
        try:
            context.attach(sys.modules["torch"])
        except Exception as error:  # noqa: BLE001
            context.note_error("agent", error)
            return
        for name, words in PARTS:
            if not words & context.asked:
                continue
            try:
                part = importlib.import_module(f".{name}", __package__)
                context.parts[name] = part
                part.start(context)
                self._started.append(part)
            except Exception as error:  # noqa: BLE001
                if not _is_missing(error, name):
                    context.note_error(name, error)


def _is_missing(error: Exception, name: str) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == f"{__package__}.{name}"
