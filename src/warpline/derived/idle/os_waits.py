"""When threads that launch work waited in the operating system or were off the CPU, and on what.

Any of these on such a thread, for at least 50 us, is a wait:

- A call that sleeps, waits for a lock, for another thread or process, or for I/O: an OS call, or a
  built-in function of Python as the framework records it.
- Time off the CPU: from one context switch to the next. A thread that was switched off while it
  could run was preempted, where that is recorded, whatever call it was in; one whose stack ends in
  a sleep is asleep.
- Without either, time in which samples of its Python stack show that it does not run.
- Time in which it waited for Python's global interpreter lock (GIL).
- Without context switches, time without CPU samples of the thread, where at least five periods of
  its sampling passed.

A thread inside a CUDA API call is not counted: the call is the cause (see `host_blocking`), unless
the thread was preempted there (see `preemption`). While one thread waits for another that launches
work, as for autograd's, the process does not wait: both the thread that made the last call and the
one that makes the next must wait, and for longer than a thread takes to wake up.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.states import Reason, thread_states
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.idle.silences import SHORTEST_WAIT_NS, ThreadTimes, joined, silences
from warpline.derived.texts import number_texts
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.tiling import Grouped, by_group, cut, tile
from warpline.schema.labels import FRAME_KINDS, GIL_STATES, THREAD_STATES
from warpline.trace import Trace

# Instead of the number of a function's name.
NO_NAME, GIL, PREEMPTED, ASLEEP = -1, -2, -3, -4
_BUILT_IN = next(kind for kind, label in FRAME_KINDS.items() if label == "Built-in")
_WAITING = next(state for state, label in GIL_STATES.items() if label == "Waiting")
_RUNNING = next(state for state, label in THREAD_STATES.items() if label == "Running")
LONGEST_WAKING_NS = 500_000  # up to 0.3 ms was measured between threads of PyTorch
_FEWEST_SAMPLES = 10
_MISSED_SAMPLES = 5


class WaitKind(IntEnum):
    """Whether a function waits, and whether input data can be what it waits for."""

    NONE = 0
    FOR_ANYTHING = 1
    NOT_FOR_INPUT = 2


_FOR_ANYTHING = frozenset(
    (
        *("read", "pread", "pread64", "readv", "preadv", "fread", "recv", "recvfrom", "recvmsg"),
        *("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "accept", "accept4"),
        *("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "futex"),
        *("sem_wait", "sem_timedwait", "sem_clockwait", "msgrcv", "mq_receive", "wait", "waitpid"),
    )
)
_NOT_FOR_INPUT = frozenset(
    (
        *("nanosleep", "clock_nanosleep", "usleep", "sleep", "pause", "pthread_join", "flock"),
        *("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "lockf"),
        *("pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_barrier_wait"),
        *(
            "write",
            "pwrite",
            "pwrite64",
            "writev",
            "pwritev",
            "fwrite",
            "send",
            "sendto",
            "sendmsg",
        ),
        *("fsync", "fdatasync", "msync", "sync", "syncfs", "fflush", "fclose", "connect"),
    )
)
# `<built-in function sleep>`, `<built-in method acquire of _thread.lock object at 0x7f>`,
# `<method 'recv' of '_socket.socket' objects>`
_PYTHON = lazy_pattern(r"<(?:built-in (?:function|method)|method) '?(\w+)")
_PYTHON_FOR_ANYTHING = frozenset(("acquire", "poll", "select", "read", "recv", "recv_into"))
_PYTHON_NOT_FOR_INPUT = frozenset(("sleep", "fsync", "sendall"))


@cache
def wait_kind(name: str) -> WaitKind:
    """Return whether a function of the C library or of Python itself waits."""
    python = _PYTHON.match(name)
    plain = python[1] if python else name
    if plain in (_PYTHON_FOR_ANYTHING if python else _FOR_ANYTHING):
        return WaitKind.FOR_ANYTHING
    if plain in (_PYTHON_NOT_FOR_INPUT if python else _NOT_FOR_INPUT):
        return WaitKind.NOT_FOR_INPUT
    return WaitKind.NONE


class Waits(NamedTuple):
    """Times during which threads waited, by thread and start, not overlapping on a thread.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        name: Shape (n,), int64, the waiting function, numbers of strings; NO_NAME if only the time
            off the CPU is recorded; GIL, PREEMPTED or ASLEEP if that is known.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    name: I64

    def taken(self, rows: I64 | BoolArray) -> Waits:
        """Return the selected waits."""
        return Waits(*(column[rows] for column in self))

    def could_be_input(self, trace: Trace) -> BoolArray:
        """Return which of them may be waits for input data."""
        could_be: BoolArray = self.name >= NO_NAME
        named_ones = self.name >= 0
        codes, distinct = number_texts(self.name[named_ones], len(trace.strings))
        texts = trace.strings.texts(distinct.tolist())
        never = np.array([wait_kind(text) == WaitKind.NOT_FOR_INPUT for text in texts], np.bool_)
        could_be[named_ones] = ~never[codes]
        return could_be


