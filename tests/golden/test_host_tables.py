"""Tables of the host side: hand-made traces, and captures of nsys against plain SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpline
from warpline.derived.host.lines import place_texts
from warpline.derived.host.states import State, thread_states
from warpline.trace import MemorySource, Trace

MS = 1_000_000
NATIVE, PYTHON = 1, 3
Rows = list[dict[str, Any]]
Capture = Callable[[str], Path]


def table(trace: Any, call: str) -> Rows:
    return warpline.stats(trace, call).to_polars().rows(named=True)


def sampled() -> dict[str, dict[str, list[Any]]]:
    """Return two threads: fib of itself, called from two lines of main, and native sort."""
    return {
        "process": {"pid": [7], "name": ["python"]},
        "thread": {"process_id": [0, 0], "tid": [7, 8], "name": ["main", "logger"]},
        "frame": {
            "symbol": ["main", "main", "fib", "fib", "sort"],
            "module": ["/app/a.py"] * 4 + ["libsort.so"],
            "line": [10, 11, 3, 4, None],
            "kind": [PYTHON] * 4 + [NATIVE],
            "is_unresolved": [False] * 5,
        },
        "stack": {  # main:10 > fib:3 > fib:4; main:11 > sort
            "parent_id": [None, 0, 1, None, 3],
            "frame_id": [0, 2, 3, 1, 4],
            "depth": [0, 1, 2, 0, 1],
        },
    }


def test_cpu_samples_by_function():
    trace = Trace(
        MemorySource(
            {
                **sampled(),
                "cpu_sample": {
                    "time_ns": [1, 2, 3, 4, 5, 6],
                    "thread_id": [0, 0, 0, 0, 1, 1],
                    "period_ns": [MS] * 6,
                    "stack_id": [2, 2, 1, 4, 4, None],
                },
            }
        )
    )
    names = ("function", "line", "self_ns", "total_ns", "self_samples", "total_samples")
    rows = [tuple(row[name] for name in names) for row in table(trace, "cpu_samples_sum")]
    assert rows == [
        ("fib", 4, 3 * MS, 3 * MS, 3, 3),  # once per sample, although it calls itself
        ("sort", None, 2 * MS, 2 * MS, 2, 2),
        ("main", 10, 0, 5 * MS, 0, 5),
    ]
    assert table(trace, "cpu_samples_sum")[0]["self_ratio"] == pytest.approx(3 / 6)

    rows = [tuple(row[name] for name in names[:4]) for row in table(trace, "cpu_samples_sum:lines")]
    assert rows == [
        ("fib", 4, 2 * MS, 2 * MS),
        ("sort", None, 2 * MS, 2 * MS),
        ("fib", 3, MS, 3 * MS),
        ("main", 10, 0, 3 * MS),
        ("main", 11, 0, 2 * MS),
    ]

    # Native code counts for the Python function that called it.
    rows = [
        tuple(row[name] for name in names[:4]) for row in table(trace, "cpu_samples_sum:python")
    ]
    assert rows == [("fib", 4, 3 * MS, 3 * MS), ("main", 11, 2 * MS, 5 * MS)]

    by_thread = table(trace, "cpu_samples_sum:threads")
    assert [(r["function"], r["thread_name"], r["self_ns"]) for r in by_thread] == [
        ("fib", "main", 3 * MS),
        ("sort", "main", MS),
        ("sort", "logger", MS),
        ("main", "main", 0),
        ("main", "logger", 0),
    ]
    notes = warpline.stats(trace, "cpu_samples_sum").notes
    assert notes == (
        "6 CPU samples of 2 threads: 6.00 ms of CPU time, 1.00 ms each",
        "16.7% of them have no stack",
    )


def test_native_functions_have_the_file_of_their_line():
    tables = sampled()
    tables["frame"] = {
        "symbol": ["sort", "sort", "sort", "poll"],
        "module": ["libsort.so"] * 3 + ["libc.so"],
        "file": ["sort.c", "swap.h", "swap.h", None],
        "line": [7, 7, 9, None],
        "kind": [NATIVE] * 4,
        "is_unresolved": [False] * 4,
    }
    tables["stack"] = {"parent_id": [None] * 4, "frame_id": [0, 1, 2, 3], "depth": [0] * 4}
    tables["cpu_sample"] = {
        "time_ns": list(range(8)),
        "thread_id": [0] * 8,
        "period_ns": [MS] * 8,
        "stack_id": [0, 0, 1, 1, 1, 2, 2, 3],
    }
    trace = Trace(MemorySource(tables))
    names = ("function", "file", "line", "module", "self_samples")
    rows = [tuple(row[name] for name in names) for row in table(trace, "cpu_samples_sum:lines")]
    assert rows == [
        ("sort", "swap.h", 7, "libsort.so", 3),
        ("sort", "sort.c", 7, "libsort.so", 2),
        ("sort", "swap.h", 9, "libsort.so", 2),
        ("poll", "libc.so", None, "libc.so", 1),
    ]
    # One function, whatever was inlined into it.
    rows = [tuple(row[name] for name in names) for row in table(trace, "cpu_samples_sum")]
    assert rows == [
        ("sort", "swap.h", 7, "libsort.so", 7),
        ("poll", "libc.so", None, "libc.so", 1),
    ]
    assert place_texts(trace, np.array([1, 3])) == ["sort (swap.h:7)", "poll (libc.so)"]


def test_native_samples_say_where_the_time_of_python_functions_is():
    tables = sampled()
    tables["frame"]["kind"] = [NATIVE] * 5
    tables["cpu_sample"] = {
        "time_ns": [1],
        "thread_id": [0],
        "period_ns": [MS],
        "stack_id": [2],
    }
    found = warpline.stats(Trace(MemorySource(tables)), "cpu_samples_sum:python")
    assert not found.to_polars().height
    assert "python_samples_sum" in found.notes[-1]


def test_python_samples_by_function():
    trace = Trace(
        MemorySource(
            {
                **sampled(),
                "python_sample": {
                    "time_ns": [0, MS, 2 * MS, 3 * MS],
                    "thread_id": [0, 0, 0, 1],
                    "period_ns": [MS, MS, 7 * MS, MS],
                    "is_running": [True, True, False, None],
                    "has_gil": [True, False, False, None],
                    "stack_id": [2, 1, 0, 0],
                },
            }
        )
    )
    names = ("function", "line", "self_ns", "total_ns", "running_ns", "blocked_ns", "gil_ns")
    rows = [tuple(row[name] for name in names) for row in table(trace, "python_samples_sum")]
    assert rows == [
        ("main", 10, 8 * MS, 10 * MS, 2 * MS, 7 * MS, MS),
        ("fib", 3, 2 * MS, 2 * MS, 2 * MS, 0, MS),
    ]


def test_who_holds_the_gil_and_who_waits():
    trace = Trace(
        MemorySource(
            {
                **sampled(),
                "gil_span": {
                    "start_ns": [0, 10, 10, 40],
                    "end_ns": [10, 40, 40, 60],
                    "thread_id": [0, 1, 0, 0],
                    "process_id": [0] * 4,
                    "state": [1, 1, 2, 1],
                },
            }
        )
    )
    names = ("thread_name", "held_ns", "held_count", "waited_ns", "longest_wait_ns")
    rows = table(trace, "gil_sum")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("main", 30, 2, 30, 30),
        ("logger", 30, 1, 0, 0),
    ]
    assert [row["blocked_others_ns"] for row in rows] == [0, 30]


def query(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as base:
        return base.execute(statement).fetchall()


ON_CPU = """
    WITH ordered AS (
        SELECT globalTid & 0xFFFFFF AS tid, start, isSchedIn,
            lead(start) OVER (PARTITION BY globalTid ORDER BY start) AS next
        FROM SCHED_EVENTS
    )
    SELECT tid, sum(CASE WHEN isSchedIn THEN next - start ELSE 0 END), max(next) - min(start)
    FROM ordered GROUP BY tid HAVING count(*) > 1 ORDER BY tid
