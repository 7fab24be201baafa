"""Sums of samples by function or line: by itself, and with all that it called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived.host.functions import PYTHON, forest_of, functions, stacks
from warpline.ops.arrays import I64, Integers
from warpline.ops.group import factorize_rows, group_sums
from warpline.ops.stack_sums import Forest, FrameSums
from warpline.trace import Trace

NO_LINE = -1
NO_THREAD = -1


class FunctionTimes(NamedTuple):
    """A row per function, or per line and thread if asked for.

    Attributes:
        function: Shape (n,), int64, of `functions`.
        line: Shape (n,), int64, the line, or that with the most time of the function; NO_LINE for
            none.
        thread: Shape (n,), int64, rows of the thread table; NO_THREAD if not asked for or unknown.
        sums: The sums of each kind of value.
        whole: The sum of each kind of value over all samples, also those without a stack.
    """

    function: I64
    line: I64
    thread: I64
    sums: Mapping[str, FrameSums]
    whole: Mapping[str, int]


def function_times(
    trace: Trace,
    table: str,
    values: Iterable[tuple[str, Integers]],
    *,
    by_line: bool = False,
    by_thread: bool = False,
    python_only: bool = False,
) -> FunctionTimes:
    """Return sums of values of samples, by function.

    Args:
        trace: The trace.
        table: A table of samples with stacks and threads.
        values: Names and values of each row, used one at a time; the first decides which line of a
            function is shown.
        by_line: Whether each line has a row.
        by_thread: Whether each thread has rows of its own.
        python_only: Whether a sample counts for the innermost Python function by itself.
    """
    group = None
    if by_thread:
        group = trace.columns(table, "thread_id")["thread_id"].filled(NO_THREAD) + np.int32(1)
    found = forest_of(trace, table, group)
    of_frame, lines = functions(trace).of_frame, _lines(trace)
    key_of_frame = factorize_rows(of_frame, lines).codes if by_line else of_frame
    outermost = found.is_outermost(key_of_frame[stacks(trace).frame])
    frame = stacks(trace).frame[found.stack]
    is_kept = np.ones(len(found), np.bool_)
    if python_only:
        is_kept = functions(trace).kind[of_frame[frame]] == PYTHON
    keys = factorize_rows(found.group, key_of_frame[frame])
    shown = np.flatnonzero(is_kept[keys.first])
    first = keys.first[shown]
    chosen = lines[frame[first]] if by_line else None
    sums, whole = {}, {}
    for name, column in values:
        own = found.own(column)
        if python_only:
            own = found.raised(own, is_kept)
        of_keys = found.sums(keys.codes, keys.n_groups, own, outermost)
        sums[name] = FrameSums(of_keys.own[shown], of_keys.total[shown])
        whole[name] = int(column.sum())
        if chosen is None:
            chosen = _longest_lines(found, keys.codes, lines[frame], own)[shown]
    assert chosen is not None
    return FunctionTimes(
        of_frame[frame[first]].astype(np.int64),
        chosen,
        found.group[first] - 1 if by_thread else np.full(len(first), NO_THREAD),
        sums,
        whole,
    )


def _lines(trace: Trace) -> I64:
    if not trace.has("frame"):
        return np.zeros(0, np.int64)
    return trace.columns("frame", "line")["line"].filled(NO_LINE).astype(np.int64)


def _longest_lines(found: Forest, key: Integers, line: I64, values: I64) -> I64:
    """Return the line of each key with most time by itself, then with most time in calls.

    Args:
        found: The stacks.
        key: Shape (nodes,).
        line: Shape (nodes,); negative for none.
        values: Shape (nodes,), the time of each by itself.
    """
    n_keys = int(key.max(initial=-1)) + 1
    longest = np.full(n_keys, NO_LINE)
    rows = np.flatnonzero(line >= 0)
    if not len(rows):
        return longest
    pairs = factorize_rows(key[rows], line[rows])
    by_itself = group_sums(pairs.codes, values[rows], pairs.n_groups)
    with_calls = group_sums(pairs.codes, found.with_callees(values)[rows], pairs.n_groups)
    of_pair = rows[pairs.first]
    # Of equal ones, the first line.
    order = np.lexsort((-line[of_pair], with_calls, by_itself, key[of_pair]))
    longest[key[of_pair][order]] = line[of_pair][order]  # the last write wins
    return longest
