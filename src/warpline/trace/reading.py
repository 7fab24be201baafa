"""How a reader is registered and how a file finds its reader."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from warpline.errors import InputError, UnknownFormatError
from warpline.registry import Registry
from warpline.trace.source import TableSource

HEAD_BYTES = 4096
RAW_SUFFIX, RAW_FACTS = ".warpline.raw", "session.json"  # of a directory for `warpline recover`


@dataclass(frozen=True)
class Reader:
    """A file format that can be read.

    Attributes:
        name: Shown to users: ``nsys-sqlite``.
        doc: One sentence: which files, of which versions.
        extensions: Usual endings of file names, with the dot; for messages only.
        sniff: ``(path, first bytes) -> bool``: whether the content is this format. The name of
            the file must not decide, except for formats whose content says nothing.
        read: Opens the file. Raises InputError when it cannot be used.
        identify: ``(path, first bytes) -> what it is instead``, for content that only resembles
            this format: an error that names what was found. None when it says nothing.
        folder_endings: How names end of the files that a folder of this format holds, such as
            one per rank; none if its recordings are single files.
    """

    name: str
    doc: str
    extensions: tuple[str, ...]
    sniff: Callable[[Path, bytes], bool]
    read: Callable[[Path], TableSource]
    identify: Callable[[Path, bytes], str | None] | None = None
    folder_endings: tuple[str, ...] = ()


READERS: Registry[Reader] = Registry("reader")


def read(path: Path) -> TableSource:
    """Open a file with the one reader that recognises its content.

    Raises:
        InputError: The file is missing, empty, or not a file.
        UnknownFormatError: No reader recognises it, or several do.
    """
    head = _read_head(path)
    fitting = [reader for reader in READERS if reader.sniff(path, head)]
    if len(fitting) == 1:
        return fitting[0].read(path)
    if fitting:
        names = ", ".join(reader.name for reader in fitting)
        raise UnknownFormatError(f"{path}: several readers claim this file: {names}")
    known = "; ".join(f"{reader.name} ({' '.join(reader.extensions)})" for reader in READERS)
    asked = (reader.identify(path, head) for reader in READERS if reader.identify)
    found = next((f": it is {text}" for text in asked if text), "")
    raise UnknownFormatError(
        f"{path}: not a recording that Warpline knows{found}", hint=f"it reads: {known}"
    )


def files_of(path: Path) -> list[Path]:
    """Return the files that a path names: itself, or those of a folder that a reader knows.

    Files of a folder are ordered by name. A folder without any is returned: reading it says so.
    """
    endings = tuple(ending for reader in READERS for ending in reader.folder_endings)
    try:
        if not path.is_dir():
            return [path]
        found = sorted(item for item in path.iterdir() if item.name.endswith(endings))
    except (OSError, ValueError):
        return [path]
    return found or [path]


def _read_head(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise _directory_error(path)
        if not stat.S_ISREG(kind):
            # Opening a pipe would wait for its writer.
            raise InputError(f"{path} is not a regular file", hint="save it to a file first")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", hint=_nearby(path)) from None
    except (OSError, ValueError) as error:
        # ValueError: a NUL in the name.
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason}") from None
    if not head:
        raise InputError(f"{path} is empty", hint="was the recording stopped before it was saved?")
    return head


def _directory_error(path: Path) -> InputError:
    """Return the error for a directory that is not a recording; it says what to pass instead."""
    if path.name.endswith(RAW_SUFFIX) or (path / RAW_FACTS).is_file():
        return InputError(
            f"{path} is an unfinished recording", hint=f"run warpline recover {quote(str(path))}"
        )
    endings = sorted((end for reader in READERS for end in reader.extensions), key=len)
    names = [item.name for item in path.iterdir()]
    for ending in reversed(endings):  # .json.gz before .gz
        count = sum(name.endswith(ending) for name in names)
        if count:
            files = f"{count} {ending} file" + ("s" if count > 1 else "")
            return InputError(
                f"{path} is a directory with {files}, not a recording",
                hint=f"pass the files: {quote(str(path))}/*{ending}",
            )
    return InputError(f"{path} is a directory without recordings", hint="pass a recording file")


def _nearby(path: Path) -> str | None:
    """Name files with the same beginning, such as the .sqlite beside a mistyped .nsys-rep."""
    try:
        candidates = [item.name for item in path.parent.iterdir()]
    except OSError:
        return None
    like = sorted(name for name in candidates if name.startswith(path.stem) and name != path.name)
    return "did you mean " + " or ".join(like[:3]) + "?" if path.stem and like else None
