"""Output files: whether they may be written, and how they appear when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.errors import InputError, UsageError
from warpline.lazy import lazy

if TYPE_CHECKING:
    import shlex
    import shutil
else:
    shlex = lazy("shlex")
    shutil = lazy("shutil")

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def check_output(path: Path, *, is_folder: bool = False, overwrite: bool = False) -> None:
    """Check that an output can be written.

    Raises:
        InputError: Its directory does not exist.
        UsageError: It exists, or is not the kind of file that is to be written.
    """
    if not path.parent.is_dir():
        raise InputError(
            f"cannot write {path}: there is no directory {path.parent}",
            hint=f"create it: mkdir -p {shlex.quote(str(path.parent))}",
        )
    if path.exists() and path.is_dir() != is_folder:
        found, needed = ("a file", "a directory") if is_folder else ("a directory", "a file")
        raise UsageError(f"{path} is {found}; this format writes {needed}", hint=f"name {needed}")
    if is_special(path) and not path.is_dir():
        # Replacing it, as a file is replaced, would remove a device from the system.
        raise UsageError(f"{path} is a device or a pipe", hint="name a regular file")
    is_taken = any(path.iterdir()) if path.is_dir() else path.exists()
    if is_taken and not overwrite:
        raise UsageError(f"{path} already exists", hint="use --force-overwrite to replace it")


def is_special(path: Path) -> bool:
    """Return whether the path exists and is not a file, such as a directory or a device."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name next to `path`; rename it to `path` when the block succeeds.

    Raises InputError if the file cannot be written. Nothing half-written remains.
    """
    unfinished = unfinished_name(path)
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        if _is_elsewhere(error, path, unfinished):
            raise
        raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def complete_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory; move its files to `path` when the block succeeds.

    Files of the same name in an existing directory are replaced, and other files stay. Raises
    InputError if the directory cannot be written. Nothing half-written remains.
    """
    exists = path.is_dir()  # It may be a mount point, so its temporary directory is inside it.
    unfinished = unfinished_name(path / "export" if exists else path)
    try:
        unfinished.mkdir()
        yield unfinished
        if exists:
            for file in sorted(unfinished.iterdir()):
                file.replace(path / file.name)
        else:
            unfinished.rename(path)
    except OSError as error:
        if _is_elsewhere(error, path, unfinished):
            raise
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_elsewhere(error: OSError, *outputs: Path) -> bool:
    """Return whether an error names a file that is not written here, such as an input.

    A full disk is always about an output, also when the system names the file that is copied.
    """
    if error.filename is None or error.errno in _FULL:
        return False
    named = Path(str(error.filename))
    return {named, *named.parents}.isdisjoint(outputs)


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error to raise when the system refuses to write `path`."""
    reason = os.strerror(error.errno) if error.errno else error.strerror or str(error)
    hint = None
    if error.errno in _FULL:
        hint = "free some disk space, or write to another disk"
    elif error.errno in _FORBIDDEN:
        hint = "write to another directory"
    return InputError(f"cannot write {path}: {reason}", hint=hint)


def unfinished_name(path: Path) -> Path:
    """Return a new name next to `path`, for its content until that is complete.

    Not that of `tempfile`, whose files are private: an output has the usual mode.
    """
    return path.with_name(f".{path.name}.{os.urandom(8).hex()}")
