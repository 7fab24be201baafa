"""Launch calls and open ranges against loops over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpline.derived.ranges.stacks import (
    innermost_range,
    is_launched_inside,
    launched_inside,
    range_nesting,
)
from warpline.derived.work.launches import launch_calls
from warpline.ops.join import Lookup
from warpline.ops.tree import Contents
from warpline.trace import MemorySource, Trace

Row = dict[str, Any]

START_END = 1
PROCESS_OF = (0, 0, 1)  # by thread

times = st.integers(-3, 12)
lengths = st.integers(0, 9)
threads = st.integers(0, 2)
correlations = st.none() | st.integers(0, 4)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Return a trace with shared correlation ids and arbitrarily overlapping ranges."""
    tables: dict[str, list[tuple[Any, ...]]] = {
        "api_call": draw(st.lists(st.tuples(times, lengths, threads, correlations), max_size=8)),
        "kernel": draw(st.lists(st.tuples(times, lengths, threads, correlations), max_size=6)),
        "memcpy": draw(st.lists(st.tuples(times, lengths, threads, correlations), max_size=3)),
        "range": draw(st.lists(st.tuples(times, lengths, threads, threads), max_size=8)),
    }
    columns: dict[str, dict[str, list[Any]]] = {
        name: {
            "start_ns": [start for start, _, _, _ in rows],
            "end_ns": [start + length for start, length, _, _ in rows],
            "process_id": [PROCESS_OF[thread] for _, _, thread, _ in rows],
        }
        for name, rows in tables.items()
    }
    for name in ("api_call", "range"):
        columns[name]["thread_id"] = [thread for _, _, thread, _ in tables[name]]
    for name in ("api_call", "kernel", "memcpy"):
        columns[name]["correlation_id"] = [correlation for *_, correlation in tables[name]]
    ends = [(thread, other) for _, _, thread, other in tables["range"]]
    columns["range"]["style"] = [draw(st.integers(0, 1)) for _ in ends]
    columns["range"]["end_thread_id"] = [
        other if other != thread and style == START_END else None
        for (thread, other), style in zip(ends, columns["range"]["style"], strict=True)
    ]
    return Trace(
        MemorySource(
            {
                "process": {"pid": [1, 2]},
                "thread": {"process_id": [*PROCESS_OF], "tid": [1, 2, 3]},
                **columns,
            }
        )
    )


def rows(trace: Trace, table: str) -> list[Row]:
    """Return the rows of a table in its total order."""
    names = [column.name for column in trace.table(table).spec.columns]
    data = {name: column.to_list() for name, column in trace.columns(table, *names).items()}
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]


def optional(found: Lookup) -> list[int | None]:
    pairs = zip(found.row.tolist(), found.found.tolist(), strict=True)
    return [row if ok else None for row, ok in pairs]


def launch_of(item: Row, calls: list[Row]) -> int | None:
    """Return the call of an operation that starts first, then ends last, then has the first row."""
    matching = [
        (one["start_ns"], -one["end_ns"], row)
        for row, one in enumerate(calls)
        if one["process_id"] == item["process_id"]
        and item["correlation_id"] is not None
        and one["correlation_id"] == item["correlation_id"]
    ]
    return min(matching)[2] if matching else None


def is_open(one: Row, launch: Row, *, start_end: str) -> bool:
    if not one["start_ns"] <= launch["start_ns"] < one["end_ns"]:
        return False
    if one["style"] == START_END and start_end == "any thread":
        return bool(one["process_id"] == launch["process_id"])
    return bool(one["thread_id"] == launch["thread_id"]) and one["end_thread_id"] is None


def span(one: Row) -> tuple[int, int]:
    return one["start_ns"], one["end_ns"]


def pairs_of(found: Contents, block: int) -> list[tuple[int, int]]:
    blocks = [(pairs.interval.tolist(), pairs.point.tolist()) for pairs in found.pairs(block)]
    return [pair for ranges, work in blocks for pair in zip(ranges, work, strict=True)]


@given(traces())
def test_launch_calls(trace: Trace) -> None:
    calls = rows(trace, "api_call")
    for table in ("kernel", "memcpy"):
        expected = [launch_of(item, calls) for item in rows(trace, table)]
        assert optional(launch_calls(trace)[table]) == expected


@given(traces())
def test_innermost_range(trace: Trace) -> None:
    calls, ranges = rows(trace, "api_call"), rows(trace, "range")
    for table in ("kernel", "memcpy", "api_call"):
        expected: list[int | None] = []
        for number, item in enumerate(rows(trace, table)):
            call = number if table == "api_call" else launch_of(item, calls)
            candidates = [
                (one["start_ns"], -one["end_ns"], row)
                for row, one in enumerate(ranges)
                if call is not None
                and one["style"] != START_END
                and is_open(one, calls[call], start_end="same thread")
            ]
            expected.append(max(candidates)[2] if candidates else None)
        assert optional(innermost_range(trace, table)) == expected


@given(traces(), st.sampled_from(["any thread", "same thread"]), st.integers(1, 5))
def test_launched_inside(trace: Trace, start_end: Any, block: int) -> None:
    calls, ranges = rows(trace, "api_call"), rows(trace, "range")
    launches = [launch_of(item, calls) for item in rows(trace, "kernel")]
    expected = [
        (number, work)
        for number, one in enumerate(ranges)
        for work, launch in enumerate(launches)
        if launch is not None and is_open(one, calls[launch], start_end=start_end)
    ]
    found = launched_inside(trace, "kernel", start_end=start_end)
    assert sorted(pairs_of(found, block)) == expected


@given(traces(), st.data())
def test_is_launched_inside(trace: Trace, data: st.DataObject) -> None:
    n_ranges = trace.row_count("range")
    chosen = data.draw(st.sets(st.integers(0, n_ranges - 1))) if n_ranges else set()
    found = launched_inside(trace, "kernel")
    expected = {work for one, work in pairs_of(found, 3) if one in chosen}
    inside = is_launched_inside(trace, "kernel", np.array(sorted(chosen), np.int64))
    assert set(np.flatnonzero(inside).tolist()) == expected


@given(traces())
def test_range_nesting(trace: Trace) -> None:
    """The parent is the last-started push/pop range of the thread that contains the range."""
    ranges, found = rows(trace, "range"), range_nesting(trace)
    for number, one in enumerate(ranges):
        inside = set(range(one["start_ns"], max(one["end_ns"], one["start_ns"] + 1)))
        holders = [
            (other["start_ns"], -other["end_ns"], row)
            for row, other in enumerate(ranges)
            if START_END not in (one["style"], other["style"])
            and one["thread_id"] == other["thread_id"]
            and inside <= set(range(other["start_ns"], other["end_ns"]))
            and (row < number or span(other) != span(one))
        ]
        parent = max(holders)[2] if holders else None
        assert (found.parent[number] if found.has_parent[number] else None) == parent
        assert found.depth[number] == (0 if parent is None else found.depth[parent] + 1)