@derived
def thread_waits(trace: Trace) -> Waits:
    """Return when launching threads waited, whatever else their process did."""
    calls, called = _waiting_calls(trace, "os_call", None)
    frames, framed = _waiting_calls(trace, "python_frame", _BUILT_IN)
    locked = _for_gil(trace)
    preempted, absent = _off_processor(trace)
    unseen = joined([_between_samples(trace), _seen_asleep(trace)])
    # The functions that wait for the GIL are the interpreter's own, whatever they are called. A
    # thread that could run does not wait for any of them.
    sources = [preempted, locked, calls, frames, absent, unseen]
    every = joined(sources)
    alike = (
        np.full(len(source.thread), number)
        for source, number in (
            (preempted, PREEMPTED),
            (locked, GIL),
            (absent, NO_NAME),
            (unseen, NO_NAME),
        )
    )
    first, second, *others = alike
    name = np.concatenate((first, second, called, framed, *others)).astype(np.int64)
    level = np.repeat(np.arange(len(sources)), [len(source.thread) for source in sources])
    kept = np.flatnonzero(every.end_ns - every.start_ns >= SHORTEST_WAIT_NS)
    parts = [Waits(*(np.zeros(0, np.int64) for _ in Waits._fields))]
    for place in by_group(every.thread[kept]):
        rows = kept[place]
        rows = rows[np.argsort(every.start_ns[rows], kind="stable")]
        tiles = tile(every.start_ns[rows], every.end_ns[rows], level[rows])
        owner = rows[tiles.owner]
        parts.append(Waits(tiles.start_ns, tiles.end_ns, every.thread[owner], name[owner]))
    return _with_sleeps(
        trace, Waits(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    )


def _with_sleeps(trace: Trace, waits: Waits) -> Waits:
    """Return waits, those without a name ASLEEP where the thread's stack ends in a sleep."""
    rows = np.flatnonzero(waits.name == NO_NAME)
    if not len(rows) or not any(map(partial(_has_stacks, trace), ("sched_event", "python_sample"))):
        return waits
    states = thread_states(trace)
    middle = (waits.start_ns[rows] + waits.end_ns[rows]) // 2
    times = Grouped(states.start_ns, states.end_ns, states.thread_id.astype(np.int64))
    at = cut(Grouped(middle, middle + 1, waits.thread[rows]), times)
    name = waits.name.copy()
    name[rows[at.span[states.reason[at.row] == Reason.SLEEP]]] = ASLEEP
    return waits._replace(name=name)


@derived
def os_waits(trace: Trace) -> Waits:
    """Return when processes launched nothing because the thread to launch waited.

    The thread is the one that made the next call. In any order.
    """
    waits, silence = thread_waits(trace), silences(trace)
    if not len(waits.thread) or not len(silence.before):
        return waits.taken(np.zeros(0, np.int64))
    of_thread = Grouped(waits.start_ns, waits.end_ns, waits.thread)
    inside = cut(Grouped(*silence.times), of_thread)
    found = Waits(
        inside.start_ns, inside.end_ns, silence.times.thread[inside.span], waits.name[inside.row]
    )
    before = silence.before[inside.span]
    alone = before == found.thread
    both = found.taken(~alone)
    cuts = cut(Grouped(both.start_ns, both.end_ns, before[~alone]), of_thread)
    both = both.taken(cuts.span)._replace(start_ns=cuts.start_ns, end_ns=cuts.end_ns)
    both = both.taken(both.end_ns - both.start_ns >= LONGEST_WAKING_NS)
    parts = (found.taken(alone), both)
    return Waits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def has_context_switches(trace: Trace) -> bool:
    """Return whether it is recorded when launching threads ran."""
    return bool(_recorded(trace, "sched_event") and len(_of_launching(trace, "sched_event")))


def named(
    trace: Trace, table: str, wanted: Callable[[bytes], bool], kind: int | None = None
) -> tuple[ThreadTimes, I64]:
    """Return the rows of a table by launching threads whose name matches, and their names.

    Args:
        trace: The trace.
        table: A table with times, threads and names.
        wanted: Whether a name matches.
        kind: The value of the column ``kind``, if only these rows count.
    """
    if not _recorded(trace, table):
        return joined([]), np.zeros(0, np.int64)
    columns = trace.columns(table, "start_ns", "end_ns", "thread_id", "name_id")
    name, thread = (columns[key].filled(-1) for key in ("name_id", "thread_id"))
    is_wanted = np.zeros(len(trace.strings) + 1, np.bool_)  # the last is that of -1
    for text in distinct_values(name).tolist():
        is_wanted[text] = text >= 0 and wanted(trace.strings.raw(text))
    rows = np.flatnonzero(is_wanted[name])
    is_chosen = np.append(working_threads(trace), False)[thread[rows]]
    if kind is not None:
        is_chosen &= trace.columns(table, "kind")["kind"].values[rows] == kind
    rows = rows[is_chosen]
    start, end = (columns[key].values[rows] for key in ("start_ns", "end_ns"))
    times = ThreadTimes(start, np.maximum(start, end), thread[rows].astype(np.int64))
    return times, name[rows].astype(np.int64)


def _waiting_calls(trace: Trace, table: str, kind: int | None) -> tuple[ThreadTimes, I64]:
    def waits(name: bytes) -> bool:
        return wait_kind(name.decode("utf-8", "replace")) != WaitKind.NONE

    return named(trace, table, waits, kind)


def _for_gil(trace: Trace) -> ThreadTimes:
    """Return when launching threads waited for the GIL."""
    if not _recorded(trace, "gil_span"):
        return joined([])
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "state")
    rows = _of_launching(trace, "gil_span")
    rows = rows[columns["state"].values[rows] == _WAITING]
    start, end, thread = (columns[key].values[rows] for key in ("start_ns", "end_ns", "thread_id"))
    return ThreadTimes(start, np.maximum(start, end), thread.astype(np.int64))