"""


@pytest.mark.parametrize("name", ["rich_metrics_sampling", "cuda_graph_level"])
def test_time_on_the_cpu_is_that_of_the_context_switches(capture: Capture, name: str):
    path = capture(name)
    found = {row["tid"]: row["running_ns"] for row in table(path, "thread_states")}
    expected = query(path, ON_CPU)
    assert expected
    for tid, running_ns, _ in expected:
        # A thread that is on the CPU at the end runs until the last event of the recording.
        assert found[tid] >= running_ns
        if name == "rich_metrics_sampling":
            assert found[tid] == running_ns


def test_states_sum_to_the_lives_of_threads(capture: Capture):
    trace = warpline.open(capture("rich_metrics_sampling"))
    for row in table(trace, "thread_states"):
        parts = ("running_ns", "runnable_ns", "blocked_ns", "not_recorded_ns")
        assert sum(row[name] or 0 for name in parts) == row["recorded_ns"]
    states = thread_states(trace)
    blocked_ns = int((states.end_ns - states.start_ns)[states.state == State.BLOCKED].sum())
    assert sum(row["total_ns"] for row in table(trace, "offcpu_sum")) == blocked_ns
    assert sum(row["total_ns"] for row in table(trace, "offcpu_sum:threads")) == blocked_ns


def test_samples_by_function_count_each_sample_of_the_file(capture: Capture):
    path = capture("rich_metrics_sampling")
    expected = dict(
        query(
            path,
            "SELECT s.value, count(DISTINCT c.id) FROM SAMPLING_CALLCHAINS c"
            " JOIN StringIds s ON s.id = symbol WHERE NOT unresolved GROUP BY 1",
        )
    )
    leaves = dict(
        query(
            path,
            "SELECT s.value, count(*) FROM SAMPLING_CALLCHAINS c JOIN StringIds s ON s.id = symbol"
            " WHERE stackDepth = 0 AND NOT unresolved GROUP BY 1",
        )
    )
    rows = table(path, "cpu_samples_sum")
    named = [row for row in rows if row["function"] != "[unresolved]"]
    assert {row["function"]: row["total_samples"] for row in named} == expected
    assert {r["function"]: r["self_samples"] for r in named if r["self_samples"]} == leaves
    (count,) = query(path, "SELECT count(*) FROM COMPOSITE_EVENTS")[0]
    assert sum(row["self_samples"] for row in rows) == count
    assert sum(row["self_ns"] for row in rows) == count * 2 * MS  # it was sampled every 2 ms


def test_times_of_the_gil_are_those_of_the_file(capture: Capture):
    path = capture("rich_metrics_sampling")
    expected = query(
        path,
        "SELECT e.globalTid & 0xFFFFFF, s.value, sum(e.end - e.start), count(*),"
        " max(e.end - e.start) FROM NVTX_EVENTS e JOIN StringIds s ON s.id = textId"
        " WHERE s.value LIKE '% GIL' GROUP BY 1, 2",
    )
    rows = {row["tid"]: row for row in table(path, "gil_sum")}
    assert len(expected) == 6
    for tid, state, total, count, longest in expected:
        of, what = ("held", "held") if state == "Holding GIL" else ("waited", "wait")
        found = (rows[tid][f"{of}_ns"], rows[tid][f"{of}_count"], rows[tid][f"longest_{what}_ns"])
        assert found == (total, count, longest)


@pytest.mark.parametrize("name", ["rich_metrics_sampling", "host_sync.bad", "ddp_serial.bad.rank0"])
def test_os_calls_in_order(capture: Capture, name: str):
    path = capture(name)
    expected = query(
        path,
        "SELECT o.start, o.end - o.start, s.value, returnValue, globalTid & 0xFFFFFF"
        " FROM OSRT_API o JOIN StringIds s ON s.id = nameId WHERE eventClass != 31"
        " ORDER BY o.start, o.end, globalTid, s.value",
    )
    names = ("start_ns", "duration_ns", "name", "result", "tid")
    assert [tuple(row[key] for key in names) for row in table(path, "osrt_trace")] == expected


def test_samples_say_how_often_threads_were_sampled_and_whether_stacks_are_complete():
    tables = sampled()
    tables["frame"]["symbol"][0] = "__libc_start_main_impl"
    tables["cpu_sample"] = {
        "time_ns": [1, 2, 3, 4],
        "thread_id": [0, 0, 1, 1],
        "period_ns": [MS] * 4,
        "stack_id": [2, 4, 0, None],
    }
    (row,) = table(Trace(MemorySource(tables)), "samples")
    assert (row["kind"], row["samples"], row["rate_hz"], row["threads"]) == ("CPU", 4, 1000, 2)
    assert (row["total_ns"], row["stack_ratio"], row["complete_ratio"]) == (4 * MS, 0.75, 0.5)

    # The interpreter's first imports are made from C: their stacks begin in importlib.
    tables["frame"]["symbol"][0] = "_find_and_load"
    (row,) = table(Trace(MemorySource(tables)), "samples")
    assert row["complete_ratio"] == 0.5
