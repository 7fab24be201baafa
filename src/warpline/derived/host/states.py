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

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from warpline.derived import derived, is_computed
from warpline.derived.host.blocked_stacks import stack_reasons
from warpline.derived.host.blocking import Reason
from warpline.derived.host.evidence import Evidence, Spans, evidence, joined_spans, spans
from warpline.derived.host.lives import WITNESSES, ThreadLives, thread_lives
from warpline.derived.host.reasons import Waits, waits
from warpline.derived.host.samples import PYTHON_SAMPLES, weights
from warpline.derived.host.thread_rows import thread_blocks, thread_rows
from warpline.ops.arrays import I8, I32, I64, BoolArray
from warpline.ops.tiling import Cuts, Grouped, by_group, cut, rest, tile
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
    for block in _computed(trace):
        for name, column in block._asdict().items():
            parts[name].append(column)
    names = parts.pop("names")[0]
    # The parts of a column are freed before the next one is joined.
    columns = {name: np.concatenate(parts.pop(name)) for name in tuple(parts)}
    return ThreadStates(**columns, names=names)


def state_blocks(trace: Trace) -> Iterator[ThreadStates]:
    """Yield the states of all threads, some threads at a time, in order.

    Sums of states need less memory so, and no time to join the blocks.
    """
    if is_computed(trace, thread_states):
        yield thread_states(trace)
    else:
        yield from _computed(trace)


def _computed(trace: Trace) -> Iterator[ThreadStates]:
    for threads in thread_blocks(trace, (*WITNESSES, "api_call")):
        yield _of_threads(trace, threads)


def _of_threads(trace: Trace, threads: range) -> ThreadStates:
    """Return the states of some threads."""
    lives = thread_lives(trace)
    own = slice(*np.searchsorted(lives.thread_id, (threads.start, threads.stop)).tolist())
    lives = ThreadLives._make(column[own] for column in lives)
    known = _filled(_tiled(evidence(trace, threads)), lives)
    waiting = waits(trace, threads)
    known, wait = _divided(known, waiting)
    return _merged(known, _causes(trace, threads, known, wait, waiting))


def _divided(known: Spans, waiting: Waits) -> tuple[Spans, I64]:
    """Return the spans in order, and the wait of each one; NONE for none.

    Those of blocked threads are divided where a wait begins or ends.
    """
    if not len(waiting.reason):
        return known, np.full(len(known.thread), NONE)
    is_blocked = known.state == State.BLOCKED
    blocked, others = (known.taken(np.flatnonzero(rows)) for rows in (is_blocked, ~is_blocked))
    pieces = cut(blocked.grouped(), waiting.times)
    left = rest(blocked.grouped(), pieces)
    divided = blocked.taken(np.concatenate((pieces.span, left.span)))._replace(
        start_ns=np.concatenate((pieces.start_ns, left.start_ns)),
        end_ns=np.concatenate((pieces.end_ns, left.end_ns)),
    )
    every = joined_spans((others, divided))
    wait = np.full(len(every.thread), NONE)
    first = len(others.thread)
    wait[first : first + len(pieces.row)] = pieces.row
    order = np.lexsort((every.start_ns, every.thread))
    return every.taken(order), wait[order]


class _Causes(NamedTuple):
    """What the threads of spans were blocked on: columns of ThreadStates."""

    reason: I8
    name: I32
    stack_id: I32
    names: tuple[str, ...]


def _causes(trace: Trace, threads: range, known: Spans, wait: I64, waiting: Waits) -> _Causes:
    """Return the causes of spans, NONE for those in which a thread was not blocked."""
    rows = np.flatnonzero(known.state == State.BLOCKED)
    stack, in_wait = _stacks(trace, threads, known, rows), wait[rows]
    waited = np.flatnonzero(in_wait != NONE)
    if len(waited):  # the stack of the call is whole; that of a switch has no frames of Python
        called = waiting.stack[in_wait[waited]]
        stack[waited] = np.where(called != NONE, called, stack[waited])
    by_stack = stack_reasons(trace, stack)
    reason = by_stack.reason.astype(np.int8)
    reason[(reason == Reason.UNKNOWN) & known.is_uninterruptible[rows]] = Reason.PAGE_FAULT
    name = by_stack.name.astype(np.int32)
    name[name >= 0] += len(waiting.names)
    reason[waited] = waiting.reason[in_wait[waited]]
    name[waited] = waiting.name[in_wait[waited]]
    count = len(known.thread)
    every = _Causes(
        np.full(count, Reason.NONE, np.int8),
        np.full(count, NONE, np.int32),
        np.full(count, NONE, np.int32),
        (*waiting.names, *by_stack.names),
    )
    every.reason[rows], every.name[rows], every.stack_id[rows] = reason, name, stack
    return every


