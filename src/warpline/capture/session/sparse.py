"""Files that grow while their beginning is given back to the file system, as holes of zeros."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

_PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_BLOCK = 4096  # of file systems; a part of one is filled with zeros and frees nothing
_COPY_BYTES = 1 << 20


def give_back(descriptor: int, start: int, end: int) -> None:
    """Make a hole of the whole blocks between two places of a file.

    Where the file system has no holes, nothing is done.
    """
    start, end = -(-start // _BLOCK) * _BLOCK, end // _BLOCK * _BLOCK
    punch = getattr(ctypes.CDLL(None), "fallocate", None)
    if start < end and punch is not None:
        punch(descriptor, _PUNCH_HOLE, ctypes.c_int64(start), ctypes.c_int64(end - start))


def data_from(descriptor: int, place: int) -> int:
    """Return where data begins after the last hole behind a place; that place without a hole."""
    for start, _ in _parts(descriptor):
        place = max(place, start)
    return place


def copy(source: int, target: int) -> None:
    """Copy a file that may grow meanwhile to an empty one, with its holes.

    Raises:
        OSError: It cannot be copied.
    """
    for start, end in _parts(source):
        for at in range(start, end, _COPY_BYTES):
            os.pwrite(target, os.pread(source, min(_COPY_BYTES, end - at), at), at)


def _parts(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a file that is no hole."""
    end = 0
    with contextlib.suppress(OSError):  # ENXIO: there is no more
        while True:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            yield start, end
