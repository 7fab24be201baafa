"""When threads were on a CPU and off it, by context switches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.thread_rows import thread_rows
from warpline.ops.arrays import I32, I64, BoolArray, Integers
from warpline.schema.labels import THREAD_STATES
from warpline.trace import Trace

_RUNNING, _UNINTERRUPTIBLE, _TERMINATED = (
    next(value for value, label in THREAD_STATES.items() if label == wanted)
    for wanted in ("Running", "Uninterruptible", "Terminated")
)
NO_STACK = -1
SWITCHES = "sched_event"


class SwitchedTimes(NamedTuple):
    """Times between context switches of threads, by thread and start, without gaps.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before its start.
        thread: Shape (n,), int32, rows of the thread table.
        is_running: Shape (n,), bool, whether the thread was on a CPU.
    """

    start_ns: I64
    end_ns: I64
    thread: I32
    is_running: BoolArray


class Ends(NamedTuple):
    """The first and the last context switch of each thread that has any, by thread.

    Attributes:
        thread: Shape (m,), int64.
        first_ns: Shape (m,), int64.
        last_ns: Shape (m,), int64.
        begins_running: Shape (m,), bool, whether it was on the CPU before the first one.
        has_ended: Shape (m,), bool, whether the thread ended with the last one.
    """

    thread: I64
    first_ns: I64
    last_ns: I64
    begins_running: BoolArray
    has_ended: BoolArray


class SwitchEvents(NamedTuple):
    """Context switches by thread and time, and what a thread did after each one.

    Attributes:
        time_ns: Shape (n,), int64.
        is_running: Shape (n,), bool, whether the thread was on a CPU.
        is_runnable: Shape (n,), bool, whether it was off the CPU although it could run.
        is_uninterruptible: Shape (n,), bool, whether it waited for the kernel, as for a disk.
        has_ended: Shape (n,), bool, whether it ended.
        stack: Shape (n,), int32, where the thread stopped, a row of `stack`; NO_STACK for unknown.
    """

    time_ns: I64
    is_running: BoolArray
    is_runnable: BoolArray
    is_uninterruptible: BoolArray
    has_ended: BoolArray
    stack: I32


def switched_times(trace: Trace, threads: range) -> SwitchedTimes:
    """Return the times between context switches, from the first to the last of each thread.

    Args:
        trace: The trace.
        threads: Rows of the thread table.
    """
    thread = thread_rows(trace, SWITCHES).threads_of(threads)
    time, runs, *_ = switch_events(trace, threads)
    left = np.flatnonzero(thread[:-1] == thread[1:])
    return SwitchedTimes(time[left], time[left + 1], thread[left], runs[left])


def switch_events(trace: Trace, threads: range) -> SwitchEvents:
    """Return the context switches of consecutive threads.

    Args:
        trace: The trace.
        threads: Rows of the thread table.
    """
    return _events(trace, thread_rows(trace, SWITCHES).of(threads))


@derived
def switch_ends(trace: Trace) -> Ends:
    """Return the first and last context switch of each thread."""
    rows, bounds = thread_rows(trace, SWITCHES)
    seen = np.flatnonzero(np.diff(bounds))
    first, last = _events(trace, rows[bounds[seen]]), _events(trace, rows[bounds[seen + 1] - 1])
    return Ends(
        seen,
        first.time_ns,
        last.time_ns,
        ~first.is_running,
        last.has_ended,
    )


def _events(trace: Trace, rows: Integers) -> SwitchEvents:
    if not len(rows):
        none = np.zeros(0, np.bool_)
        return SwitchEvents(np.zeros(0, np.int64), none, none, none, none, np.zeros(0, np.int32))
    columns = trace.columns(SWITCHES, "time_ns", "is_sched_in", "state", "stack_id")
    runs = columns["is_sched_in"].values[rows].astype(np.bool_, copy=False)
    state = columns["state"].take(rows).filled(0)
    stack = columns["stack_id"].take(rows).filled(NO_STACK)
    return SwitchEvents(
        columns["time_ns"].values[rows],
        runs,
        ~runs & (state == _RUNNING),
        ~runs & (state == _UNINTERRUPTIBLE),
        ~runs & (state == _TERMINATED),
        np.where(runs, np.int32(NO_STACK), stack),
    )
