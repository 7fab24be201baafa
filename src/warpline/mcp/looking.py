"""The tool ``events``: single events of a recording, each with an id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpline import api
from warpline.errors import UsageError
from warpline.mcp import conditions, unknown
from warpline.mcp.opened import Opened
from warpline.mcp.pages import Section, page
from warpline.mcp.unknown import CANNOT_SAY
from warpline.schema import TABLES, TableSpec

if TYPE_CHECKING:
    from warpline.trace import Trace

Numbers = npt.NDArray[np.int64]

_ID = re.compile(r"([a-z_]+):(\d{1,12})")
_MOST_EVENTS = 200_000  # that one call looks at
# Columns shown unless others are named; the rest is long, or rarely of use.
_SHOWN = (
    *("name", "operation", "kind", "bytes", "src_memory", "dst_memory"),
    *("gpu", "stream", "pid", "tid", "correlation_id", "bytes_per_s", "value"),
)
# References -> the column of their table that people know, and its name here.
_DIMENSIONS = {
    "device_id": ("device", "gpu_index", "gpu"),
    "stream_id": ("stream", "native_id", "stream"),
    "process_id": ("process", "pid", "pid"),
    "thread_id": ("thread", "tid", "tid"),
}


def events(  # noqa: PLR0913 - the arguments of a call
    opened: Opened,
    *,
    recordings: Sequence[str],
    table: str = "kernel",
    time: str | None = None,
    near: str | None = None,
    margin_ns: int = 0,
    where: Sequence[str] = (),
    sort: str | None = None,
    columns: Sequence[str] = (),
    cursor: str | None = None,
) -> str:
    """Return events of a table of the trace: in a time range, around another event, or all."""
    trace = opened.trace(recordings)
    if table not in TABLES:
        there = ", ".join(name for name in trace.tables if trace.row_count(name))
        raise UsageError(f"unknown table {table[:40]!r}", hint=f"with events: {there}")
    spec = TABLES[table]
    if not trace.has(table):
        why = f"no {table} events were recorded"
        return page(
            {"table": table, "answer": CANNOT_SAY}, [unknown.section([(table, why, None)])], cursor
        )
    window = _window(trace, time, near, margin_ns)
    part, numbers = _selected(trace, spec, window)
    names, rows = _rows(part, spec, numbers)
    rows = conditions.chosen(names, rows, where)
    head: dict[str, Any] = {
        "table": table,
        "events_of_table": trace.row_count(table),
        "matching": len(rows),
    }
    if "duration_ns" in names:
        place = names.index("duration_ns")
        head["sum_duration_ns"] = sum(row[place] or 0 for row in rows)
    if window is not None:
        head["window_ns"] = list(window)
    if sort is not None:
        rows = conditions.ordered(names, rows, sort)
    names, rows = conditions.picked(names, rows, columns or _default(names))
    return page(head, [Section("events", [list(row) for row in rows], names)], cursor)


def _default(names: Sequence[str]) -> list[str]:
    """Return the columns to show; all of a table without times, such as that of devices."""
    first = [name for name in names if name in {"id", "start_ns", "time_ns", "duration_ns"}]
    shown = [name for name in _SHOWN if name in names]
    return [*first, *shown] if len(first) > 1 and shown else list(names)


def _window(
    trace: Trace, time: str | None, near: str | None, margin_ns: int
) -> tuple[int, int] | None:
    """Return the time range that a call asks for; None for all of the recording."""
    if time is not None and near is not None:
        raise UsageError("time and near cannot be combined", hint="use one")
    if time is not None:
        low, high = api.select(trace, filter_time=time).span()
        return low, high
    if near is None:
        return None
    spec, row = _event(trace, near)
    if spec.start is None or spec.end is None:
        raise UsageError(f"events of {spec.name} have no time")
    times = trace.columns(spec.name, *{spec.start, spec.end})
    low, high = (int(times[name].values[row]) for name in (spec.start, spec.end))
    margin = max(min(margin_ns, 1 << 60), 0)
    return low - margin, max(high, low + 1) + margin


def _event(trace: Trace, word: str) -> tuple[TableSpec, int]:
    found = _ID.fullmatch(word)
    if found is None or found[1] not in TABLES:
        raise UsageError(f"{word[:60]!r} is not the id of an event", hint="such as kernel:12")
    name, row = found[1], int(found[2])
    count = trace.row_count(name) if trace.has(name) else 0
    if row >= count:
        raise UsageError(f"there is no event {word}: {name} has {count} events")
    return TABLES[name], row


def _selected(
    trace: Trace, spec: TableSpec, window: tuple[int, int] | None
) -> tuple[Trace, Numbers]:
    """Return the part of the trace in a time range, and its rows' numbers in the whole."""
    part = trace if window is None else trace.window(*window)
    count = part.row_count(spec.name)
    if count > _MOST_EVENTS:
        raise UsageError(
            f"{count} events of {spec.name} are too many to look at", hint="name a shorter time"
        )
    return part, _numbers(part, spec.name)


def _numbers(part: Trace, table: str) -> Numbers:
    """Return the row in the whole recording of each row of a table of a part."""
    return np.flatnonzero(part.places_of_whole(table) >= 0)


def _rows(part: Trace, spec: TableSpec, numbers: Numbers) -> tuple[list[str], list[conditions.Row]]:
    """Return the names of the columns and the rows, with ids and lengths of time."""
    frame = part.table(spec.name).to_polars()
    columns: dict[str, list[Any]] = {"id": [f"{spec.name}:{row}" for row in numbers.tolist()]}
    for name in frame.columns:
        ref = spec.column(name).ref if spec.has(name) else None
        values = frame[name].to_list()
        if name in _DIMENSIONS:
            columns[_DIMENSIONS[name][2]] = _dimension(part, name, values)
        elif ref is not None and part.has(ref):
            columns[name] = _ids(part, ref, values)
        elif name == "end_ns":
            pairs = zip(columns["start_ns"], values, strict=True)
            columns["duration_ns"] = [None if end is None else end - start for start, end in pairs]
        else:
            columns[name] = [value.hex() if isinstance(value, bytes) else value for value in values]
    kept = columns if not numbers.size else {n: v for n, v in columns.items() if not _is_empty(v)}
    return list(kept), [list(row) for row in zip(*kept.values(), strict=True)]


def _is_empty(values: Sequence[Any]) -> bool:
    return all(value is None for value in values)


def _dimension(part: Trace, name: str, rows: Sequence[int | None]) -> list[Any]:
    """Return what people call the rows of a table that a column refers to: GPU 0, pid 795."""
    table, column, _ = _DIMENSIONS[name]
    known = part.table(table)[column].tolist() if part.has(table) else []
    return [known[row] if row is not None and 0 <= row < len(known) else None for row in rows]


def _ids(part: Trace, ref: str, rows: Sequence[int | None]) -> list[str | None]:
    """Return the ids of events that a column refers to."""
    known = _numbers(part, ref)
    return [
        f"{ref}:{known[row]}" if row is not None and 0 <= row < len(known) else None for row in rows
    ]
