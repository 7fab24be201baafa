"""Files that are complete when they appear."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from warpline.errors import InputError


@contextlib.contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a name beside `path` to write to; the file moves to `path` when the block ends well.

    Raises InputError if the system refuses to write it.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
