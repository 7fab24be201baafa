"""Holes in files: parts whose disk space is given back."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from warpline.errors import CaptureError

_PUNCH_HOLE = 0x3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


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
