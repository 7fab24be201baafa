"""Holes in files: parts whose disk space is given back."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from warpline.errors import CaptureError

_PUNCH_HOLE = 0x3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_BLOCK = 4096  # of file systems; a part of one is filled with zeros and frees nothing
_COPY_BYTES = 16 << 20


def punch_hole(file: int, begin: int, size: int) -> None:
    """Give back the space of a part of a file, which then reads as zeros.

    Args:
        file: Its descriptor.
        begin: Where the part begins, in bytes.
        size: Its length.

    Raises:
        OSError: The file system cannot do that.
    """
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    if fallocate(file, _PUNCH_HOLE, ctypes.c_int64(begin), ctypes.c_int64(size)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def check_holes(folder: Path) -> None:
    """Check that files in a directory can have holes.

    Raises:
        CaptureError: Its file system cannot give back a part of a file.
    """
    path = folder / "hole"
    try:
        with path.open("xb", buffering=0) as file:
            file.write(bytes(4096))
            punch_hole(file.fileno(), 0, 4096)
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.ENOSYS}:
            return  # a full disk: that is reported when the recording is written
        raise CaptureError(
            f"--keep-last: the file system of {folder.parent} cannot free parts of files",
            hint="use -o to record to another one, such as ext4, XFS, Btrfs or tmpfs",
        ) from error
    finally:
        path.unlink(missing_ok=True)


def give_back(descriptor: int, start: int, end: int) -> None:
    """Make a hole of the whole blocks between two places of a file.

    Where the file system has no holes, nothing is done.
    """
    start, end = -(-start // _BLOCK) * _BLOCK, end // _BLOCK * _BLOCK
    if start < end:
        with contextlib.suppress(OSError, AttributeError):
            punch_hole(descriptor, start, end - start)


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
        copy_part(source, target, start, end)


def copy_part(source: int, target: int, start: int, end: int) -> None:
    """Copy the bytes between two places of a file to the same place of another one.

    Raises:
        OSError: They cannot be copied.
    """
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
