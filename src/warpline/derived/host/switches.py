"""When threads were on a CPU and off it, by context switches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.thread_rows import thread_rows
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.schema.labels import THREAD_STATES
from warpline.trace import Trace

_RUNNING, _UNINTERRUPTIBLE, TERMINATED = (
    next(value for value, label in THREAD_STATES.items() if label == wanted)
    for wanted in ("Running", "Uninterruptible", "Terminated")
)
NO_STACK = -1
_TABLE = "sched_event"


class SwitchedTimes(NamedTuple):
    """Times between context switches of threads, by thread and start, without gaps.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before its start.
        thread: Shape (n,), int64, rows of the thread table.
        is_running: Shape (n,), bool, whether the thread was on a CPU.
        is_runnable: Shape (n,), bool, whether it was off the CPU although it could run.
        is_uninterruptible: Shape (n,), bool, whether it waited for the kernel, as for a disk.
        stack: Shape (n,), int64, where the thread stopped, a row of `stack`; NO_STACK for unknown.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    is_running: BoolArray
    is_runnable: BoolArray
    is_uninterruptible: BoolArray
    stack: I64


class Ends(NamedTuple):
    """The first and the last context switch of each thread that has any, by thread.

    Attributes:
        thread: Shape (m,), int64.
        first_ns: Shape (m,), int64.
        last_ns: Shape (m,), int64.
        begins_running: Shape (m,), bool, whether it was on the CPU before the first one.
        ends_running: Shape (m,), bool, whether it was on the CPU after the last one.
        has_ended: Shape (m,), bool, whether the thread ended with the last one.
    """

    thread: I64
    first_ns: I64
    last_ns: I64
    begins_running: BoolArray
    ends_running: BoolArray
    has_ended: BoolArray


class _Events(NamedTuple):
    time: I64
    thread: I64
    runs: BoolArray
    state: I64
    stack: I64


def switched_times(trace: Trace, threads: range) -> SwitchedTimes:
    """Return the times between context switches, from the first to the last of each thread.

    Args:
        trace: The trace.
        threads: Rows of the thread table.
    """
    events = _events(trace, thread_rows(trace, _TABLE).of(threads))
    left = np.flatnonzero(events.thread[:-1] == events.thread[1:])
    runs, state = events.runs[left], events.state[left]
    return SwitchedTimes(
        events.time[left],
        events.time[left + 1],
        events.thread[left],
        runs,
        ~runs & (state == _RUNNING),
        ~runs & (state == _UNINTERRUPTIBLE),
        np.where(runs, NO_STACK, events.stack[left]),
    )


@derived
def switch_ends(trace: Trace) -> Ends:
    """Return the first and last context switch of each thread."""
    rows, bounds = thread_rows(trace, _TABLE)
    seen = np.flatnonzero(np.diff(bounds))
    first, last = _events(trace, rows[bounds[seen]]), _events(trace, rows[bounds[seen + 1] - 1])
    return Ends(
        seen,
        first.time,
        last.time,
        ~first.runs,
        last.runs,
        ~last.runs & (last.state == TERMINATED),
    )


def _events(trace: Trace, rows: I32) -> _Events:
    """Return some context switches, which are by thread and time."""
    nothing = np.zeros(0, np.int64)
    if not len(rows):
        return _Events(nothing, nothing, nothing > 0, nothing, nothing)
    columns = trace.columns(_TABLE, "time_ns", "thread_id", "is_sched_in", "state", "stack_id")
    return _Events(
        columns["time_ns"].values[rows],
        columns["thread_id"].values[rows].astype(np.int64),
        columns["is_sched_in"].values[rows].astype(np.bool_),
        columns["state"].take(rows).filled(0).astype(np.int64),
        columns["stack_id"].take(rows).filled(NO_STACK).astype(np.int64),
    )
