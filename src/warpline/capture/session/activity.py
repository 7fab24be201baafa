"""How much a program has done while it is recorded, for telling that it does nothing any more.

Threads of communication libraries ask every 100 ms whether a collective has completed, for as long
as a job hangs: queries that say "not ready" are recorded like any call, but nothing happened.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from pathlib import Path
from typing import Final

from warpline.capture.session.raw_numbers import CALL_KIND, LogHeader
from warpline.capture.session.session import LOG_ENDING, LOG_MAGIC

_NOT_READY: Final = 600  # of the runtime and of the driver, and of nothing but queries
_MOST_BYTES: Final = 1 << 20  # between two counts: a program that spins is not examined
_HEAD: Final = ctypes.sizeof(LogHeader)


class Activity:
    """Counts the events of a session that are more than queries without success.

    Args:
        folder: The session's directory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, tuple[int, int]] = {}  # bytes seen, and queries among them
        self._lock = threading.Lock()

    def count(self) -> int:
        """Return how many there were so far, also those that were removed again."""
        total = 0
        with self._lock, contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(LOG_ENDING):
                    with contextlib.suppress(OSError):
                        total += self._of_log(entry.name, entry.path)
        return total

    def _of_log(self, name: str, path: str) -> int:
        with Path(path).open("rb", buffering=0) as file:
            head = file.read(_HEAD)
            if len(head) < _HEAD or not head.startswith(LOG_MAGIC):
                return 0
            header = LogHeader.from_buffer_copy(head)
            used = header.used_bytes
            seen, queries = self._logs.get(name, (used, 0))
            if 0 < used - seen <= _MOST_BYTES:
                queries += _queries(os.pread(file.fileno(), used - seen, seen))
        self._logs[name] = used, queries
        events: int = header.records - queries
        return events


def _queries(records: bytes) -> int:
    """Return how many calls are queries that say "not ready"."""
    words = memoryview(records[: len(records) & ~7]).cast("Q")
    place = found = 0
    while place < len(words) and (size := words[place] >> 48):
        is_call = words[place] >> 32 & 0xFF == CALL_KIND and place + 3 < len(words)
        found += is_call and words[place + 3] >> 32 == _NOT_READY
        place += size
    return found
