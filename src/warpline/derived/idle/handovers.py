"""The thread to launch the work after a gap: the launching one, or one that handed over to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.idle.gaps import Gaps, Spans
from warpline.derived.idle.host_calls import HostCalls, host_calls
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, is_repeated
from warpline.ops.tiling import by_group
from warpline.trace import Trace


def threads_to_launch(trace: Trace, gaps: Gaps, spans: Spans) -> tuple[Spans, I64]:
    """Return the spans with the thread to launch; split in two where another one handed over."""
    calls = host_calls(trace)
    call = operations(trace).call[gaps.after[spans.gap]]
    columns = trace.columns("api_call", "thread_id", "start_ns")
    thread = columns["thread_id"].values[call].astype(np.int64)
    # A thread that began the launch before the gap did not wait for another thread.
    early = columns["start_ns"].values[call] < spans.start_ns
    rows = np.flatnonzero(_has_other_threads(calls)[thread] & ~early)
    handover = _handovers(calls, spans.taken(rows), thread[rows])
    rows, until, other = rows[handover.row], handover.until_ns, handover.thread
    if not len(rows):
        return spans, thread
    start = spans.start_ns.copy()
    start[rows] = until
    joined = Spans(
        np.concatenate((spans.gap[rows], spans.gap)),
        np.concatenate((spans.start_ns[rows], start)),
        np.concatenate((until, spans.end_ns)),
    )
    return joined, np.concatenate((other, thread))


class _Handovers(NamedTuple):
    """Spans in which one thread handed over to another.

    Attributes:
        row: Shape (k,), int64, rows of the spans.
        until_ns: Shape (k,), int64, end of the last call of the first thread, inside the span.
        thread: Shape (k,), int64, the first thread.
    """

    row: I64
    until_ns: I64
    thread: I64


def _has_other_threads(calls: HostCalls) -> BoolArray:
    """Return the threads that are not the only launching one of their process, shape (threads,)."""
    count = int(calls.thread.max()) + 1 if len(calls.thread) else 0
    has_others = np.zeros(count, np.bool_)
    if is_repeated(calls.thread):
        return has_others
    first = np.flatnonzero(np.diff(calls.thread, prepend=-1))
    of_process = np.bincount(calls.process[first]) if len(first) else first
    has_others[calls.thread[first]] = of_process[calls.process[first]] > 1
    return has_others


def _handovers(calls: HostCalls, spans: Spans, thread: I64) -> _Handovers:
    """Return spans that began while the thread made no calls, until another one handed over."""
    if not len(thread):
        return _Handovers(thread, thread, thread)
    place = _last_before(calls.thread, calls.start_ns, thread, spans.start_ns)
    silent = ~place.found | (calls.end_ns[place.last] <= spans.start_ns)
    # The thread's next call: at the latest, the launch itself.
    upcoming = np.minimum(place.next, len(calls.thread) - 1)
    spoke = np.minimum(calls.start_ns[upcoming], spans.end_ns)
    by_end = np.lexsort((calls.end_ns, calls.process))
    process = calls.process[upcoming]
    latest = _last_before(calls.process[by_end], calls.end_ns[by_end], process, spoke + 1)
    other = by_end[latest.last]
    until = np.minimum(calls.end_ns[other], spans.end_ns)
    handed = silent & latest.found & (calls.thread[other] != thread) & (until > spans.start_ns)
    row = np.flatnonzero(handed)
    return _Handovers(row, until[row], calls.thread[other[row]])


class _Places(NamedTuple):
    """Position of a time among the sorted times of its group.

    Attributes:
        last: Shape (n,), int64, index of the last earlier one; 0 if there is none.
        next: Shape (n,), int64, the index after it.
        found: Shape (n,), bool, whether there is an earlier one.
    """

    last: I64
    next: I64
    found: BoolArray


def _last_before(group: I64, time: I64, wanted_group: I64, wanted_time: I64) -> _Places:
    """Find each of `wanted_time` in its group; `time` ascends within groups, and groups ascend."""
    upcoming, first = np.zeros_like(wanted_time), np.zeros_like(wanted_time)
    for rows in by_group(wanted_group):
        low, high = np.searchsorted(group, wanted_group[rows[0]] + np.array([0, 1]))
        upcoming[rows] = low + np.searchsorted(time[low:high], wanted_time[rows], side="left")
        first[rows] = low
    found = upcoming > first
    return _Places(np.where(found, upcoming - 1, 0), upcoming, found)
