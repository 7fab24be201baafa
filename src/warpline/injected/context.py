"""What every part gets: the session, the agent, what was asked for, and a place for notes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .agent import Agent

_MOST_NOTES = 100  # an error may come again with each call, and differ


class Context:
    """What a part needs to know.

    Attributes:
        session: The session's directory.
        asked: The words of --pytorch.
        agent: The agent; from the import of torch on.
        parts: The parts that have been started, by name.
        safe_places: Functions that are called on a thread, with False before its outermost call of
            a module, and with True after it, and with the module, recording or not. No operator of
            PyTorch's is open there.
    """

    agent: Agent

    def __init__(self, session: str, agent: str, asked: frozenset[str]) -> None:
        self.session = Path(session)
        self.asked = asked
        self.parts: dict[str, ModuleType] = {}
        self.safe_places: list[Callable[[bool, Any], None]] = []
        self._noted: set[str] = set()
        self._agent_file = agent

    def attach(self, torch: ModuleType) -> bool:
        """Load the agent and return True; OSError if that fails."""
        self.agent = Agent(self._agent_file)
        self.add_line("process.jsonl", {"torch": str(getattr(torch, "__version__", ""))})
        return True

    def file(self, name: str) -> Path:
        """Return the file of this process for `name` in the session, such as 123-modules.jsonl.

        A fork has files of its own, so ask for it each time.
        """
        return self.session / "pytorch" / f"{os.getpid()}-{name}"

    def add_line(self, name: str, content: Any) -> None:
        """Add a line of JSON to a file of this process; without space, it is left out."""
        self.add_lines(name, [content])

    def add_lines(self, name: str, contents: list[Any]) -> None:
        """Add lines of JSON to a file of this process, at once."""
        text = "".join(json.dumps(content) + "\n" for content in contents)
        with contextlib.suppress(OSError), self.file(name).open("a", encoding="utf-8") as file:
            file.write(text)

    def note(self, text: str) -> None:
        """Add a line to the warnings of the recording, once: a sentence without a full stop."""
        if text not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(text)
            self.add_line("notes.jsonl", text)

    def guarded(self, part: str, function: Callable[..., Any], otherwise: Any = None) -> Any:
        """Return a function whose errors are noted, never raised: the program must not notice.

        Args:
            part: The part that the function is of.
            function: The function.
            otherwise: What is returned after an error.
        """

        def call(*args: Any) -> Any:
            try:
                return function(*args)
            except Exception as error:  # noqa: BLE001 - of a program that nobody here knows
                self.note_error(part, error)
                return otherwise

        return call

    def note_error(self, part: str, error: BaseException) -> None:
        """Note that a part does not record, or not all, for an error of ours."""
        name = part.rpartition(".")[2]
        self.note(f"--pytorch: {name} stopped: {type(error).__name__}: {error}")
