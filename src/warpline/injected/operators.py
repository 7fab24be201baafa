"""Torch's own records of operators, with shapes, dtypes and sequence numbers.

They are written as torch writes its traces, which is the cheapest way out of torch, to files of the
session: PID-N.ops.json. The recording gets them after it has been written, by what `warpline merge`
does. A state of torch's keeps its records in memory, and takes ten times as much while it ends. So
it is renewed where no operator is open, after about as many records as `_RECORDS`.

Each file has ranges named ``warpline.clock TIME``, whose start is that time of CLOCK_MONOTONIC: it
ties torch's clock to that of the recording.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from . import observer

CLOCK = "warpline.clock "
"""Begins the names of ranges that start at the monotonic time, in ns, that follows."""

_RECORDS = 25_000  # a hundred megabytes while torch ends with them
_BYTES_PER_RECORD = 400
_FIRST_S = 0.5
_LONGEST_S = 60.0
_MOST_BYTES = 2**30  # of a process: then no more is recorded
_CLOCK_RANGES = 5  # the shortest delay of so many counts


class Records(observer.Taker):
    """Writes torch's records of this process to the session.

    Args:
        context: The parts' context.
        record_function: torch's.
    """

    def __init__(self, context: Any, record_function: Any) -> None:
        self._context = context
        self._record_function = record_function
        self._files = 0
        self._bytes = 0
        self._began_s = 0.0
        self._pause_s = _FIRST_S

    def began(self) -> None:
        """Mark the time, and leave a file that says that records are on their way."""
        self._began_s = time.monotonic()
        self._unwritten.touch()
        self._mark_time()

    def is_enough(self) -> bool:
        """Return whether as many records as intended have probably been made."""
        return time.monotonic() - self._began_s > self._pause_s

    def ending(self) -> None:
        """Mark the time again."""
        self._mark_time()

    def take(self, result: Any) -> bool:
        """Write the records of a state to a file of their own; return whether to go on."""
        took_s = max(time.monotonic() - self._began_s, 1e-3)
        path = self._context.file(f"{self._files}.ops.json")
        part = path.with_suffix(".part")
        result.save(str(part))
        size = part.stat().st_size
        part.replace(path)
        self._files += 1
        self._bytes += size
        self._unwritten.unlink()
        per_s = size / _BYTES_PER_RECORD / took_s
        self._pause_s = min(max(_RECORDS / per_s, _FIRST_S / 4), _LONGEST_S)
        if self._bytes <= _MOST_BYTES:
            return True
        self._context.note(
            f"process {os.getpid()} stopped recording operators after {_MOST_BYTES / 2**30:.0f} GiB"
            " of them; record fewer steps"
        )
        return False

    @property
    def _unwritten(self) -> Any:
        return self._context.file("ops.unwritten")

    def _mark_time(self) -> None:
        for _ in range(_CLOCK_RANGES):
            with self._record_function(f"{CLOCK}{time.monotonic_ns()}"):
                pass


def start(context: Any) -> None:
    """Begin to record; torch has been imported."""
    mode = observer.mode_of(context.asked)
    if mode in (observer.RECORDS, observer.RECORDS_SHAPES):
        records = Records(context, sys.modules["torch"].autograd.profiler.record_function)
        observer.hold(observer.Observer(mode, context, records))


def stop() -> None:
    """Write what has been recorded since the last time, and end for good."""
    observer.stop()
