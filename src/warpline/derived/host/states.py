"""What each thread did at every time of its recorded life: it ran, could run, or was blocked.

States are from context switches where a thread has any. Otherwise they are from:

- CPU samples, which are taken on a CPU only: a thread was blocked where more than five periods
  passed without one.
- Samples of Python stacks, which say whether the thread ran.
- Calls that wait, in the C library or for the GIL. The rest of the time is not recorded.

A blocked thread is blocked on the GIL, else on the CUDA API call that it is in, else on the OS call
that it is in, else on what the functions of its stack say.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.blocked_stacks import stack_reasons
from warpline.derived.host.blocking import Reason
from warpline.derived.host.evidence import Spans, evidence
from warpline.derived.host.lives import WITNESSES, ThreadLives, thread_lives
from warpline.derived.host.reasons import Waits, waits
from warpline.derived.host.samples import PYTHON_SAMPLES, weights
from warpline.derived.host.thread_rows import thread_blocks, thread_rows
from warpline.ops.arrays import I8, I32, I64, BoolArray
from warpline.ops.tiling import Grouped, by_group, cut, rest, tile
from warpline.ops.tree import enclosing
from warpline.trace import Trace

__all__ = ["NONE", "Reason", "State", "ThreadStates", "thread_lives", "thread_states"]

NONE = -1


class State(IntEnum):
    """What a thread did."""

    NOT_RECORDED = 0
    RUNNING = 1
    RUNNABLE = 2
    BLOCKED = 3


class ThreadStates(NamedTuple):
    """A tiling of the recorded life of each thread, by thread and start, without gaps or overlaps.

    Attributes:
        thread_id: Shape (n,), int32, rows of the thread table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, after the start.
        state: Shape (n,), int8, of State.
        reason: Shape (n,), int8, of Reason: what a blocked thread waited for.
        name: Shape (n,), int32, the function in which it was blocked, a position in `names`; NONE
            for unknown.
        stack_id: Shape (n,), int32, the stack in which it was blocked; NONE for unknown.
        names: Functions, and "GIL".
    """

    thread_id: I32
    start_ns: I64
    end_ns: I64
    state: I8
    reason: I8
    name: I32
    stack_id: I32
    names: tuple[str, ...]


@derived
def thread_states(trace: Trace) -> ThreadStates:
    """Return the states of all threads of which something is known."""
    parts: dict[str, list[Any]] = {name: [] for name in ThreadStates._fields}
    for threads in thread_blocks(trace, (*WITNESSES, "api_call")):
        for name, column in _of_threads(trace, threads)._asdict().items():
            parts[name].append(column)
    names = parts.pop("names")[0]
    # The parts of a column are freed before the next one is joined.
    columns = {name: np.concatenate(parts.pop(name)) for name in tuple(parts)}
    return ThreadStates(**columns, names=names)


def _of_threads(trace: Trace, threads: range) -> ThreadStates:
    """Return the states of some threads."""
    lives = thread_lives(trace)
    own = slice(*np.searchsorted(lives.thread_id, (threads.start, threads.stop)).tolist())
    lives = ThreadLives._make(column[own] for column in lives)
    known = _filled(_tiled(evidence(trace, threads)), lives)
    is_blocked = known.state == State.BLOCKED
    blocked, waiting = known.taken(is_blocked), waits(trace, threads)
    if not len(waiting.reason):
        wait = np.full(len(blocked.thread), NONE)
        return _with_reasons(trace, threads, known.taken(~is_blocked), blocked, wait, waiting)
    pieces = cut(blocked.grouped(), waiting.times)
    left = rest(blocked.grouped(), pieces)
    place = np.concatenate((pieces.span, left.span))
    wait = np.concatenate((pieces.row, np.full(len(left.span), NONE)))
    blocked = blocked.taken(place)._replace(
        start_ns=np.concatenate((pieces.start_ns, left.start_ns)),
        end_ns=np.concatenate((pieces.end_ns, left.end_ns)),
    )
    return _with_reasons(trace, threads, known.taken(~is_blocked), blocked, wait, waiting)


def _with_reasons(
    trace: Trace, threads: range, others: Spans, blocked: Spans, wait: I64, waiting: Waits
) -> ThreadStates:
    """Return all states: those of blocked threads with the wait that each is in, or NONE."""
    in_wait = wait != NONE
    stack = _stacks(trace, threads, blocked)
    # The stack of the call is whole; that of a switch has no frames of Python.
    called = _picked(waiting.stack, wait)
    stack = np.where(in_wait & (called != NONE), called, stack)
    unclear = np.flatnonzero(~in_wait)
    by_stack = stack_reasons(trace, stack[unclear])
    reason = _picked(waiting.reason, wait)
    reason[unclear] = np.where(
        (by_stack.reason == Reason.UNKNOWN) & blocked.is_uninterruptible[unclear],
        Reason.PAGE_FAULT,
        by_stack.reason,
    )
    name = _picked(waiting.name, wait)
    name[unclear] = np.where(by_stack.name < 0, NONE, by_stack.name + len(waiting.names))
    rows = len(others.thread)
    every = Spans(*(np.concatenate(pair) for pair in zip(others, blocked, strict=True)))
    reason = np.concatenate((np.full(rows, Reason.NONE), reason))
    name = np.concatenate((np.full(rows, NONE), name))
    stack = np.concatenate((np.full(rows, NONE), stack))
    return _merged(every, reason, name, stack, (*waiting.names, *by_stack.names))


def _picked(values: I64, rows: I64) -> I64:
    """Return the value of each row, NONE for no row."""
    return np.append(values, NONE)[rows]


def _tiled(known: Spans) -> Spans:
    """Return the evidence with the lowest level at each time of a thread, by thread and start."""
    parts = [known.taken(known.level == 0)]
    weaker = known.taken(known.level > 0)
    for rows in by_group(weaker.thread):
        tiles = tile(weaker.start_ns[rows], weaker.end_ns[rows], weaker.level[rows])
        owner = weaker.taken(rows[tiles.owner])
        parts.append(owner._replace(start_ns=tiles.start_ns, end_ns=tiles.end_ns))
    joined = Spans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return joined.taken(np.lexsort((joined.start_ns, joined.thread)))


def _filled(known: Spans, lives: ThreadLives) -> Spans:
    """Return the spans within the lives of threads, and what is not recorded between them."""
    life = Grouped(lives.start_ns, lives.end_ns, lives.thread_id)
    pieces = cut(life, known.grouped())
    left = rest(life, pieces)
    inside = known.taken(pieces.row)._replace(start_ns=pieces.start_ns, end_ns=pieces.end_ns)
    none = np.zeros(len(left.span), np.int64)
    unknown = Spans(
        left.start_ns,
        left.end_ns,
        lives.thread_id[left.span],
        none + State.NOT_RECORDED,
        none,
        none > 0,
        none + NONE,
    )
    return Spans(*(np.concatenate(pair) for pair in zip(inside, unknown, strict=True)))


def _stacks(trace: Trace, threads: range, blocked: Spans) -> I64:
    """Return the stack of each blocked time: where it began, else a sample of it."""
    stack = blocked.stack.copy()
    missing = np.flatnonzero(stack == NONE)
    rows = thread_rows(trace, PYTHON_SAMPLES).of(threads)
    if not len(missing) or not len(rows):
        return stack
    columns = trace.columns(PYTHON_SAMPLES, "time_ns", "thread_id", "stack_id")
    start = columns["time_ns"].values[rows]
    middle = (blocked.start_ns + (blocked.end_ns - blocked.start_ns) // 2)[missing]
    around = enclosing(
        middle,
        start,
        start + weights(trace, PYTHON_SAMPLES)[rows],
        point_group=blocked.thread[missing],
        group=columns["thread_id"].values[rows].astype(np.int64),
    )
    sampled = columns["stack_id"].take(rows).filled(NONE)[around.row]
    stack[missing] = np.where(around.found, sampled, NONE)
    return stack


def _merged(
    spans: Spans, reason: I64, name: I64, stack: I64, names: tuple[str, ...]
) -> ThreadStates:
    """Return the states in order, adjacent equal ones as one."""
    order = np.lexsort((spans.start_ns, spans.thread))
    thread, state = spans.thread[order], spans.state[order]
    columns = (thread, state, reason[order], name[order], stack[order])
    opens: BoolArray = np.append(True, np.zeros(max(len(order) - 1, 0), np.bool_))[: len(order)]
    for column in columns:
        opens[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    return ThreadStates(
        thread[first].astype(np.int32),
        spans.start_ns[order][first],
        spans.end_ns[order][last],
        state[first].astype(np.int8),
        columns[2][first].astype(np.int8),
        columns[3][first].astype(np.int32),
        columns[4][first].astype(np.int32),
        names,
    )
