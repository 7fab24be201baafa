"""When threads were recorded, and what says whether they ran."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.samples import weights
from warpline.derived.host.switches import switch_ends
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace

# Tables whose rows say what a thread did, and their columns of times.
_WITNESSES = ("sched_event", "cpu_sample", "python_sample", "gil_span", "os_call")
_OTHERS = ("api_call", "library_call", "range")


class ThreadLives(NamedTuple):
    """The threads of which states are known, and the time in which they were recorded, by thread.

    A life is from the first to the last event of the thread. If the recording says when threads
    ended, one that did not is recorded as long as its process.

    Attributes:
        thread_id: Shape (n,), int64, rows of the thread table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        is_switched: Shape (n,), bool, whether states are from context switches.
    """

    thread_id: I64
    start_ns: I64
    end_ns: I64
    is_switched: BoolArray


@derived
def thread_lives(trace: Trace) -> ThreadLives:
    """Return the lives of all threads that were sampled, switched, or seen to wait."""
    count = trace.row_count("thread") if trace.has("thread") else 0
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    is_known = np.zeros(count, np.bool_)
    for table in _WITNESSES + _OTHERS:
        if trace.has(table) and trace.row_count(table):
            _extend(trace, table, start, end)
        if table == _WITNESSES[-1]:
            is_known = end >= start
    ends = switch_ends(trace)
    is_switched = np.zeros(count, np.bool_)
    is_switched[ends.thread] = True
    end[ends.thread[ends.has_ended]] = ends.last_ns[ends.has_ended]
    if ends.has_ended.any():
        lasting = ends.thread[~ends.has_ended]
        end[lasting] = _process_ends(trace, end)[lasting]
    thread = np.flatnonzero(is_known)
    return ThreadLives(thread, start[thread], np.maximum(start, end)[thread], is_switched[thread])


def _extend(trace: Trace, table: str, start: I64, end: I64) -> None:
    """Extend the lives of threads, in place, to the rows of a table."""
    if table in ("sched_event", "cpu_sample", "python_sample"):
        columns = trace.columns(table, "time_ns", "thread_id")
        first = columns["time_ns"].values
        last = first + weights(trace, table) if table == "python_sample" else first
    else:
        columns = trace.columns(table, "start_ns", "end_ns", "thread_id")
        first, last = columns["start_ns"].values, columns["end_ns"].filled(0)
    thread = columns["thread_id"]
    known = np.flatnonzero(thread.is_valid())
    np.minimum.at(start, thread.values[known], first[known])
    np.maximum.at(end, thread.values[known], np.maximum(first, last)[known])


def _process_ends(trace: Trace, end: I64) -> I64:
    """Return the last time of the process of each thread."""
    process = trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    last = np.full(int(process.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, process, end)
    return last[process]
