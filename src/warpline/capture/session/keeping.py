"""Recordings that keep their last seconds only: the logs of the session are trimmed as they grow.

The native core removes what is old (``native/core/src/raw/trim.h``) and leaves holes in the logs,
so the session needs about as much disk as the kept time, however long it lasts. The agents take no
part in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpline import native
from warpline.capture.session import holes, pytorch
from warpline.capture.session.raw_numbers import LogHeader
from warpline.capture.session.session import LOG_ENDING
from warpline.errors import AgentMissingError, CaptureError, UsageError

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TEXT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)")
_LONGEST_S = 86_400.0
_LONGEST_STEPS_S = 600.0
_MOST_STEPS = 100_000
_MESSAGE_BYTES = 256
_ATTEMPTS = 5


@dataclass(frozen=True)
class KeepLast:
    """What ``--keep-last`` asks for.

    Attributes:
        seconds: The time to keep; if steps are, the most that they may take.
        steps: How many steps to keep, and the one under way; 0: the time says it.
    """

    seconds: float
    steps: int = 0

    @classmethod
    def of(cls, text: str) -> KeepLast:
        """Return what a value of the flag asks for.

        Raises:
            UsageError: It is malformed.
        """
        match = _TEXT.fullmatch(text.strip().lower())
        number = 0.0 if match is None else float(match["number"])
        unit = "" if match is None else match["unit"]
        if unit in {"step", "steps"} and number.is_integer() and 0 < number <= _MOST_STEPS:
            return cls(_LONGEST_STEPS_S, int(number))
        if unit not in _UNITS or not 0 < number * _UNITS[unit] <= _LONGEST_S:
            raise UsageError(
                f"--keep-last {text!r}: expected a time of at most 24h, or a number of steps",
                hint="use --keep-last=30s or --keep-last=20steps",
            )
        return cls(number * _UNITS[unit])


def logs_of(folder: Path) -> list[Path]:
    """Return the logs of a session; none if its directory is gone."""
    try:
        return [path for path in folder.iterdir() if path.name.endswith(LOG_ENDING)]
    except OSError:
        return []


def trim(logs: Sequence[Path], from_ns: int, until_ns: int, *, is_last: bool = False) -> int:
    """Remove what was complete before a time from logs. Return the bytes given back.

    Args:
        logs: All logs of a session.
        from_ns: The time, monotonic.
        until_ns: The present; later times are not believed.
        is_last: Whether the session is over: nothing stays that is older, or later than `until_ns`.

    Raises:
        AgentMissingError: The native core is missing.
        CaptureError: There is not enough memory.
    """
    core = native.core()
    if core is None:
        raise AgentMissingError(
            f"--keep-last requires the native core: {native.status().reason}",
            hint="reinstall warpline with a C++20 compiler",
        )
    paths = (ctypes.c_char_p * len(logs))(*(os.fsencode(path) for path in logs))
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    freed = core.wl_raw_trim(
        paths, len(logs), from_ns, until_ns, int(is_last), message, _MESSAGE_BYTES
    )
    if freed < 0:
        raise CaptureError(f"cannot trim the recording: {message.value.decode()}")
    return int(freed)


def copy_session(folder: Path, target: Path) -> None:
    """Copy a session that goes on, as it is now.

    Args:
        folder: Its directory.
        target: An empty directory.

    Raises:
        OSError: It cannot be copied.
    """
    for path in sorted(folder.iterdir()):
        if path.name.endswith(LOG_ENDING):
            with contextlib.suppress(FileNotFoundError):  # of a process that ended long ago
                _copy_log(path, target / path.name)
        elif path.is_file():
            with path.open("rb", buffering=0) as file, (target / path.name).open("xb") as made:
                holes.copy(file.fileno(), made.fileno())
        elif path.name == pytorch.FOLDER and path.is_dir() and not path.is_symlink():
            (target / path.name).mkdir()
            copy_session(path, target / path.name)


def _copy_log(path: Path, target: Path) -> None:
    """Copy a log, holes left out; once more where it was trimmed meanwhile."""
    with path.open("rb", buffering=0) as source, target.open("xb", buffering=0) as copy:
        for _ in range(_ATTEMPTS):
            page = os.pread(source.fileno(), ctypes.sizeof(LogHeader), 0)
            if len(page) < ctypes.sizeof(LogHeader):
                return  # it has just been made
            header = LogHeader.from_buffer_copy(page)
            begin, end = header.first_bytes or header.header_bytes, header.used_bytes
            copy.truncate(0)
            os.pwrite(copy.fileno(), page, 0)
            holes.copy_part(source.fileno(), copy.fileno(), begin, end)
            copy.truncate(max(end, begin) + 8)  # a header of zero ends a log
            page = os.pread(source.fileno(), ctypes.sizeof(LogHeader), 0)
            if LogHeader.from_buffer_copy(page).first_bytes == header.first_bytes:
                return
