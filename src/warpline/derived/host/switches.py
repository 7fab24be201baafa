"""When threads were on a CPU and off it, by context switches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I64, BoolArray
from warpline.schema.labels import THREAD_STATES
from warpline.trace import Trace

_RUNNING, _UNINTERRUPTIBLE, TERMINATED = (
    next(value for value, label in THREAD_STATES.items() if label == wanted)
    for wanted in ("Running", "Uninterruptible", "Terminated")
)
NO_STACK = -1


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


@derived
def switched_times(trace: Trace) -> SwitchedTimes:
    """Return the times between context switches, from the first to the last of each thread."""
    events = _events(trace)
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
    events = _events(trace)
    thread = events.thread
    first = np.flatnonzero(np.append(True, thread[1:] != thread[:-1])[: len(thread)])
    last = np.append(first[1:], len(thread))[: len(first)] - 1
    return Ends(
        thread[first],
        events.time[first],
        events.time[last],
        ~events.runs[first],
        events.runs[last],
        ~events.runs[last] & (events.state[last] == TERMINATED),
    )


def _events(trace: Trace) -> _Events:
    """Return the context switches of known threads, by thread and time."""
    nothing = np.zeros(0, np.int64)
    if not trace.has("sched_event"):
        return _Events(nothing, nothing, nothing > 0, nothing, nothing)
    columns = trace.columns(
        "sched_event", "time_ns", "thread_id", "is_sched_in", "state", "stack_id"
    )
    known = np.flatnonzero(columns["thread_id"].is_valid())
    thread = columns["thread_id"].values[known].astype(np.int64)
    # Rows are in order of time.
    order = known[np.argsort(thread, kind="stable")]
    return _Events(
        columns["time_ns"].values[order],
        columns["thread_id"].values[order].astype(np.int64),
        columns["is_sched_in"].values[order].astype(np.bool_),
        columns["state"].filled(0)[order].astype(np.int64),
        columns["stack_id"].filled(NO_STACK)[order].astype(np.int64),
    )
