"""The recordings that calls are about: opened once, and what was computed of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from warpline import api, plugins
from warpline.errors import InputError
from warpline.mcp.folders import Folders
from warpline.readers.nsys.sniff import is_report
from warpline.trace.reading import HEAD_BYTES, files_of

if TYPE_CHECKING:
    from warpline.trace import Trace

T = TypeVar("T")

_MOST_TRACES = 4
_MOST_ANSWERS = 32

Key = tuple[tuple[str, int, int], ...]


class Opened:
    """Opens recordings in folders, and keeps the last few.

    Args:
        folders: The folders.
    """

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._traces: OrderedDict[Key, Trace] = OrderedDict()
        self._answers: OrderedDict[Any, Any] = OrderedDict()

    def trace(self, words: Sequence[str]) -> Trace:
        """Return the recordings that a call names, as one trace.

        Raises:
            InputError: One is outside of the folders, or cannot be read.
        """
        paths = self.paths(words)
        key = self._key(paths)
        trace: Trace = self._kept(self._traces, _MOST_TRACES, key, lambda: api.open(*paths))
        return trace

    def paths(self, words: Sequence[str]) -> list[Path]:
        """Return the files or directories that a call names; InputError as `trace` does."""
        plugins.load("readers")
        paths = self.folders.find_all(words)
        for file in _files(paths):
            _refuse_report(file)
        return paths

    def answer(self, words: Sequence[str], question: object, make: Callable[[], T]) -> T:
        """Return what `make` does, kept for later pages of the same question.

        Args:
            words: The recordings.
            question: What is asked, hashable.
            make: Computes the answer.
        """
        key = (self._key(self.paths(words)), question)
        answer: T = self._kept(self._answers, _MOST_ANSWERS, key, make)
        return answer

    @staticmethod
    def _kept(store: OrderedDict[Any, Any], most: int, key: Any, make: Callable[[], Any]) -> Any:
        if key not in store:
            store[key] = make()
            while len(store) > most:
                store.popitem(last=False)
        store.move_to_end(key)
        return store[key]

    @staticmethod
    def _key(paths: Sequence[Path]) -> Key:
        """Return what changes when a file does."""
        facts = ((file, file.stat()) for file in _files(paths))
        return tuple((str(file), found.st_mtime_ns, found.st_size) for file, found in facts)


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in files_of(path)]


def _refuse_report(path: Path) -> None:
    """Raise InputError for a file that only nsys can read: this server starts no programs."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return  # opening it says why
    if is_report(path, head):
        raise InputError(
            f"{path.name} is a report of nsys, which this server does not start",
            hint=f"run nsys export --type sqlite {path.name} and ask about the .sqlite file",
        )
