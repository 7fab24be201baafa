"""Files and directories that appear only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from warpline.errors import InputError

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextlib.contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name next to `path`; rename it to `path` when the block succeeds.

    Raises InputError if the file cannot be written. Nothing half-written remains.
    """
    unfinished = _unfinished(path)
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
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
    import shutil  # noqa: PLC0415 - start-up

    exists = path.is_dir()  # It may be a mount point, so its temporary directory is inside it.
    unfinished = _unfinished(path / "export" if exists else path)
    try:
        unfinished.mkdir()
        yield unfinished
        if exists:
            for file in sorted(unfinished.iterdir()):
                file.replace(path / file.name)
        else:
            unfinished.rename(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error to raise when the system refuses to write `path`."""
    reason = os.strerror(error.errno) if error.errno else error.strerror or str(error)
    hint = None
    if error.errno in _FULL:
        hint = "free some disk space, or write to another disk"
    elif error.errno in _FORBIDDEN:
        hint = "write to another directory"
    return InputError(f"cannot write {path}: {reason}", hint=hint)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(8).hex()}")
