"""What threads that are blocked may wait for: the GIL, CUDA API calls, OS calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.blocking import Reason, reason_of
from warpline.derived.texts import TextNumbers, without_version
from warpline.ops.arrays import I64
from warpline.ops.tiling import Grouped, by_group, tile
from warpline.schema.labels import GIL_STATES
from warpline.trace import Trace

_WAITING = next(value for value, label in GIL_STATES.items() if label == "Waiting")
_NO_STACK = -1


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


@derived
def waits(trace: Trace) -> Waits:
    """Return what threads waited for, if they were blocked at that time.

    The GIL goes before CUDA API calls, and these before OS calls: they wait inside of them.
    """
    names: dict[str, int] = {}
    parts = [
        part
        for level, part in enumerate(
            (
                _gil(trace, names),
                _calls(trace, "api_call", names, lambda _: Reason.CUDA, without_version),
                _calls(trace, "os_call", names, _os_reason, str),
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
    return Waits(times, calls.reason, calls.name, calls.stack, tuple(names))


def _os_reason(name: str) -> Reason:
    known = reason_of(name)
    return Reason.OTHER_CALL if known == Reason.UNKNOWN else known


def _gil(trace: Trace, names: dict[str, int]) -> _Calls:
    if not trace.has("gil_span"):
        return _Calls(*(np.zeros(0, np.int64) for _ in _Calls._fields))
    columns = trace.columns("gil_span", "start_ns", "end_ns", "thread_id", "state")
    rows = np.flatnonzero(columns["state"].filled(0) == _WAITING)
    start, end, thread = (
        columns[name].values[rows] for name in ("start_ns", "end_ns", "thread_id")
    )
    none = np.zeros(len(rows), np.int64)
    name = names.setdefault("GIL", len(names)) if len(rows) else 0
    return _Calls(
        start,
        np.maximum(start, end),
        thread.astype(np.int64),
        none,
        none + Reason.GIL,
        none + name,
        none + _NO_STACK,
    )


def _calls(
    trace: Trace,
    table: str,
    names: dict[str, int],
    reason: Callable[[str], Reason],
    shown: Callable[[str], str],
) -> _Calls:
    """Return the calls of a table, with the reason and the shown name of each function."""
    if not trace.has(table) or not trace.row_count(table):
        return _Calls(*(np.zeros(0, np.int64) for _ in _Calls._fields))
    columns = trace.columns(table, "start_ns", "end_ns", "thread_id", "name_id", "stack_id")
    numbers = TextNumbers(trace.strings)
    codes = numbers.of(columns["name_id"].values)
    start = columns["start_ns"].values
    of_text = [names.setdefault(shown(text), len(names)) for text in numbers.texts]
    return _Calls(
        start,
        np.maximum(start, columns["end_ns"].values),
        columns["thread_id"].values.astype(np.int64),
        np.zeros(len(start), np.int64),
        np.array([reason(text) for text in numbers.texts], np.int64)[codes],
        np.array(of_text, np.int64)[codes],
        columns["stack_id"].filled(_NO_STACK).astype(np.int64),
    )
