"""Registration of readers, and the choice of the reader for a file."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote

from warpline import progress
from warpline.errors import InputError, UnknownFormatError
from warpline.frozen import frozen
from warpline.registry import Registry
from warpline.trace.duplicates import refuse_same_files, refuse_same_runs
from warpline.trace.source import TableSource

HEAD_BYTES = 4096
RAW_SUFFIX, RAW_FACTS = ".warpline.raw", "session.json"  # of a directory for `warpline recover`


@frozen
class Reader:
    """A file format that can be read.

    Attributes:
        name: Shown to users: ``nsys-sqlite``.
        doc: One sentence about the supported files and versions.
        extensions: Usual file name extensions, with the dot; for messages only.
        sniff: ``(path, first bytes) -> bool``: whether the content has this format. The file name
            must not decide, except for formats that the content does not identify.
        read: Opens the file. Raises InputError if it cannot be used.
        identify: ``(path, first bytes) -> description`` of content that only resembles this
            format, for the error message; None if it is not recognized either.
        folder_endings: File name suffixes of this format in a directory with several files, such as
            one per rank; empty if recordings are single files.
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
    """Open a file with the reader that recognizes its content.

    Raises:
        InputError: The path does not exist, or is not a regular file with content.
        UnknownFormatError: No reader recognizes the file, or more than one does.
    """
    head = _read_head(path)
    fitting = [reader for reader in READERS if reader.sniff(path, head)]
    if len(fitting) == 1:
        return fitting[0].read(path)
    if fitting:
        names = ", ".join(reader.name for reader in fitting)
        raise UnknownFormatError(f"{path}: several readers accept this file: {names}")
    known = "; ".join(f"{reader.name} ({' '.join(reader.extensions)})" for reader in READERS)
    asked = (reader.identify(path, head) for reader in READERS if reader.identify)
    identity = next((f": this is {text}" for text in asked if text), "")
    raise UnknownFormatError(
        f"{path}: unsupported file format{identity}", hint=f"supported formats: {known}"
    )


def read_all(paths: Sequence[Path]) -> list[TableSource]:
    """Open the recordings of paths and directories, and check that no run is there twice.

    Raises:
        UsageError: Two files hold the same run.
        InputError: As `read` does.
    """
    files = [file for path in paths for file in files_of(path)]
    refuse_same_files(files)
    if len(files) == 1:
        return [read(files[0])]
    sources = []
    with progress.task("Reading recordings", len(files)) as advance:
        for file in files:
            sources.append(read(file))
            advance(1)
    refuse_same_runs(sources)
    return sources


def files_of(path: Path) -> list[Path]:
    """Return the file of a path, or the recordings in a directory, ordered by name.

    A directory without recordings is returned as it is. Reading it raises the error.
    """
    endings = tuple(ending for reader in READERS for ending in reader.folder_endings)
    try:
        if not path.is_dir():
            return [path]
        recordings = sorted(item for item in path.iterdir() if item.name.endswith(endings))
    except (OSError, ValueError):
        return [path]
    return recordings or [path]


def _read_head(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise _directory_error(path)
        if not stat.S_ISREG(kind):
            # Opening a pipe would block until it has a writer.
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
        raise InputError(
            f"{path} is empty",
            hint="profile again; recording may have stopped too early",
        )
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
    """Name files with the same stem, such as the .sqlite next to a mistyped .nsys-rep."""
    try:
        candidates = [item.name for item in path.parent.iterdir()]
    except OSError:
        return None
    like = sorted(name for name in candidates if name.startswith(path.stem) and name != path.name)
    return "did you mean " + " or ".join(like[:3]) + "?" if path.stem and like else None
