"""The parts of the package: which of them are asked for, and their start and stop."""

from __future__ import annotations

import atexit
import importlib
import sys
from types import ModuleType

from .context import Context

# The file of a part, and the words of --pytorch that it is for. In this order they start.
PARTS = (
    ("observer", {"modules", "autograd-nvtx", "autograd-shapes-nvtx"}),
    ("modules", {"modules"}),
    ("profiler_ranges", {"optimizer", "dataloader"}),
    ("operators", {"functions-trace", "functions-trace-shapes"}),
    ("compiled", {"modules"}),
    ("memory", {"memory"}),
    ("tensors", {"memory"}),
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
        self._started: list[tuple[str, ModuleType]] = []

    def stop(self) -> None:
        """Stop the parts that were started, the last one first."""
        atexit.unregister(self.stop)
        while self._started:
            name, part = self._started.pop()
            self._context.guarded(name, part.stop)()

    def start(self) -> None:
        """Start the parts, in a program that has imported torch; they stop when it exits."""
        atexit.register(self.stop)
        context = self._context
        if not context.guarded("agent", context.attach, otherwise=False)(sys.modules["torch"]):
            return
        for name, words in PARTS:
            if words & context.asked:
                context.guarded(name, self._start_part)(name)

    def _start_part(self, name: str) -> None:
        try:
            part = importlib.import_module(f".{name}", __package__)
        except ModuleNotFoundError as error:
            if error.name == f"{__package__}.{name}":  # not there yet
                return
            raise
        self._context.parts[name] = part
        part.start(self._context)
        self._started.append((name, part))
