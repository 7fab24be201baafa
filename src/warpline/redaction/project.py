"""The files of a project, for judging paths on a command line."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from warpline.frozen import frozen
from warpline.lazy import lazy_pattern
from warpline.redaction.known_secrets import holds_known_secret

# Files that are programs or configurations, not data.
_HARMLESS_ENDINGS = frozenset(
    {".bash", ".cfg", ".ini", ".ipynb", ".json", ".jsonnet", ".py", ".sh", ".toml", ".yaml", ".yml"}
)
_SCRIPT_ENDINGS = frozenset({".bash", ".ipynb", ".py", ".sh"})
_PART = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,47}", re.ASCII)
_MOST_PARTS = 8
_LONGEST = 128


@frozen
class Project:
    """The directory in which a program was started, with the user's project below it.

    Attributes:
        folder: The directory; None if unknown, or from another machine. Then no files are checked,
            and paths are judged by their form.
    """

    folder: Path | None = None

    def script(self, word: str) -> str | None:
        """Return the form of a script or a program's path to store; None to mask it.

        That is its path in the project, or else the bare file name of a script.
        """
        inside = self._inside(word)
        if inside is not None and self._exists(inside):
            return f"./{inside}" if word.startswith("./") else inside
        name = word.rpartition("/")[2]
        return name if _is_plain(name) and _ending(name) in _SCRIPT_ENDINGS else None

    def program(self, word: str) -> str | None:
        """Return the form of a command's first word to store; None to mask it."""
        inside = self._inside(word) if "/" in word else None
        if inside is not None and self._exists(inside):
            return f"./{inside}" if word.startswith("./") else inside
        name = word.rpartition("/")[2]
        return name if _is_plain(name) else None

    def config(self, word: str) -> str | None:
        """Return the path of a script or configuration in the project; None if it is neither."""
        inside = self._inside(word)
        if inside is None or _ending(inside) not in _HARMLESS_ENDINGS:
            return None
        return inside if self._exists(inside) else None

    def has_config(self, word: str) -> bool:
        """Return whether a word is an existing script or configuration."""
        return self.folder is not None and self.config(word) is not None

    def _inside(self, word: str) -> str | None:
        """Return the path relative to the project, if all its parts are plain."""
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
