"""Blocked times summed by what threads were blocked on, and in which line of the program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.blocking import REASON_TEXTS, Reason
from warpline.derived.host.lines import NO_FRAME, leaf_places, place_texts
from warpline.derived.host.sample_rows import thread_keys
from warpline.derived.host.states import State, ThreadStates, state_blocks
from warpline.derived.texts import labelled
from warpline.ops.arrays import I8, I32, I64, repeated
from warpline.ops.group import distinct_values, factorize_rows, group_stats, group_sums
from warpline.result import Numbers, Texts, Values
from warpline.trace import Trace

NO_THREAD = -1


class BlockedTimes(NamedTuple):
    """Sums of blocked times, largest total first.

    Attributes:
        thread: Shape (n,), int64, rows of the thread table; NO_THREAD if not asked for.
        reason: Shape (n,), int64, of Reason.
        function: Shape (n,), int64, positions in `functions`; -1 for unknown.
        functions: Functions in which threads were blocked.
        line: Shape (n,), int64, rows of `frame`; NO_FRAME for unknown.
        total_ns: Shape (n,), int64.
        times: Shape (n,), int64, how often.
        longest_ns: Shape (n,), int64.
        n_threads: Shape (n,), int64, how many threads.
    """

    thread: I64
    reason: I64
    function: I64
    functions: tuple[str, ...]
    line: I64
    total_ns: I64
    times: I64
    longest_ns: I64
    n_threads: I64


@derived
def blocked_times(trace: Trace, *, by_thread: bool) -> BlockedTimes:
    """Return the sums of blocked times by reason, function and line of the program.

    Args:
        trace: The trace.
        by_thread: Whether each thread has rows of its own.
    """
    blocks = [(_of_block(trace, states), states.names) for states in state_blocks(trace)]
    names = blocks[0][1]  # the same in all blocks
    columns = zip(*(places for places, _ in blocks), strict=True)
    places = _Places._make(np.concatenate(column) for column in columns)
    of_thread = places.thread
    if not by_thread:
        of_thread = repeated(np.full(1, NO_THREAD, np.int32), len(places.thread))
    groups = factorize_rows(of_thread, places.reason, places.name, places.frame)
    first, count = groups.first, groups.n_groups
    total, times = (group_sums(groups.codes, each, count) for each in (places.total, places.times))
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, groups.codes, places.longest)
    n_threads = np.bincount(groups.codes, minlength=count)  # a place is of one thread
    thread, reason, name, frame = (of_thread[first], *(column[first] for column in places[1:4]))
    texts = _ranks([names[each] if each >= 0 else "" for each in name.tolist()])
    lines = _ranks(place_texts(trace, frame))
    order = np.lexsort((*thread_keys(trace, thread), lines, texts, reason, -total))
    return BlockedTimes(
        thread[order].astype(np.int64),
        reason[order].astype(np.int64),
        name[order].astype(np.int64),
        names,
        frame[order].astype(np.int64),
        total[order],
        times[order],
        longest[order],
        n_threads[order].astype(np.int64),
    )


class _Places(NamedTuple):
    """Sums of blocked times by thread, reason, function and line, each of one thread."""

    thread: I32
    reason: I8
    name: I32
    frame: I32
    total: I64
    times: I64
    longest: I64


def _of_block(trace: Trace, states: ThreadStates) -> _Places:
    """Return the sums of the blocked times of some threads."""
    rows = np.flatnonzero(states.state == State.BLOCKED)
    thread, reason, name = (
        column[rows] for column in (states.thread_id, states.reason, states.name)
    )
    frame = leaf_places(trace, states.stack_id[rows]).frame
    groups = factorize_rows(thread, reason, name, frame)
    stats = group_stats(groups.codes, states.end_ns[rows] - states.start_ns[rows], groups.n_groups)
    keys = (column[groups.first] for column in (thread, reason, name, frame))
    return _Places._make((*keys, stats.sum, stats.count, stats.max))


def _ranks(texts: list[str]) -> I64:
    """Return the rank of each text among all."""
    ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([ranks[text] for text in texts], np.int64)


def blocked_columns(trace: Trace, times: BlockedTimes) -> dict[str, Values]:
    """Return the columns `reason`, `function`, `line`, `count`, `total_ns`, `mean_ns`, `max_ns`."""
    texts = [REASON_TEXTS[reason] for reason in Reason]
    distinct = distinct_values(times.line)
    at = np.searchsorted(distinct, times.line)
    lines = place_texts(trace, distinct)
    return {
        "reason": labelled(times.reason, texts),
        "function": Texts(times.function.astype(np.int32), times.functions),
        "line": Texts(np.where(times.line == NO_FRAME, -1, at).astype(np.int32), lines),
        "count": Numbers(times.times),
        "total_ns": Numbers(times.total_ns),
        "mean_ns": Numbers(times.total_ns / np.maximum(times.times, 1)),
        "max_ns": Numbers(times.longest_ns),
    }
