"""What says whether a thread ran, was runnable or blocked, in levels of trust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from warpline.derived.host.blocking import Reason, reason_of
from warpline.derived.host.lives import thread_lives
from warpline.derived.host.samples import (
    CPU_SAMPLES,
    PYTHON_SAMPLES,
    median_gap_ns,
    weights,
)
from warpline.derived.host.switches import SWITCHES, Ends, switch_ends, switch_events
from warpline.derived.host.thread_rows import thread_rows
from warpline.derived.texts import number_texts
from warpline.ops.arrays import I8, I32, I64, BoolArray
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

T = TypeVar("T", bound=np.generic)


class Spans(NamedTuple):
    """Times of threads.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before its start.
        thread: Shape (n,), int32, rows of the thread table.
        state: Shape (n,), int8, of State.
        is_uninterruptible: Shape (n,), bool, whether it waited for the kernel, as for a disk.
        stack: Shape (n,), int32, where the thread stopped, a row of `stack`; NO_STACK for unknown.
    """

    start_ns: I64
    end_ns: I64
    thread: I32
    state: I8
    is_uninterruptible: BoolArray
    stack: I32

    def taken(self, rows: I64 | BoolArray) -> Spans:
        """Return the selected spans."""
        return Spans._make(column[rows] for column in self)

    def kept(self, is_kept: BoolArray) -> Spans:
        """Return the spans of a mask; without a copy, if it keeps them all."""
        return self if is_kept.all() else self.taken(np.flatnonzero(is_kept))

    def in_order(self) -> Spans:
        """Return the spans by thread and start; without a copy, if they are."""
        thread, start = self.thread, self.start_ns
        later = thread[1:] > thread[:-1]
        later |= (thread[1:] == thread[:-1]) & (start[1:] >= start[:-1])
        return self if later.all() else self.taken(np.lexsort((start, thread)))

    def are_disjoint(self) -> bool:
        """Return whether no two spans of a thread overlap; they are by thread and start."""
        overlap = self.start_ns[1:] < self.end_ns[:-1]
        return not (overlap & (self.thread[1:] == self.thread[:-1])).any()

    def grouped(self) -> Grouped:
        """Return the spans as groups by thread."""
        return Grouped(self.start_ns, self.end_ns, self.thread)


class Evidence(NamedTuple):
    """What is known of some threads.

    Attributes:
        switched: By context switches, by thread and start. They have no gaps on a thread, and no
            other evidence beside them.
        weaker: By everything else, in any order.
        level: Shape (weaker,), int8, from 0 for what is trusted most.
    """

    switched: Spans
    weaker: Spans
    level: I8


def evidence(trace: Trace, threads: range) -> Evidence:
    """Return all evidence.

    Args:
        trace: The trace.
        threads: Rows of the thread table.
    """
    switched = _from_switches(trace, threads)
    sources = (_from_cpu_samples, _from_python_samples, _from_gil, _from_os_calls)
    parts, levels = [_nothing()], [np.zeros(0, np.int8)]
    for level, source in enumerate(sources):
        for part in _around(source(trace, threads), switched):
            parts.append(part)
            levels.append(np.full(len(part.thread), level, np.int8))
    return Evidence(switched, joined_spans(parts), np.concatenate(levels))


def joined_spans(parts: Sequence[Spans]) -> Spans:
    """Return the spans of all parts, one part or more; without a copy, if a single one has any."""
    filled = [part for part in parts if len(part.thread)] or parts[:1]
    if len(filled) == 1:
        return filled[0]
    return Spans(*(np.concatenate(column) for column in zip(*filled, strict=True)))


def _around(part: Spans, switched: Spans) -> Sequence[Spans]:
    """Return the parts of spans before and after the times of context switches of their thread."""
    if not len(part.thread) or not len(switched.thread):
        return (part,)
    count = 1 + max(int(spans.thread.max()) for spans in (part, switched))
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


def spans(start: I64, end: I64, thread: I32, state: I8 | int) -> Spans:
    """Return spans of a state each, or of one state, of which no more is known."""
    count = len(start)
    of_span = np.full(count, state, np.int8) if isinstance(state, int) else state
    no_stack = np.full(count, NO_STACK, np.int32)
    whole = np.maximum(start, end)
    return Spans(start, whole, thread, of_span, np.zeros(count, np.bool_), no_stack)


def _nothing() -> Spans:
    nothing = np.zeros(0, np.int64)
    return spans(nothing, nothing, nothing.astype(np.int32), 0)


def _from_switches(trace: Trace, threads: range) -> Spans:
    """Return the states between context switches, and around them while any are recorded."""
    every, lives = switch_ends(trace), thread_lives(trace)
    if not len(every.thread):
        return _nothing()
    own = slice(*np.searchsorted(every.thread, (threads.start, threads.stop)).tolist())
    ends, events = Ends._make(column[own] for column in every), switch_events(trace, threads)
    life = np.searchsorted(lives.thread_id, ends.thread)
    begin_ns = np.clip(lives.start_ns[life], every.first_ns.min(), ends.first_ns)
    end_ns = np.clip(lives.end_ns[life], ends.last_ns, every.last_ns.max())
    # A thread has a span before its first switch, and one after each switch.
    counts = thread_rows(trace, SWITCHES).counts()[ends.thread]
    last = np.cumsum(counts + 1) - 1
    is_first = np.zeros(len(events.time_ns) + len(counts), np.bool_)
    is_first[last - counts] = True
    state = np.where(events.is_running, _RUNNING, _BLOCKED).astype(np.int8)
    state[events.is_runnable] = _RUNNABLE
    begins = np.where(ends.begins_running, _RUNNING, _BLOCKED)
    since = _with(is_first, events.time_ns, begin_ns)
    until = np.append(since[1:], 0)
    until[last] = end_ns
    found = Spans(
        since,
        until,
        np.repeat(ends.thread.astype(np.int32), counts + 1),
        _with(is_first, state, begins),
        _with(is_first, events.is_uninterruptible, np.bool_()),
        _with(is_first, events.stack, NO_STACK),
    )
    return found.kept(found.end_ns > found.start_ns)


def _with(is_first: BoolArray, values: npt.NDArray[T], firsts: npt.ArrayLike) -> npt.NDArray[T]:
    """Return the values of the switches, and between them those before each thread's first one."""
    every = np.empty(len(is_first), values.dtype)
    every[~is_first] = values
    every[is_first] = firsts
    return every


