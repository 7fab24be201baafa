"""What threads that are blocked may wait for: the GIL, CUDA API calls, OS calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.blocking import Reason, reason_of
from warpline.derived.host.thread_rows import thread_rows
from warpline.derived.texts import without_version
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.tiling import Grouped, by_group, tile
from warpline.schema.labels import GIL_STATES
from warpline.trace import Trace

_WAITING = next(value for value, label in GIL_STATES.items() if label == "Waiting")
_NO_STACK = -1
_GIL = "GIL"


class Waits(NamedTuple):
    """Times of calls and of waits for the GIL, by thread and start, not overlapping on a thread.

    Attributes:
        times: The times of each; groups are rows of the thread table.
        reason: Shape (n,), int64, of Reason.
        name: Shape (n,), int64, positions in `names`.
        stack: Shape (n,), int64, rows of `stack`; -1 for none.
        names: Names of functions, and "GIL".
    """

    times: Grouped
    reason: I64
    name: I64
    stack: I64
    names: tuple[str, ...]


class _Calls(NamedTuple):
    start: I64
    end: I64
    thread: I64
    level: I64
    reason: I64
    name: I64
    stack: I64


def waits(trace: Trace, threads: range) -> Waits:
    """Return what threads waited for, if they were blocked at that time.

    The GIL goes before CUDA API calls, and these before OS calls: they wait inside of them. The
    names are those of all threads.

    Args:
        trace: The trace.
        threads: Rows of the thread table.
    """
    of_text, names = _names(trace)
    parts = [
        part
        for level, part in enumerate(
            (
                _gil(trace, threads),
                _calls(trace, threads, "api_call", of_text["api_call"]),
                _calls(trace, threads, "os_call", of_text["os_call"]),
            )
        )
        for part in ([part._replace(level=part.level + level)] if len(part.start) else [])
    ]
    tiled = [_Calls(*(np.zeros(0, np.int64) for _ in _Calls._fields))]
    if parts:
        every = _Calls(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        for rows in by_group(every.thread):
            tiles = tile(every.start[rows], every.end[rows], every.level[rows])
            owner = _Calls(*(column[rows[tiles.owner]] for column in every))
            tiled.append(owner._replace(start=tiles.start_ns, end=tiles.end_ns))
    calls = _Calls(*(np.concatenate(column) for column in zip(*tiled, strict=True)))
    times = Grouped(calls.start, calls.end, calls.thread)
    return Waits(times, calls.reason, calls.name, calls.stack, names)


def _os_reason(name: str) -> Reason:
    known = reason_of(name)
    return Reason.OTHER_CALL if known == Reason.UNKNOWN else known


class _OfText(NamedTuple):
    """What calls of a function wait for, and its name; of each row of the string pool."""

    reason: I64
    name: I64


@derived
def _names(trace: Trace) -> tuple[dict[str, _OfText], tuple[str, ...]]:
    """Return the functions of each table of calls, and all names: the first one is the GIL's."""
    names = {_GIL: 0}
    found = {}
    for table, (reason, shown) in _OF_TABLE.items():
        distinct: list[int] = []
        if trace.has(table):
            distinct = distinct_values(trace.columns(table, "name_id")["name_id"].values).tolist()
        of_text = _OfText(*(np.zeros(len(trace.strings), np.int64) for _ in _OfText._fields))
        for number, text in zip(distinct, trace.strings.texts(distinct), strict=True):
            of_text.reason[number] = reason(text)
            of_text.name[number] = names.setdefault(shown(text), len(names))
        found[table] = of_text
    return found, tuple(names)


def _gil(trace: Trace, threads: range) -> _Calls:
    rows = thread_rows(trace, "gil_span").of(threads)
    if not len(rows):
        return _Calls(*(np.zeros(0, np.int64) for _ in _Calls._fields))
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "state")
    rows = rows[columns["state"].take(rows).filled(0) == _WAITING]
    start, end, thread = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id")
    )
    none = np.zeros(len(rows), np.int64)
    return _Calls(
        start,
        np.maximum(start, end),
        thread.astype(np.int64),
        none,
        none + Reason.GIL,
        none,
        none + _NO_STACK,
    )


def _calls(trace: Trace, threads: range, table: str, of_text: _OfText) -> _Calls:
    """Return the calls of a table, with the reason and the shown name of each function."""
    rows = thread_rows(trace, table).of(threads)
    if not len(rows):
        return _Calls(*(np.zeros(0, np.int64) for _ in _Calls._fields))
    columns = trace.columns(table, "start_ns", "end_ns", "thread_id", "name_id", "stack_id")
    start, end, thread, text = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id", "name_id")
    )
    return _Calls(
        start,
        np.maximum(start, end),
        thread.astype(np.int64),
        np.zeros(len(start), np.int64),
        of_text.reason[text],
        of_text.name[text],
        columns["stack_id"].take(rows).filled(_NO_STACK).astype(np.int64),
    )


_OF_TABLE: Mapping[str, tuple[Callable[[str], Reason], Callable[[str], str]]] = {
    "api_call": (lambda _: Reason.CUDA, without_version),
    "os_call": (_os_reason, str),
}
