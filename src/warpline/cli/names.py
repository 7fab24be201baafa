"""Names of output files: the default, and the suffixes that name a format."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from warpline.errors import UsageError
from warpline.lazy import lazy_pattern

FORMAT_OF_SUFFIX = {".csv": "csv", ".json": "json", ".md": "markdown", ".txt": "text"}
# What the names of ranks end in, where the number is removed.
_NUMBERED = lazy_pattern(r"[\W_]*(rank|worker)?[\W_0-9]*$", re.IGNORECASE)


def default_name(recordings: Sequence[str], suffix: str) -> str:
    """Return the default output file, in the current directory.

    It is the name of the recording with another suffix. For several recordings, such as ranks,
    it is the beginning that their names share.
    """
    names = [bare_name(word) for word in recordings]
    # Of the names, character by character, not of paths.
    shared = os.path.commonprefix(names)  # noqa: RUF071
    if len(names) > 1:
        shared = _NUMBERED.sub("", shared) or shared
    return (shared or names[0]) + suffix


def bare_name(word: str) -> str:
    """Return the name of a recording without its directory and suffixes."""
    path = Path(word).resolve() if Path(word).is_dir() else Path(word)
    if path.is_dir():
        return path.name or "report"
    name = path.stem
    for suffix in (".json", ".trace", ".pt"):  # of NAME.pt.trace.json.gz
        name = name.removesuffix(suffix)
    return name


def unknown_suffix(name: str, known: Iterable[str], otherwise: str | None = None) -> UsageError:
    """Return the error for a file name whose suffix names no format."""
    *others, last = known
    hint = f"use {', '.join(others)} or {last}"
    return UsageError(
        f"{name}: unknown output suffix {Path(name).suffix!r}",
        hint=f"{hint}, or {otherwise}" if otherwise else hint,
    )
