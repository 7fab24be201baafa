"""The CUDA API calls of threads that launch device work."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, SupportsIndex

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.kinds import CallKind, call_kind
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64, BoolArray, Integers, as_i64, is_repeated, taken
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.trace import Trace


class HostCalls(NamedTuple):
    """The outermost calls of threads that launched device work, by thread and start.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64; calls of one thread do not overlap.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64


class WorkingCalls(NamedTuple):
    """Rows of api_call by working threads, in the total order."""

    row: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    kind: I8


@derived
def working_threads(trace: Trace) -> BoolArray:
    """Return which threads launched device work that is in the trace, shape (threads,).

    A thread that only polls or waits, such as the watchdog of a communication library, does not
    delay the device.
    """
    is_working = np.zeros(trace.row_count("thread") if trace.has("thread") else 0, np.bool_)
    calls = operations(trace).call
    calls = calls[calls >= 0]
    if len(calls):
        threads = trace.columns("api_call", "thread_id")["thread_id"].values
        is_working[distinct_values(taken(threads, calls))] = True
    return is_working


@derived
def device_of_thread(trace: Trace) -> I64:
    """Return the device on which each thread launched all its work, shape (threads,), int64.

    -1 for threads that launched work on several devices, or none.
    """
    count = len(working_threads(trace))
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    work = operations(trace)
    launched = np.flatnonzero(work.call >= 0)
    if len(launched) and is_repeated(work.device):
        return np.where(working_threads(trace), work.device[0], -1)
    if len(launched):
        threads = trace.columns("api_call", "thread_id")["thread_id"].values
        np.minimum.at(first, threads[work.call[launched]], work.device[launched])
        np.maximum.at(last, threads[work.call[launched]], work.device[launched])
    return np.where(first == last, last, -1)


@derived
def host_calls(trace: Trace) -> HostCalls:
    """Return the outermost calls of threads that launched device work; none without calls."""
    calls = working_calls(trace)
    kept = [_outermost(calls, rows) for rows in by_group(calls.thread)]
    rows = np.concatenate([np.zeros(0, np.int64), *kept])
    if np.array_equal(rows, np.arange(len(calls.row))):  # as with one thread and no nested calls
        return HostCalls(calls.start_ns, calls.end_ns, calls.thread, calls.process)
    return HostCalls(
        calls.start_ns[rows], calls.end_ns[rows], calls.thread[rows], calls.process[rows]
    )


@derived
def working_calls(trace: Trace) -> WorkingCalls:
    """Return the calls of working threads."""
    nothing = np.zeros(0, np.int64)
    if not trace.has("api_call") or not working_threads(trace).any():
        return WorkingCalls(
            row=nothing,
            start_ns=nothing,
            end_ns=nothing,
            thread=nothing,
            process=nothing,
            kind=nothing.astype(np.int8),
        )
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id", "process_id", "name_id")
    start, end, thread, process, name = (column.values for column in columns.values())
    rows = np.flatnonzero(working_threads(trace)[thread])
    if len(rows) < len(start):  # otherwise the columns themselves, without a copy
        start, end, thread, process, name = (
            taken(column, rows) for column in (start, end, thread, process, name)
        )
    return WorkingCalls(
        row=rows,
        start_ns=start,
        end_ns=end,
        thread=as_i64("thread", thread),
        process=as_i64("process", process),
        kind=numbers_of_texts(trace, name, call_kind),
    )


@derived
def launch_period_ns(trace: Trace) -> float:
    """Return the median time from one launch to the next on its thread; 0 without launches.

    This is the CPU time of a launch if the thread does nothing else.
    """
    calls = working_calls(trace)
    is_launch = np.flatnonzero(calls.kind == CallKind.LAUNCH)
    order = is_launch[np.argsort(calls.thread[is_launch], kind="stable")]
    same = np.diff(calls.thread[order]) == 0
    periods = np.diff(calls.start_ns[order])[same]
    return float(np.median(periods)) if len(periods) else 0.0


def _outermost(calls: WorkingCalls, rows: I64) -> I64:
    """Return the calls of one thread that are not inside another one; rows ascend in start."""
    start, end = calls.start_ns[rows], calls.end_ns[rows]
    reach = np.maximum.accumulate(end)
    opens = np.append(True, start[1:] >= reach[:-1])
    # Of calls that start together, the longest contains the others and comes last.
    same = np.append(start[1:] == start[:-1], False)
    if same.any():
        order = np.lexsort((-end, start))
        rows = rows[order]
        opens = np.append(True, calls.start_ns[rows][1:] >= np.maximum.accumulate(end[order])[:-1])
    outermost: I64 = rows[opens]
    return outermost


def numbers_of_texts(trace: Trace, ids: Integers, meaning: Callable[[str], SupportsIndex]) -> I8:
    """Return a number for each text, computed once per distinct text."""
    numbers = np.zeros(len(trace.strings), np.int8)
    distinct = distinct_values(ids).tolist()
    for row, text in zip(distinct, trace.strings.texts(distinct), strict=True):
        numbers[row] = int(meaning(text))
    return numbers[ids]
