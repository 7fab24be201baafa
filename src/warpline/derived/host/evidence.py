"""What says whether a thread ran, was runnable or blocked, in levels of trust."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.host.blocking import Reason, reason_of
from warpline.derived.host.lives import thread_lives
from warpline.derived.host.samples import (
    CPU_SAMPLES,
    PYTHON_SAMPLES,
    median_gap_ns,
    weights,
)
from warpline.derived.host.switches import Ends, switch_ends, switched_times
from warpline.derived.host.thread_rows import thread_rows
from warpline.derived.texts import number_texts
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize, group_stats
from warpline.ops.tiling import Grouped
from warpline.schema.labels import GIL_STATES
from warpline.trace import Trace

_RUNNING, _RUNNABLE, _BLOCKED = 1, 2, 3  # of states.State, which is above
_WAITING = next(value for value, label in GIL_STATES.items() if label == "Waiting")
_FEWEST_SAMPLES = 10
_MISSED_SAMPLES = 5
NO_STACK = -1
_NEVER = np.iinfo(np.int64).max


class Spans(NamedTuple):
    """Times of threads.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before its start.
        thread: Shape (n,), int64, rows of the thread table.
        state: Shape (n,), int64, of State.
        level: Shape (n,), int64, 0 for what is trusted most.
        is_uninterruptible: Shape (n,), bool, whether it waited for the kernel, as for a disk.
        stack: Shape (n,), int64, where the thread stopped, a row of `stack`; NO_STACK for unknown.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    state: I64
    level: I64
    is_uninterruptible: BoolArray
    stack: I64

    def taken(self, rows: I64 | BoolArray) -> Spans:
        """Return the selected spans."""
        return Spans._make(column[rows] for column in self)

    def grouped(self) -> Grouped:
        """Return the spans as groups by thread."""
        return Grouped(self.start_ns, self.end_ns, self.thread)


def evidence(trace: Trace, threads: range) -> Spans:
    """Return all evidence. That of context switches has level 0, and no other beside it.

    Args:
        trace: The trace.
        threads: Rows of the thread table.
    """
    switched = _from_switches(trace, threads)
    switched = switched.taken(switched.end_ns > switched.start_ns)
    switched = switched.taken(np.lexsort((switched.start_ns, switched.thread)))
    weaker = [
        _from_cpu_samples(trace, threads),
        _from_python_samples(trace, threads),
        _from_gil(trace, threads),
        _from_os_calls(trace, threads),
    ]
    parts = [switched]
    for level, part in enumerate(weaker, 1):
        parts += [
            left._replace(level=np.full(len(left.thread), level))
            for left in _around(part, switched)
        ]
    return Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _around(part: Spans, switched: Spans) -> tuple[Spans, Spans]:
    """Return the parts of spans before and after the times of context switches of their thread.

    These times have no gaps on a thread.
    """
    count = 1 + max(int(spans.thread.max(initial=-1)) for spans in (part, switched))
    first, last = np.full(count, _NEVER), np.full(count, _NEVER)
    first[switched.thread[::-1]] = switched.start_ns[::-1]
    last[switched.thread] = switched.end_ns
    begin, end = first[part.thread], last[part.thread]
    before = np.flatnonzero(part.start_ns < begin)
    after = np.flatnonzero((part.end_ns > end) & (end != _NEVER))
    return (
        part.taken(before)._replace(end_ns=np.minimum(part.end_ns, begin)[before]),
        part.taken(after)._replace(start_ns=np.maximum(part.start_ns, end)[after]),
    )


def _spans(start: I64, end: I64, thread: I64, state: I64 | int) -> Spans:
    none = np.zeros(len(start), np.int64)
    whole = np.maximum(start, end)
    return Spans(
        start, whole, thread.astype(np.int64), none + state, none, none > 0, none + NO_STACK
    )


def _nothing() -> Spans:
    nothing = np.zeros(0, np.int64)
    return _spans(nothing, nothing, nothing, 0)


