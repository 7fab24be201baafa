"""Launch calls and open ranges on small traces worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from warpline.derived.ranges.stacks import (
    innermost_range,
    launched_inside,
    range_nesting,
)
from warpline.derived.work.launches import launch_calls
from warpline.errors import MissingTableError
from warpline.ops.join import Lookup
from warpline.ops.tree import Contents
from warpline.trace import MemorySource, Trace

Rows = Sequence[Mapping[str, Any]]

PUSH_POP, START_END = 0, 1
TWO_THREADS = {"process_id": [0, 0, 1], "tid": [10, 11, 20]}
TWO_PROCESSES = {"pid": [1, 2]}


def make(**tables: Rows) -> Trace:
    """Return a trace of two processes; threads 0 and 1 belong to the first, 2 to the second."""
    columns = {
        name: {key: [row[key] for row in rows] for key in rows[0]} for name, rows in tables.items()
    }
    return Trace(MemorySource({"process": TWO_PROCESSES, "thread": TWO_THREADS, **columns}))


def call(start: int, end: int, correlation: int | None, thread: int = 0) -> dict[str, Any]:
    return {
        "start_ns": start,
        "end_ns": end,
        "correlation_id": correlation,
        "thread_id": thread,
        "process_id": TWO_THREADS["process_id"][thread],
    }


def work(start: int, correlation: int | None, process: int = 0) -> dict[str, Any]:
    return {
        "start_ns": start,
        "end_ns": start + 1,
        "correlation_id": correlation,
        "process_id": process,
    }


def span(start: int, end: int, thread: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "start_ns": start,
        "end_ns": end,
        "thread_id": thread,
        "process_id": TWO_THREADS["process_id"][thread],
        "style": PUSH_POP,
        "end_thread_id": None,
        **more,
    }


def rows_of(found: Lookup) -> list[int | None]:
    pairs = zip(found.row.tolist(), found.found.tolist(), strict=True)
    return [row if ok else None for row, ok in pairs]


def inside(found: Contents) -> list[list[int]]:
    bounds = zip(found.first.tolist(), found.last.tolist(), strict=True)
    return [found.order[first:last].tolist() for first, last in bounds]


def test_work_finds_its_call_by_process_and_correlation() -> None:
    trace = make(
        api_call=[call(0, 5, 7), call(1, 6, 7, thread=2), call(2, 3, 8)],
        kernel=[work(10, 8), work(11, 7), work(12, 7, process=1), work(13, 9)],
        memset=[work(20, 7)],
    )
    found = launch_calls(trace)
    assert rows_of(found["kernel"]) == [2, 0, 1, None]
    assert rows_of(found["memset"]) == [0]
    assert rows_of(found["memcpy"]) == []


def test_work_and_calls_without_a_correlation_do_not_match() -> None:
    trace = make(api_call=[call(0, 1, None), call(2, 3, 0)], kernel=[work(10, None), work(11, 0)])
    assert rows_of(launch_calls(trace)["kernel"]) == [None, 1]


def test_all_nodes_of_a_graph_share_its_launch() -> None:
    trace = make(
        api_call=[call(0, 5, 1)],
        kernel=[work(6, 1), work(7, 1)],
        memcpy=[work(8, 1)],
        graph_launch=[{**work(6, 1), "end_ns": 9}],
    )
    assert [rows_of(found) for found in launch_calls(trace).values()] == [[0, 0], [0], [], [0]]


def test_of_calls_inside_each_other_the_outermost_answers() -> None:
    trace = make(api_call=[call(2, 4, 1), call(1, 5, 1)], kernel=[work(9, 1)])
    assert rows_of(launch_calls(trace)["kernel"]) == [0]  # the total order is by start
    together = make(api_call=[call(1, 4, 1), call(1, 5, 1), call(1, 3, 2)], kernel=[work(9, 1)])
    assert rows_of(launch_calls(together)["kernel"]) == [2]  # then by end


def test_without_calls_no_work_has_one() -> None:
    assert rows_of(launch_calls(make(kernel=[work(1, 1)]))["kernel"]) == [None]


def test_nesting_is_of_push_pop_ranges_within_a_thread() -> None:
    trace = make(
        range=[
            span(0, 100),
            span(1, 90, style=START_END),
            span(2, 80),
            span(3, 70, thread=1),
            span(4, 60, style=START_END),
            span(5, 50),
        ]
    )
    found = range_nesting(trace)
    assert found.has_parent.tolist() == [False, False, True, False, False, True]
    assert found.parent.tolist() == [0, 0, 0, 0, 0, 2]
    assert found.depth.tolist() == [0, 0, 1, 0, 0, 2]


def test_work_belongs_to_the_range_open_at_its_launch_not_at_its_run() -> None:
    trace = make(
        range=[span(0, 100), span(10, 20), span(30, 40)],
        api_call=[call(12, 14, 1), call(20, 21, 2), call(200, 201, 3)],
        kernel=[work(32, 1), work(33, 2), work(210, 3), work(211, 4)],
    )
    assert rows_of(innermost_range(trace, "kernel")) == [1, 0, None, None]
    assert rows_of(innermost_range(trace, "api_call")) == [1, 0, None]
    assert inside(launched_inside(trace, "kernel")) == [[0, 1], [0], []]


def test_ranges_of_two_domains_that_partly_overlap_both_hold_the_launch() -> None:
    trace = make(
        range=[span(0, 20), {**span(10, 30)}],
        api_call=[call(5, 6, 1), call(15, 16, 2), call(25, 26, 3)],
        kernel=[work(40, 1), work(41, 2), work(42, 3)],
    )
    assert rows_of(innermost_range(trace, "kernel")) == [0, 1, 1]
    assert inside(launched_inside(trace, "kernel")) == [[0, 1], [1, 2]]


def test_start_end_ranges_take_in_launches_of_their_process() -> None:
    trace = make(
        range=[
            span(0, 100, style=START_END),
            span(1, 90, style=START_END, end_thread_id=1),
            span(2, 80),
            span(3, 70, thread=2, style=START_END),
        ],
        api_call=[call(5, 6, 1), call(7, 8, 2, thread=1), call(9, 10, 1, thread=2)],
        kernel=[work(20, 1), work(21, 2), work(22, 1, process=1)],
    )
    assert inside(launched_inside(trace, "kernel")) == [[0, 1], [0, 1], [0], [2]]
    same = launched_inside(trace, "kernel", start_end="same thread")
    assert inside(same) == [[0], [], [0], [2]]
    assert rows_of(innermost_range(trace, "kernel")) == [2, None, None]


def test_a_recording_without_ranges_is_told() -> None:
    trace = make(api_call=[call(0, 1, 1)], kernel=[work(2, 1)])
    with pytest.raises(MissingTableError, match="'range'"):
        innermost_range(trace, "kernel")


def test_each_is_computed_once_per_trace() -> None:
    trace = make(range=[span(0, 9)], api_call=[call(1, 2, 1)], kernel=[work(3, 1)])
    assert launch_calls(trace) is launch_calls(trace)
    assert innermost_range(trace, "kernel") is innermost_range(trace, "kernel")
    part = trace.window(5, 6)
    assert rows_of(launch_calls(part)["kernel"]) == []
