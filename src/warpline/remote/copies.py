"""Recordings of other machines that are read here: each is copied once, for as long as it is used.

A copy's directory is named after the file's path, size and time there, so that a file that has
changed is copied again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

from warpline.errors import HostError, InputError
from warpline.frozen import frozen
from warpline.hosts import Place
from warpline.remote.bootstrap import cache
from warpline.remote.bringing import fetch
from warpline.remote.job import decoded, encoded
from warpline.remote.ssh import Connection

_UNUSED_S = 7 * 24 * 3600


@frozen
class Copy:
    """A file of another machine that is here.

    Attributes:
        path: The copy.
        size: Its bytes.
        is_new: Whether it has just been copied.
    """

    path: Path
    size: int
    is_new: bool


def copy_of(place: Place, connection: Connection) -> Copy:
    """Return a file of another machine, which is copied unless it is here.

    Raises:
        HostError: The machine cannot be reached, or the file cannot be read.
        InputError: It cannot be written here.
    """
    with connection.request({"do": "look", "path": encoded(place.path)}) as exchange:
        said = exchange.hear(path=str, size=int, mtime_ns=int)
        size = said["size"]
        name = Path(decoded(said["path"])).name
        if name in {"", ".", ".."}:
            raise HostError(f"{place} has no name")
        what = "\0".join([place.host, said["path"], str(size), str(said["mtime_ns"])])
        key = hashlib.sha256(what.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        output = _folder() / key / name
        try:
            is_new = not output.exists()
            output.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.utime(output.parent)
        except OSError as error:
            raise InputError(f"cannot write {output.parent}: {error.strerror}") from error
        if is_new:
            _remove_unused()
            fetch(exchange, 0, output, f"Copying {place}")
    return Copy(output, size, is_new)


def _folder() -> Path:
    return cache() / "copies"


def _remove_unused() -> None:
    """Remove what has not been read for a week."""
    oldest = time.time() - _UNUSED_S
    for folder in _folder().iterdir():
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