def _tiled(known: Evidence) -> Spans:
    """Return the evidence that is trusted most at each time of a thread, by thread and start."""
    weaker, parts = known.weaker.in_order(), [known.switched]
    if weaker.are_disjoint():
        parts.append(weaker.kept(weaker.end_ns > weaker.start_ns))
        return joined_spans(parts).in_order()
    weaker = known.weaker
    for rows in by_group(weaker.thread):
        tiles = tile(weaker.start_ns[rows], weaker.end_ns[rows], known.level[rows])
        owner = weaker.taken(rows[tiles.owner])
        parts.append(owner._replace(start_ns=tiles.start_ns, end_ns=tiles.end_ns))
    return joined_spans(parts).in_order()


def _filled(known: Spans, lives: ThreadLives) -> Spans:
    """Return the spans within the lives of threads, and what is not recorded between them."""
    life = np.searchsorted(lives.thread_id, known.thread)
    start = np.maximum(known.start_ns, lives.start_ns[life])
    end = np.minimum(known.end_ns, lives.end_ns[life])
    lasting = end > start
    inside = known._replace(start_ns=start, end_ns=end).kept(lasting)
    if not lasting.all():
        life = life[lasting]
    cuts = Cuts(life, life, inside.start_ns, inside.end_ns)
    left = rest(Grouped(lives.start_ns, lives.end_ns, lives.thread_id), cuts)
    thread = lives.thread_id[left.span].astype(np.int32)
    unknown = spans(left.start_ns, left.end_ns, thread, int(State.NOT_RECORDED))
    return joined_spans((inside, unknown)).in_order()


def _stacks(trace: Trace, threads: range, known: Spans, blocked: I64) -> I32:
    """Return the stack of each blocked time: where it began, else a sample of it."""
    stack = known.stack[blocked]
    missing = np.flatnonzero(stack == NONE)
    rows = thread_rows(trace, PYTHON_SAMPLES).of(threads)
    if not len(missing) or not len(rows):
        return stack
    columns = trace.columns(PYTHON_SAMPLES, "time_ns", "stack_id")
    start = columns["time_ns"].values[rows]
    asked = blocked[missing]
    around = enclosing(
        known.start_ns[asked] + (known.end_ns[asked] - known.start_ns[asked]) // 2,
        start,
        start + weights(trace, PYTHON_SAMPLES)[rows],
        point_group=known.thread[asked].astype(np.int64),
        group=thread_rows(trace, PYTHON_SAMPLES).threads_of(threads).astype(np.int64),
    )
    sampled = columns["stack_id"].take(rows).filled(NONE)[around.row]
    stack[missing] = np.where(around.found, sampled, NONE)
    return stack


def _merged(known: Spans, causes: _Causes) -> ThreadStates:
    """Return the states, adjacent equal ones as one."""
    columns = (known.thread, known.state, *causes[:3])
    opens: BoolArray = np.zeros(len(known.thread), np.bool_)
    opens[:1] = True
    for column in columns:
        opens[1:] |= column[1:] != column[:-1]
    ends = np.append(opens[1:], True)[: len(opens)]
    thread, state, reason, name, stack = (_kept(column, opens) for column in columns)
    start, end = _kept(known.start_ns, opens), _kept(known.end_ns, ends)
    return ThreadStates(thread, start, end, state, reason, name, stack, causes.names)


def _kept(values: Any, is_kept: BoolArray) -> Any:
    return values if is_kept.all() else values[is_kept]
