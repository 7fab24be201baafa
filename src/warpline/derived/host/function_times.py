"""Sums of samples by function or line: by itself, and with all that it called."""

from __future__ import annotations

from collections.abc import Mapping
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
    values: Mapping[str, I64],
    *,
    by_line: bool = False,
    by_thread: bool = False,
    python_only: bool = False,
) -> FunctionTimes:
    """Return sums of values of samples, by function.

    Args:
        trace: The trace.
        table: A table of samples with stacks and threads.
        values: Values of each row by name; the first decides which line of a function is shown.
        by_line: Whether each line has a row.
        by_thread: Whether each thread has rows of its own.
        python_only: Whether a sample counts for the innermost Python function by itself.
    """
    thread = trace.columns(table, "thread_id")["thread_id"].filled(NO_THREAD).astype(np.int64)
    found = forest_of(trace, table, thread + 1 if by_thread else None)
    frame = stacks(trace).frame[found.stack]
    function = functions(trace).of_frame[frame].astype(np.int64)
    place = _Places(frame_files(trace)[frame].astype(np.int64), _lines(trace)[frame])
    is_kept = np.ones(len(found), np.bool_)
    if python_only:
        is_kept = functions(trace).kind[function] == PYTHON
    keys = factorize_rows(found.group, function, *(place if by_line else ()))
    sums, own = {}, {}
    for name, column in values.items():
        own[name] = found.own(column)
        if python_only:
            own[name] = found.raised(own[name], is_kept)
        sums[name] = found.sums(keys.codes, keys.n_groups, own[name])
    shown = np.flatnonzero(is_kept[keys.first])
    first = keys.first[shown]
    chosen = first if by_line else _longest_lines(found, keys.codes, place, own)[shown]
    return FunctionTimes(
        function[first],
        place.file[chosen],
        place.line[chosen],
        found.group[first] - 1 if by_thread else np.full(len(first), NO_THREAD),
        {name: FrameSums(of.own[shown], of.total[shown]) for name, of in sums.items()},
        {name: int(column.sum()) for name, column in values.items()},
    )


def _lines(trace: Trace) -> I64:
    if not trace.has("frame"):
        return np.zeros(0, np.int64)
    return trace.columns("frame", "line")["line"].filled(NO_LINE).astype(np.int64)


def _longest_lines(found: Forest, key: Integers, place: _Places, own: Mapping[str, I64]) -> I64:
    """Return a row of each key with the line of most time by itself, then of most in calls."""
    n_keys = int(key.max(initial=-1)) + 1
    longest = np.zeros(n_keys, np.int64)
    longest[key[::-1]] = np.arange(len(key))[::-1]  # the first row, where no line is known
    rows = np.flatnonzero(place.line >= 0)
    if not len(rows):
        return longest
    values = next(iter(own.values()))
    pairs = factorize_rows(key[rows], place.file[rows], place.line[rows])
    by_itself = group_sums(pairs.codes, values[rows], pairs.n_groups)
    with_calls = group_sums(pairs.codes, found.with_callees(values)[rows], pairs.n_groups)
    of_pair = rows[pairs.first]
    # Of equal ones, the first line.
    order = np.lexsort((-place.line[of_pair], with_calls, by_itself, key[of_pair]))
    longest[key[of_pair][order]] = of_pair[order]  # the last write wins
    return longest
