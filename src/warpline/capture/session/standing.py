"""The page that programs stand by for: which session records now, if any.

The layout is `StandingPage` in ``native/raw/warpline_raw.h``; a test compares the two. A program
under ``warpline launch`` has the page's directory in its environment in place of a session's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
from pathlib import Path

from warpline.capture.session.control import CONTROL_VERSION
from warpline.errors import CaptureError

FILE_NAME = "standing"
STANDING_MAGIC = 0x53424C57
STANDING_BYTES = 8192
STANDING_OVER = 0xFFFFFFFF
FOLDER_BYTES = 4080

_FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}  # numbers of the system call
_FUTEX_WAKE = 1
_ALL = 2**31 - 1


class StandingPage(ctypes.LittleEndianStructure):
    """The page's layout. With an odd number, the session in `folders[number >> 1 & 1]` records."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("number", ctypes.c_uint32),
        ("unsettled", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32 * 4),
        ("folders", ctypes.c_char * FOLDER_BYTES * 2),
    )


def announced_in(folder: Path) -> Path | None:
    """Return the session that the page in a directory announces, or None.

    Raises:
        OSError: There is no page.
    """
    content = (folder / FILE_NAME).read_bytes()
    if len(content) != STANDING_BYTES:
        return None
    return announced_by(StandingPage.from_buffer_copy(content))


def announced_by(page: StandingPage) -> Path | None:
    """Return the session that a page announces, or None."""
    number = page.number
    if number % 2 == 0 or number == STANDING_OVER:
        return None
    return Path(os.fsdecode(page.folders[number // 2 % 2].value))


class StandingFile:
    """The page, mapped by the process that starts and stops recordings.

    Args:
        mapping: The file, shared and writable.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._page = StandingPage.from_buffer(mapping)

    @classmethod
    def create(cls, folder: Path) -> StandingFile:
        """Write the page of a new launch to a directory, and map it.

        Raises:
            OSError: It cannot be written.
        """
        page = StandingPage(magic=STANDING_MAGIC, version=CONTROL_VERSION)
        handle = os.open(
            folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(handle, "r+b") as file:
            file.write(bytes(page))
            file.flush()
            return cls(mmap.mmap(file.fileno(), STANDING_BYTES))

    @property
    def announced(self) -> Path | None:
        """The directory of the session that records now, or None."""
        return announced_by(self._page)

    @property
    def unsettled(self) -> int:
        """How many processes that were attached to are still taking up CUDA."""
        return int(self._page.unsettled)

    def announce(self, folder: Path) -> None:
        """Have all programs record to a session.

        Raises:
            CaptureError: One records already, or the path is too long.
        """
        number = self._page.number
        if number % 2:
            raise CaptureError("this session is recording already", hint="run warpline stop first")
        path = os.fsencode(folder.absolute())
        if len(path) >= FOLDER_BYTES:
            raise CaptureError(f"{folder}: {os.strerror(errno.ENAMETOOLONG)}")
        number = (number + 1) % (STANDING_OVER - 1)
        self._page.folders[number // 2 % 2].value = path
        self._set(number)

    def withdraw(self) -> None:
        """Have all programs leave the session that they record to."""
        if self._page.number % 2 and self._page.number != STANDING_OVER:
            self._set(self._page.number + 1)

    def close(self) -> None:
        """Have all programs leave for good, and unmap the page. A second call does nothing."""
        if self._mapping.closed:
            return
        self._set(STANDING_OVER)
        del self._page
        with contextlib.suppress(BufferError):
            self._mapping.close()

    def _set(self, number: int) -> None:
        # A store of four aligned bytes, which ctypes makes at once.
        self._page.number = number
        _wake(ctypes.addressof(self._page) + StandingPage.number.offset)


def _wake(address: int) -> None:
    """Wake the agents' threads that wait for a change of a word."""
    number = _FUTEX_CALLS.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(
            number, ctypes.c_void_p(address), _FUTEX_WAKE, _ALL, None, None, 0
        )
