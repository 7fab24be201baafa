"""Torch's operators: as NVTX ranges, and one step of them as torch's own records.

NVTX ranges cost the least, are written while the program runs, and have names, sequence numbers and
shapes. Element types, strides and values of inputs are in torch's records only, which cost several
times as much and are written when their state ends. So there is one step of these, as a sample:
what is the same in all its operators of a name and shapes holds for the others, too. Torch without
NVTX, which is built for the CPU, gives nothing but records.

Records are written as torch writes its traces, which is the cheapest way out of it, to files of the
session: PID-N.ops.json. They become rows after the recording has been written, by what `warpline
merge` does. Each file has ranges named ``warpline.clock TIME``, whose start is that time of
CLOCK_MONOTONIC: it ties torch's clock to that of the recording.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from . import observer

CLOCK = "warpline.clock "
"""Begins the names of ranges that start at the monotonic time, in ns, that follows."""

_RECORDS = 25_000  # torch needs a hundred megabytes to end with them
_BYTES_PER_RECORD = 400
_FIRST_S = 0.5
_LONGEST_S = 60.0
_MOST_BYTES = 2**30  # of a process: then no more is recorded
_CLOCK_RANGES = 5  # the shortest delay of so many counts
_SAMPLE_AFTER = 3  # outermost calls of modules: the first ones are slower, and do more
_MOST_CALLS = 16  # in the sample, where none of them is of the same module


class Records(observer.Taker):
    """Writes torch's records of this process to the session.

    Args:
        mode: The observer's mode.
        context: The parts' context.
    """

    def __init__(self, mode: str, context: Any) -> None:
        self._mode = mode
        self._context = context
        self._record_function = sys.modules["torch"].autograd.profiler.record_function
        self._files = 0
        self._bytes = 0
        self._began_s = 0.0
        self._pause_s = _FIRST_S

    def began(self) -> None:
        """Mark the time, and leave a file that says that records are on their way."""
        self._began_s = time.monotonic()
        self._unwritten.touch()
        self._mark_time()

    def wants(self, *, is_end: bool, module: Any) -> str | None:
        """Return the same mode again if about as many records as intended have been made."""
        is_enough = time.monotonic() - self._began_s > self._pause_s
        return self._mode if is_end and is_enough else None

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


class Sample(Records):
    """Records of one step, from the end of an outermost call of a module to that of its next one.

    Other modules may be called in between, such as that of the loss.
    """

    def __init__(self, context: Any) -> None:
        super().__init__(observer.RECORDS_SHAPES, context)
        self._calls = 0
        self._module = 0

    def wants(self, *, is_end: bool, module: Any) -> str | None:
        """Return the mode of records when the step begins, that of ranges when it has ended."""
        self._calls += is_end
        if is_end and self._calls == _SAMPLE_AFTER:
            self._module = id(module)
            return observer.RECORDS_SHAPES
        is_longest = self._calls == _SAMPLE_AFTER + _MOST_CALLS
        if is_end and self._module and (is_longest or id(module) == self._module):
            self._module = 0
            return observer.NVTX_SHAPES
        return None


def start(context: Any) -> None:
    """Begin to record; torch has been imported."""
    has_shapes = "functions-trace-shapes" in context.asked
    if not observer.has_nvtx():
        mode = observer.RECORDS_SHAPES if has_shapes else observer.RECORDS
        observer.hold(observer.Observer(mode, context, Records(mode, context)))
    elif has_shapes:
        observer.hold(observer.Observer(observer.NVTX_SHAPES, context, Sample(context)))
    else:
        observer.hold(observer.Observer(observer.NVTX, context))


def stop() -> None:
    """Write what has been recorded since the last time, and end for good."""
    observer.stop()
