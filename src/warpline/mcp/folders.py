"""The folders that were named at the start. Nothing outside of them is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from warpline.errors import InputError, UsageError
from warpline.trace.reading import files_of

_MOST_ENTRIES = 20_000
_MOST_DEPTH = 8


class Entry(NamedTuple):
    """A file in a folder.

    Attributes:
        shown: How calls name it.
        path: The file, without symbolic links.
    """

    shown: str
    path: Path


class Folders:
    """The folders whose recordings may be read.

    Args:
        folders: Existing directories.

    Raises:
        InputError: One is not a directory.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self.roots: list[Path] = []
        for name in folders:
            try:
                root = Path(name).resolve(strict=True)
            except (OSError, ValueError, RuntimeError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise InputError(f"{name}: {reason}") from None
            if not root.is_dir():
                raise InputError(f"{name} is not a directory", hint="name folders of recordings")
            self.roots.append(root)

    def find(self, word: str) -> Path:
        """Return the file or directory that a call names, without symbolic links.

        The error is the same for what is outside and for what does not exist, so it does not reveal
        which files are outside.

        Raises:
            InputError: There is none in the folders.
        """
        for root in self.roots:
            try:
                path = (root / word).resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                continue
            if self._holds(path) and all(self._holds(item.resolve()) for item in files_of(path)):
                return path
        raise InputError(
            f"{_short(word)} is not in the folders that this server may read",
            hint="the tool recordings lists what is there",
        )

    def find_all(self, words: Sequence[str]) -> list[Path]:
        """Return the files or directories that a call names; UsageError for none."""
        if not words:
            raise UsageError("no recording is named", hint="the tool recordings lists them")
        return [self.find(word) for word in words]

    def shown(self, path: Path) -> str:
        """Return how calls name a path: relative to the first folder, absolute in others."""
        first = self.roots[0]
        return os.fspath(path.relative_to(first)) if path.is_relative_to(first) else str(path)

    def files(self) -> Iterator[Entry]:
        """Yield the regular files in the folders, in the order of their names.

        Symbolic links are followed to files inside only; no directory is entered through one.
        """
        count = 0
        for root in self.roots:
            for where, folders, names in os.walk(root):
                depth = len(Path(where).relative_to(root).parts)
                folders[:] = sorted(folders) if depth < _MOST_DEPTH else []
                for name in sorted(names):
                    count += 1
                    if count > _MOST_ENTRIES:
                        return
                    entry = self._entry(Path(where) / name)
                    if entry is not None:
                        yield entry

    def _entry(self, path: Path) -> Entry | None:
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        if not target.is_file() or not self._holds(target):
            return None
        return Entry(self.shown(path), target)

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)


def _short(word: str) -> str:
    shown = word if len(word) <= 120 else word[:119] + "…"
    return repr(shown)
