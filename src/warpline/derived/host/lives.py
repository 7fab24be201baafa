"""When threads were recorded, and what says whether they ran."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.samples import weights
from warpline.derived.host.switches import switch_ends
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace
from warpline.trace.source import ROWS_PER_BLOCK

# Tables whose rows say what a thread did, and their columns of times.
WITNESSES = ("sched_event", "cpu_sample", "python_sample", "gil_span", "os_call")
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
    for table in WITNESSES + _OTHERS:
        if trace.has(table) and trace.row_count(table):
            _extend(trace, table, start, end)
        if table == WITNESSES[-1]:
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
    is_moment = table in ("sched_event", "cpu_sample", "python_sample")
    times = ("time_ns",) if is_moment else ("start_ns", "end_ns")
    columns = trace.columns(table, *times, "thread_id")
    lasting = weights(trace, table) if table == "python_sample" else None
    for low in range(0, trace.row_count(table), ROWS_PER_BLOCK):
        block = slice(low, low + ROWS_PER_BLOCK)
        first, last = (columns[name].take(block).filled(0) for name in (times[0], times[-1]))
        if lasting is not None:
            last = last + lasting[block]
        thread = columns["thread_id"].take(block)
        known = np.flatnonzero(thread.is_valid())
        np.minimum.at(start, thread.values[known], first[known])
        np.maximum.at(end, thread.values[known], np.maximum(first, last)[known])


def _process_ends(trace: Trace, end: I64) -> I64:
    """Return the last time of the process of each thread."""
    process = trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    last = np.full(int(process.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, process, end)
    return last[process]