def _off_processor(trace: Trace) -> tuple[ThreadTimes, ThreadTimes]:
    """Return when launching threads were off the CPU: preempted, and for another reason."""
    if not _recorded(trace, "sched_event"):
        return joined([]), joined([])
    columns = trace.columns("sched_event", "time_ns", "thread_id", "is_sched_in", "state")
    known = _of_launching(trace, "sched_event")
    time, thread, runs = (
        columns[key].values[known] for key in ("time_ns", "thread_id", "is_sched_in")
    )
    state = columns["state"].filled(-1)[known]
    order = np.lexsort((time, thread))
    time, thread, runs = time[order], thread[order].astype(np.int64), runs[order]
    left = np.flatnonzero(~runs[:-1] & runs[1:] & (thread[:-1] == thread[1:]))
    # What is off the CPU while it could run has not stopped by itself.
    could_run = state[order[left]] == _RUNNING
    off = ThreadTimes(time[left], time[left + 1], thread[left])
    return off.taken(could_run), off.taken(~could_run)


def _between_samples(trace: Trace) -> ThreadTimes:
    """Return when launching threads without context switches were not sampled for long.

    Only threads on a CPU are sampled. A period is the median time between samples of a thread.
    """
    if not _recorded(trace, "cpu_sample"):
        return joined([])
    rows = _of_launching(trace, "cpu_sample")
    columns = trace.columns("cpu_sample", "time_ns", "thread_id")
    time, thread = (column.values[rows] for column in columns.values())
    switched = np.zeros(0, np.int64)
    if _recorded(trace, "sched_event"):
        events = trace.columns("sched_event", "thread_id")["thread_id"].values
        switched = distinct_values(events[_of_launching(trace, "sched_event")])
    parts = []
    for place in by_group(thread):
        sampled = np.sort(time[place])
        if len(sampled) < _FEWEST_SAMPLES or thread[place[0]] in switched:
            continue
        between = np.diff(sampled)
        period = int(np.median(between))
        unseen = np.flatnonzero(between >= max(_MISSED_SAMPLES * period, 1))
        who = np.full(len(unseen), thread[place[0]], np.int64)
        # It may have run until the next sample was due, and for as long before this one.
        parts.append(ThreadTimes(sampled[unseen] + period, sampled[unseen + 1] - period, who))
    return joined(parts)


def _seen_asleep(trace: Trace) -> ThreadTimes:
    """Return when launching threads did not run, by Python samples; of threads without others."""
    if not _recorded(trace, "python_sample"):
        return joined([])
    columns = trace.columns("python_sample", "time_ns", "period_ns", "thread_id", "is_running")
    rows = _of_launching(trace, "python_sample")
    runs = columns["is_running"]
    rows = rows[(runs.is_valid() & ~runs.values.astype(np.bool_))[rows]]
    start, period, thread = (columns[key].values[rows] for key in tuple(columns)[:3])
    others = [
        trace.columns(table, "thread_id")["thread_id"].values[_of_launching(trace, table)]
        for table in ("sched_event", "cpu_sample")
        if _recorded(trace, table)
    ]
    left = ~np.isin(thread, np.concatenate([np.zeros(0, np.int64), *others]))
    times = ThreadTimes(start, start + np.maximum(period, 0), thread.astype(np.int64))
    return times.taken(left)


def _of_launching(trace: Trace, table: str) -> I64:
    """Return the rows of a table whose thread launches work."""
    thread = trace.columns(table, "thread_id")["thread_id"]
    known = np.flatnonzero(thread.is_valid())
    return known[working_threads(trace)[thread.values[known]]]


def _has_stacks(trace: Trace, table: str) -> bool:
    return _recorded(trace, table) and bool(
        trace.columns(table, "stack_id")["stack_id"].is_valid().any()
    )


def _recorded(trace: Trace, table: str) -> bool:
    return trace.has(table) and trace.row_count(table) > 0
