"""The CPU side of the event graph: calls in program order, and handovers between threads.

A call follows the previous call of its thread, or a call of another thread that was active while
this one made no calls, as when a program and its autograd thread take turns. Threads with
overlapping calls run concurrently and do not wait for each other, unless one of them wakes the
other: after a silence, that one then begins between the calls of its waker, and not within them as
often as by chance. Threads that only poll for completion, such as the watchdog of a communication
library, are excluded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_calls import numbers_of_texts
from warpline.derived.idle.kinds import call_kind
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.interval import Intervals, covered_until
from warpline.ops.tiling import by_group
from warpline.replay.window import replay_window
from warpline.trace import Run

NONE = -1
# Threads with more than this share of overlapping calls do not take turns.
_OVERLAP_RATIO = 0.02
# A thread is woken by another one if at most this share of its silences ends within calls of that
# one, relative to the expected number, which must not be too small.
_WOKEN_RATIO = 0.25
_FEWEST_EXPECTED = 10
# Of the calls of a process. So many threads take no quadratic time.
_LEAST_OF_WAKER = 0.1
_LEAST_OF_WOKEN = 0.01


class HostSide(NamedTuple):
    """The outermost calls of active threads in the simulated window, by start.

    Attributes:
        row: Shape (n,), int64, rows of api_call.
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
        name: Shape (n,), int64, rows of the strings.
        kind: Shape (n,), int8, members of `CallKind`.
        before: Shape (n,), int64, the call that it follows, NONE for the first ones.
        previous: Shape (n,), int64, the previous call of its thread, NONE for the first ones.
    """

    row: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    name: I64
    kind: I8
    before: I64
    previous: I64

    def __len__(self) -> int:
        return len(self.row)


@derived
def host_side(run: Run) -> HostSide:
    """Return the calls of the simulated window and their order."""
    trace = run.trace
    none = np.zeros(0, np.int64)
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return HostSide(
            row=none,
            start_ns=none,
            end_ns=none,
            thread=none,
            process=none,
            name=none,
            kind=none.astype(np.int8),
            before=none,
            previous=none,
        )
    window = replay_window(run)
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id", "process_id", "name_id")
    bounds = np.searchsorted(columns["start_ns"].values, [window.start_ns, window.end_ns]).T
    inside = np.concatenate([np.arange(*pair) for pair in bounds])
    start, end, thread, process, names = (c.values[inside] for c in columns.values())
    kind = numbers_of_texts(trace, names, call_kind)
    works = np.zeros(trace.row_count("thread"), np.bool_)
    works[thread[kind > 0]] = True
    rows = np.flatnonzero(works[thread])
    end = np.maximum(start, end)
    kept = [_outermost(start, end, rows[of]) for of in by_group(thread[rows])]
    rows = np.sort(np.concatenate([none, *kept]))
    start, end = start[rows], end[rows]
    thread, process = thread[rows].astype(np.int64), process[rows].astype(np.int64)
    part = window.of_time(start)
    before, previous = (
        np.where((of >= 0) & (part[of] == part), of, NONE)
        for of in _order(start, end, thread, process)
    )
    return HostSide(
        row=inside[rows],
        start_ns=start,
        end_ns=end,
        thread=thread,
        process=process,
        name=names[rows].astype(np.int64),
        kind=kind[rows],
        before=before,
        previous=previous,
    )


def _outermost(start: I64, end: I64, rows: I64) -> I64:
    """Return the calls of one thread that are not nested; rows ascend in start."""
    order = rows[np.lexsort((-end[rows], start[rows]))]
    reach = np.maximum.accumulate(end[order])
    opens = np.append(True, start[order][1:] >= reach[:-1])[: len(order)]
    outermost: I64 = order[opens]
    return outermost


def _order(start: I64, end: I64, thread: I64, process: I64) -> tuple[I64, I64]:
    """Return the call that each call follows, and the previous call of its thread."""
    before, previous = np.full(len(start), NONE), np.full(len(start), NONE)
    for rows in by_group(thread):
        previous[rows[1:]] = rows[:-1]
    for rows in by_group(process):
        of_thread = thread[rows]
        if len(distinct_values(of_thread)) == 1:
            before[rows] = previous[rows]
        else:
            before[rows] = _with_handovers(start, end, thread, rows, previous)
    return before, previous


def _with_handovers(start: I64, end: I64, thread: I64, rows: I64, previous: I64) -> I64:
    """Return the call that each call of one process follows."""
    own = previous[rows]
    by_end = rows[np.argsort(end[rows], kind="stable")]
    place = np.searchsorted(end[by_end], start[rows], side="right") - 1
    # A zero-length call ends when it starts, but does not follow itself.
    while np.any(itself := (place >= 0) & (by_end[np.maximum(place, 0)] >= rows)):
        place[itself] -= 1
    other = np.where(place >= 0, by_end[np.maximum(place, 0)], NONE)
    is_other = (other >= 0) & (thread[other] != thread[rows])
    silent = (own < 0) | (end[own] <= start[other])
    pair = thread[rows] * (int(thread.max()) + 1) + thread[other]
    turns = ~np.isin(pair, _concurrent(start, end, thread, rows))
    return np.where(is_other & silent & turns, other, own)


def _concurrent(start: I64, end: I64, thread: I64, rows: I64) -> I64:
    """Return the pairs of threads of one process whose first does not wait for the second.

    A pair is encoded as first thread times number of threads plus second thread.
    """
    latest = _place_of_running_max(end[rows])[:-1]
    later = rows[1:]
    overlaps = np.flatnonzero(
        (end[rows[latest]] > start[later]) & (thread[rows[latest]] != thread[later])
    )
    n_threads = int(thread.max()) + 1
    pairs = np.sort(np.stack((thread[rows[latest[overlaps]]], thread[later[overlaps]])), axis=0)
    distinct, count = np.unique(pairs[0] * n_threads + pairs[1], return_counts=True)
    a, b = distinct // n_threads, distinct % n_threads
    calls = np.bincount(thread[rows], minlength=n_threads)
    often = count > 1 + _OVERLAP_RATIO * np.minimum(calls[a], calls[b])
    first, second = np.append(a[often], b[often]), np.append(b[often], a[often])
    share = calls / len(rows)
    may_wake = (share[first] >= _LEAST_OF_WOKEN) & (share[second] >= _LEAST_OF_WAKER)
    is_woken = share[first] < _LEAST_OF_WOKEN  # a thread with few calls sets no pace
    own = {each: rows[thread[rows] == each] for each in distinct_values(second[may_wake]).tolist()}
    for pair in np.flatnonzero(may_wake).tolist():
        woken = rows[thread[rows] == first[pair]]
        is_woken[pair] = _is_woken(start, end, woken, own[int(second[pair])])
    apart: I64 = (first * n_threads + second)[~is_woken]
    return apart


def _is_woken(start: I64, end: I64, woken: I64, waker: I64) -> bool:
    """Return whether silences of one thread end between the calls of another one.

    If the threads were independent, a silence would end within a call as often as calls take time.

    Args:
        start: Shape (calls,), int64.
        end: Shape (calls,), int64.
        woken: The calls of the first thread.
        waker: The calls of the other thread.
    """
    from_ns, until_ns = end[woken[:-1]], start[woken[1:]]
    begun = np.searchsorted(start[waker], from_ns)
    ended = np.searchsorted(end[waker], until_ns, side="right")
    silent = np.flatnonzero(begun < ended)  # during at least one whole call
    from_ns, until_ns = from_ns[silent], until_ns[silent]
    calls = Intervals(start[waker], end[waker])
    calling_ns = covered_until(calls, until_ns) - covered_until(calls, from_ns)
    expected = float((calling_ns / np.maximum(until_ns - from_ns, 1)).sum())
    last = np.searchsorted(start[waker], until_ns) - 1
    within = int((end[waker][last] > until_ns).sum())
    return expected >= _FEWEST_EXPECTED and within <= _WOKEN_RATIO * expected


def _place_of_running_max(values: I64) -> I64:
    """Return the place of the largest value so far."""
    reach = np.maximum.accumulate(values)
    is_new: BoolArray = values == reach
    return np.maximum.accumulate(np.where(is_new, np.arange(len(values)), 0))
