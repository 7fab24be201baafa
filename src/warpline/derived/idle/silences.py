"""Times without CUDA API calls of the launching threads of a process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_calls import host_calls
from warpline.ops.arrays import I64, BoolArray, is_sorted
from warpline.ops.tiling import by_group
from warpline.trace import Trace

SHORTEST_WAIT_NS = 50_000


class ThreadTimes(NamedTuple):
    """Intervals on threads.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, none before its start.
        thread: Shape (n,), int64, rows of the thread table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64

    def taken(self, rows: I64 | BoolArray) -> ThreadTimes:
        """Return the selected intervals."""
        return ThreadTimes(*(column[rows] for column in self))

    def lasting(self, least_ns: int) -> ThreadTimes:
        """Return the intervals of at least a duration."""
        return self.taken(self.end_ns - self.start_ns >= least_ns)


class Silences(NamedTuple):
    """Times without calls, by process and start.

    Attributes:
        times: The intervals, and the threads that made the next calls.
        before: Shape (n,), int64, the threads that made the last calls before.
    """

    times: ThreadTimes
    before: I64


@derived
def silences(trace: Trace) -> Silences:
    """Return when no launching thread of a process made a call for `SHORTEST_WAIT_NS`."""
    calls = host_calls(trace)
    parts, owners = [], []
    for of_process in by_group(calls.process):
        rows, start = of_process, calls.start_ns[of_process]
        if not is_sorted(start):
            order = np.argsort(start, kind="stable")
            rows, start = rows[order], start[order]
        end = calls.end_ns[rows]
        reach = np.maximum.accumulate(end)
        silent = np.flatnonzero(start[1:] - reach[:-1] >= SHORTEST_WAIT_NS)
        # The latest call to end; among calls that ended earlier, one that still reaches furthest.
        furthest = np.flatnonzero(end == reach)
        last = furthest[np.searchsorted(furthest, silent, side="right") - 1]
        after = rows[silent + 1]
        parts.append(ThreadTimes(reach[silent], calls.start_ns[after], calls.thread[after]))
        owners.append(calls.thread[rows[last]])
    return Silences(joined(parts), np.concatenate([np.zeros(0, np.int64), *owners]))


def joined(parts: list[ThreadTimes]) -> ThreadTimes:
    """Return the intervals of all parts."""
    nothing = np.zeros(0, np.int64)
    return ThreadTimes(
        np.concatenate([nothing, *(part.start_ns for part in parts)]),
        np.concatenate([nothing, *(part.end_ns for part in parts)]),
        np.concatenate([nothing, *(part.thread for part in parts)]),
    )


def process_of_threads(trace: Trace) -> I64:
    """Return the process of each thread."""
    if not trace.has("thread"):
        return np.zeros(0, np.int64)
    return trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