def _from_cpu_samples(trace: Trace, threads: range) -> Spans:
    """Return when threads ran and when they were not sampled for long, from first to last sample.

    Threads with few samples are left out.
    """
    known = thread_rows(trace, CPU_SAMPLES).of(threads)
    if not len(known):
        return _nothing()
    columns = trace.columns(CPU_SAMPLES, "time_ns", "period_ns")
    thread = thread_rows(trace, CPU_SAMPLES).threads_of(threads)
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
    quiet = np.flatnonzero(unseen)
    return joined_spans(
        (
            spans(start, stops, who, _RUNNING),
            spans(stops[quiet], goes_on[quiet], who[quiet], _BLOCKED),
            spans(goes_on[quiet], end[quiet], who[quiet], _RUNNING),
        )
    )


def _from_python_samples(trace: Trace, threads: range) -> Spans:
    rows = thread_rows(trace, PYTHON_SAMPLES).of(threads)
    if not len(rows):
        return _nothing()
    columns = trace.columns(PYTHON_SAMPLES, "time_ns", "is_running", "stack_id")
    thread = thread_rows(trace, PYTHON_SAMPLES).threads_of(threads)
    state = columns["is_running"].take(rows)
    if state.valid is not None:
        known = np.flatnonzero(state.valid)
        rows, thread, state = rows[known], thread[known], state.take(known)
    start = columns["time_ns"].values[rows]
    end = start + weights(trace, PYTHON_SAMPLES)[rows]
    runs = state.values.astype(np.bool_, copy=False)
    found = spans(start, end, thread, np.where(runs, _RUNNING, _BLOCKED).astype(np.int8))
    stack = columns["stack_id"].take(rows).filled(NO_STACK)
    return found._replace(stack=np.where(runs, np.int32(NO_STACK), stack))


def _from_gil(trace: Trace, threads: range) -> Spans:
    rows = thread_rows(trace, "gil_span").of(threads)
    if not len(rows):
        return _nothing()
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "state")
    rows = rows[columns["state"].take(rows).filled(0) == _WAITING]
    start, end, thread = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id")
    )
    return spans(start, end, thread, _BLOCKED)


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
    return spans(start, end, thread, _BLOCKED)
