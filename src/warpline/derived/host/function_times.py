"""Sums of samples by function or line: by itself, and with all that it called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived.host.functions import (
    PYTHON,
    forest_of,
    frame_files,
    functions,
    stacks,
)
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
        file: Shape (n,), int64, rows of the string pool: the file of the line.
        line: Shape (n,), int64, the line, or that with the most time of the function; NO_LINE for
            none.
        thread: Shape (n,), int64, rows of the thread table; NO_THREAD if not asked for or unknown.
        sums: The sums of each kind of value.
        whole: The sum of each kind of value over all samples, also those without a stack.
    """

    function: I64
    file: I64
    line: I64
    thread: I64
    sums: Mapping[str, FrameSums]
    whole: Mapping[str, int]


class _Places(NamedTuple):
    """The file and line of each row of a forest."""

    file: I64
    line: I64


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
    of_frame = functions(trace).of_frame
    places = _Places(frame_files(trace).astype(np.int64), _lines(trace))
    key_of_frame = factorize_rows(of_frame, *places).codes if by_line else of_frame
    outermost = found.is_outermost(key_of_frame[stacks(trace).frame])
    frame = stacks(trace).frame[found.stack]
    place = _Places(places.file[frame], places.line[frame])
    is_kept = np.ones(len(found), np.bool_)
    if python_only:
        is_kept = functions(trace).kind[of_frame[frame]] == PYTHON
    keys = factorize_rows(found.group, key_of_frame[frame])
    shown = np.flatnonzero(is_kept[keys.first])
    first = keys.first[shown]
    chosen = first if by_line else None
    sums, whole = {}, {}
    for name, column in values:
        own = found.own(column)
        if python_only:
            own = found.raised(own, is_kept)
        of_keys = found.sums(keys.codes, keys.n_groups, own, outermost)
        sums[name] = FrameSums(of_keys.own[shown], of_keys.total[shown])
        whole[name] = int(column.sum())
        if chosen is None:
            chosen = _longest_lines(found, keys.codes, place, own)[shown]
        del column, own  # before the next ones are made
    assert chosen is not None
    return FunctionTimes(
        of_frame[frame[first]].astype(np.int64),
        place.file[chosen],
        place.line[chosen],
        found.group[first] - 1 if by_thread else np.full(len(first), NO_THREAD),
        sums,
        whole,
    )


def _lines(trace: Trace) -> I64:
    if not trace.has("frame"):
        return np.zeros(0, np.int64)
    return trace.columns("frame", "line")["line"].filled(NO_LINE).astype(np.int64)


def _longest_lines(found: Forest, key: Integers, place: _Places, values: I64) -> I64:
    """Return a node of each key with the line of most time by itself, then of most in calls.

    Args:
        found: The stacks.
        key: Shape (nodes,).
        place: Shape (nodes,); a negative line for none.
        values: Shape (nodes,), the time of each by itself.
    """
    n_keys = int(key.max(initial=-1)) + 1
    longest = np.zeros(n_keys, np.int64)
    longest[key[::-1]] = np.arange(len(key))[::-1]  # the first row, where no line is known
    rows = np.flatnonzero(place.line >= 0)
    if not len(rows):
        return longest
    pairs = factorize_rows(key[rows], place.file[rows], place.line[rows])
    by_itself = group_sums(pairs.codes, values[rows], pairs.n_groups)
    with_calls = group_sums(pairs.codes, found.with_callees(values)[rows], pairs.n_groups)
    of_pair = rows[pairs.first]
    # Of equal ones, the first line.
    order = np.lexsort((-place.line[of_pair], with_calls, by_itself, key[of_pair]))
    longest[key[of_pair][order]] = of_pair[order]  # the last write wins
    return longest
