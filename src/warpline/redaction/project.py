"""The files of a project, by which paths of a command line are judged."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warpline.redaction.known_secrets import holds_known_secret

# Files that say what was run, not what it works on.
_HARMLESS_ENDINGS = frozenset(
    {".bash", ".cfg", ".ini", ".ipynb", ".json", ".jsonnet", ".py", ".sh", ".toml", ".yaml", ".yml"}
)
_SCRIPT_ENDINGS = frozenset({".bash", ".ipynb", ".py", ".sh"})
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,47}", re.ASCII)
_MOST_PARTS = 8
_LONGEST = 128


@dataclass(frozen=True)
class Project:
    """Where a program was started: the files below are the user's project.

    Attributes:
        folder: The folder; None if it is not known, or not of this machine. Then no file is looked
            for, and paths are judged by their form.
    """

    folder: Path | None = None

    def script(self, word: str) -> str | None:
        """Return how a script, or another program by its path, is shown; None if it may not be.

        That is its path in the project, else the bare name of a file that is a script.
        """
        inside = self._inside(word)
        if inside is not None and self._exists(inside):
            return f"./{inside}" if word.startswith("./") else inside
        name = word.rpartition("/")[2]
        return name if _is_plain(name) and _ending(name) in _SCRIPT_ENDINGS else None

    def program(self, word: str) -> str | None:
        """Return how the first word of a command is shown; None if its name is no plain one."""
        inside = self._inside(word) if "/" in word else None
        if inside is not None and self._exists(inside):
            return f"./{inside}" if word.startswith("./") else inside
        name = word.rpartition("/")[2]
        return name if _is_plain(name) else None

    def config(self, word: str) -> str | None:
        """Return the path in the project of a script or configuration; None if it is none."""
        inside = self._inside(word)
        if inside is None or _ending(inside) not in _HARMLESS_ENDINGS:
            return None
        return inside if self._exists(inside) else None

    def has_config(self, word: str) -> bool:
        """Return whether a file is there, so that its path needs no flag that says what it is."""
        return self.folder is not None and self.config(word) is not None

    def _inside(self, word: str) -> str | None:
        """Return the path from the project's folder, with plain parts only."""
        if len(word) > 4096 or "\0" in word:
            return None
        path = word
        if path.startswith("/"):
            if self.folder is None or not path.startswith(f"{self.folder}/"):
                return None
            path = path.removeprefix(f"{self.folder}/")
        path = path.removeprefix("./")
        parts = path.split("/")
        is_plain = (
            len(path) <= _LONGEST and len(parts) <= _MOST_PARTS and all(map(_is_plain, parts))
        )
        return path if is_plain else None

    def _exists(self, inside: str) -> bool:
        if self.folder is None:
            return _ending(inside) in _HARMLESS_ENDINGS
        return os.path.isfile(self.folder / inside)  # noqa: PTH113 - false, not an error, if hostile


def _is_plain(part: str) -> bool:
    return _PART.fullmatch(part) is not None and not holds_known_secret(part)


def _ending(path: str) -> str:
    return PurePosixPath(path).suffix.lower()