def _from_switches(trace: Trace, threads: range) -> Spans:
    """Return the states between context switches, and around them while any are recorded."""
    ends, lives = switch_ends(trace), thread_lives(trace)
    if not len(ends.thread):
        return _nothing()
    first_ns, last_ns = ends.first_ns.min(), ends.last_ns.max()
    own = slice(*np.searchsorted(ends.thread, (threads.start, threads.stop)).tolist())
    ends, times = Ends._make(column[own] for column in ends), switched_times(trace, threads)
    state = np.where(
        times.is_running, _RUNNING, np.where(times.is_runnable, _RUNNABLE, _BLOCKED)
    ).astype(np.int64)
    between = _spans(times.start_ns, times.end_ns, times.thread, state)._replace(
        is_uninterruptible=times.is_uninterruptible, stack=times.stack
    )
    life = np.searchsorted(lives.thread_id, ends.thread)
    before = _spans(
        np.clip(lives.start_ns[life], first_ns, ends.first_ns),
        ends.first_ns,
        ends.thread,
        np.where(ends.begins_running, _RUNNING, _BLOCKED),
    )
    after = _spans(
        ends.last_ns,
        np.clip(lives.end_ns[life], ends.last_ns, last_ns),
        ends.thread,
        np.where(ends.ends_running, _RUNNING, _BLOCKED),
    )
    parts = (between, before, after)
    return Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _from_cpu_samples(trace: Trace, threads: range) -> Spans:
    """Return when threads ran and when they were not sampled for long, from first to last sample.

    Threads with few samples are left out.
    """
    known = thread_rows(trace, CPU_SAMPLES).of(threads)
    if not len(known):
        return _nothing()
    columns = trace.columns(CPU_SAMPLES, "time_ns", "thread_id", "period_ns")
    thread = columns["thread_id"].values[known].astype(np.int64)
    time = columns["time_ns"].values[known]
    period = median_gap_ns(thread, time)
    has_period = columns["period_ns"].valid
    if has_period is None or has_period.all():
        groups = factorize(thread)
        of_thread = group_stats(groups.codes, columns["period_ns"].values[known], groups.n_groups)
        period[groups.uniques] = of_thread.median.astype(np.int64)
    enough = np.bincount(thread, minlength=len(period)) >= _FEWEST_SAMPLES
    pair = np.flatnonzero((thread[1:] == thread[:-1]) & enough[thread[1:]])
    start, end, who = time[pair], time[pair + 1], thread[pair]
    of_pair = period[who]
    unseen = end - start >= np.maximum(_MISSED_SAMPLES * of_pair, 1)
    # It may have run until the next sample was due, and for what the next one stands for.
    ran = np.maximum(of_pair, weights(trace, CPU_SAMPLES)[known][pair + 1])
    stops = np.where(unseen, start + of_pair, end)
    goes_on = np.where(unseen, np.maximum(end - ran, stops), end)
    return Spans(
        *(
            np.concatenate(column)
            for column in zip(
                _spans(start, stops, who, _RUNNING),
                _spans(stops, goes_on, who, _BLOCKED),
                _spans(goes_on, end, who, _RUNNING),
                strict=True,
            )
        )
    )


def _from_python_samples(trace: Trace, threads: range) -> Spans:
    rows = thread_rows(trace, PYTHON_SAMPLES).of(threads)
    if not len(rows):
        return _nothing()
    columns = trace.columns(PYTHON_SAMPLES, "time_ns", "thread_id", "is_running", "stack_id")
    rows = rows[columns["is_running"].take(rows).is_valid()]
    start = columns["time_ns"].values[rows]
    end = start + weights(trace, PYTHON_SAMPLES)[rows]
    runs = columns["is_running"].values[rows].astype(np.bool_)
    spans = _spans(
        start, end, columns["thread_id"].values[rows], np.where(runs, _RUNNING, _BLOCKED)
    )
    stack = columns["stack_id"].take(rows).filled(NO_STACK).astype(np.int64)
    return spans._replace(stack=np.where(runs, NO_STACK, stack))


def _from_gil(trace: Trace, threads: range) -> Spans:
    rows = thread_rows(trace, "gil_span").of(threads)
    if not len(rows):
        return _nothing()
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "state")
    rows = rows[columns["state"].take(rows).filled(0) == _WAITING]
    start, end, thread = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id")
    )
    return _spans(start, end, thread, _BLOCKED)


def _from_os_calls(trace: Trace, threads: range) -> Spans:
    """Return the OS calls that wait by their names."""
    rows = thread_rows(trace, "os_call").of(threads)
    if not len(rows):
        return _nothing()
    columns = trace.columns("os_call", "start_ns", "end_ns", "thread_id", "name_id")
    codes, distinct = number_texts(columns["name_id"].values[rows], len(trace.strings))
    waits = [reason_of(name) != Reason.UNKNOWN for name in trace.strings.texts(distinct.tolist())]
    rows = rows[np.array(waits, np.bool_)[codes]]
    start, end, thread = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id")
    )
    return _spans(start, end, thread, _BLOCKED)
