"""Tables of ranges by the native core's sweep, by numpy's pairs, and by loops over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
from warpline import native
from warpline.derived.summaries import range_sweep
from warpline.trace import ColumnData, MemorySource, Trace

START_END = 1
PROCESS_OF = (0, 0, 1)  # by thread
RANGE_NAMES = (None, "a", "b")
TABLES = ("nvtx_kern_sum", "nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace", "nvtx_pushpop_trace")

times, lengths, threads = st.integers(0, 12), st.integers(0, 9), st.integers(0, 2)
correlations = st.none() | st.integers(0, 6)
long_lengths = lengths | st.integers(2**32 - 2, 2**33)


@st.composite
def recordings(draw: st.DrawFn) -> dict[str, dict[str, list[Any]]]:
    """Return tables: ranges that nest, cross, share names or end elsewhere, and calls likewise."""
    calls = draw(st.lists(st.tuples(times, lengths, threads, correlations), max_size=8))
    kernel = st.tuples(times, long_lengths, threads, correlations, st.sampled_from("kl"))
    kernels = draw(st.lists(kernel, max_size=8))
    ranges = draw(
        st.lists(
            st.tuples(times, lengths, threads, threads, st.sampled_from(RANGE_NAMES)),
            min_size=1,
            max_size=9,
        )
    )
    styles = [draw(st.integers(0, 1)) for _ in ranges]
    return {
        "process": {"pid": [1, 2]},
        "thread": {"process_id": [*PROCESS_OF], "tid": [1, 2, 3]},
        "api_call": spans(calls) | {"thread_id": [row[2] for row in calls]} | correlation(calls),
        "kernel": spans(kernels) | correlation(kernels) | {"name": [row[4] for row in kernels]},
        "range": spans(ranges)
        | {
            "thread_id": [row[2] for row in ranges],
            "end_thread_id": [
                row[3] if style == START_END and row[3] != row[2] else None
                for row, style in zip(ranges, styles, strict=True)
            ],
            "name": [row[4] for row in ranges],
            "style": styles,
            "source_id": [*range(1, len(ranges) + 1)],
        },
    }


def spans(rows: list[Any]) -> dict[str, list[Any]]:
    return {
        "start_ns": [row[0] for row in rows],
        "end_ns": [row[0] + row[1] for row in rows],
        "process_id": [PROCESS_OF[row[2]] for row in rows],
    }


def correlation(rows: list[Any]) -> dict[str, list[Any]]:
    return {"correlation_id": [row[3] for row in rows]}


class BlockSource(MemorySource):
    """A source that reads every table in blocks."""

    rows_per_block = 1

    def blocks(self, table: str, columns: Sequence[str]) -> Iterator[dict[str, ColumnData]]:
        loaded = self.load(table, columns)
        for first in range(0, self.row_count(table), self.rows_per_block):
            rows = slice(first, first + self.rows_per_block)
            yield {name: data.take(rows) for name, data in loaded.items()}


@st.composite
def ordered_recordings(draw: st.DrawFn) -> dict[str, dict[str, list[Any]]]:
    """Return the same, with ranges and calls in order of their starts: ties are in any order."""
    tables = draw(recordings())
    for name in draw(st.sampled_from([("range", "api_call"), ("range",), ()])):
        rows = sorted(rows_of(tables[name]), key=lambda row: int(row["start_ns"]))
        tables[name] = {column: [row[column] for row in rows] for column in tables[name]}
    return tables


def table(tables: dict[str, dict[str, list[Any]]], name: str, *, by_core: bool) -> Any:
    """Return the rows of a table."""
    trace = Trace(MemorySource(tables))
    core = native.core() if by_core else None
    with mock.patch.object(native, "core", return_value=core):
        return warpline.stats(trace, name).rows()


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
@pytest.mark.parametrize("name", TABLES)
@given(tables=recordings(), block=st.integers(1, 5))
def test_the_core_makes_the_table_that_numpy_makes(
    name: str, tables: dict[str, dict[str, list[Any]]], block: int
) -> None:
    with mock.patch.object(range_sweep, "_VALUES_PER_BLOCK", block):
        assert table(tables, name, by_core=True) == table(tables, name, by_core=False)


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
@pytest.mark.parametrize("name", ["nvtx_kern_sum", "nvtx_gpu_proj_sum"])
@settings(max_examples=200)
@given(tables=ordered_recordings(), rows=st.integers(1, 4))
def test_blocks_make_the_table_that_whole_columns_make(
    name: str, tables: dict[str, dict[str, list[Any]]], rows: int
) -> None:
    source = BlockSource(tables)
    source.rows_per_block = rows
    assert warpline.stats(Trace(source), name).rows() == table(tables, name, by_core=False)


@pytest.mark.parametrize("by_core", [True, False])
@settings(max_examples=200)
@given(tables=recordings())
def test_kernels_of_range_names_are_those_of_a_loop(
    by_core: bool, tables: dict[str, dict[str, list[Any]]]
) -> None:
    found = table(tables, "nvtx_kern_sum", by_core=by_core)
    places = (0, 1, 3, 12, 4, 5, 6)  # as those of `by_loop`
    got = {tuple(row[place] for place in places) for row in found}
    assert len(got) == len(found)
    assert got == by_loop(tables)


def rows_of(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def by_loop(tables: dict[str, dict[str, list[Any]]]) -> set[tuple[Any, ...]]:
    """Return range name, style, tid, kernel name, ranges, kernels and total of each group."""
    calls, ranges = rows_of(tables["api_call"]), rows_of(tables["range"])
    groups: dict[tuple[Any, ...], tuple[set[int], set[int]]] = {}
    kernels = rows_of(tables["kernel"])
    for number, kernel in enumerate(kernels):
        call = launch_of(kernel, calls)
        inside = [row for row, one in enumerate(ranges) if call and contains(one, call)]
        for row in inside:
            style = ("PushPop", "StartEnd")[ranges[row]["style"]]
            key = (ranges[row]["name"], style, call["thread_id"] + 1, kernel["name"])
            held = groups.setdefault(key, (set(), set()))
            held[0].add(row)
            held[1].add(number)
        if not inside:
            tid = call["thread_id"] + 1 if call else None
            groups.setdefault((None, None, tid, kernel["name"]), (set(), set()))[1].add(number)
    return {
        (*key, len(rows), len(held), sum(duration(kernels[number]) for number in held))
        for key, (rows, held) in groups.items()
    }


def duration(row: dict[str, Any]) -> int:
    return int(row["end_ns"] - row["start_ns"])


def contains(one: dict[str, Any], call: dict[str, Any]) -> bool:
    return bool(
        one["end_thread_id"] is None
        and one["thread_id"] == call["thread_id"]
        and one["start_ns"] <= call["start_ns"] < one["end_ns"]
        and call["end_ns"] <= one["end_ns"]
    )


def launch_of(kernel: dict[str, Any], calls: list[dict[str, Any]]) -> Any:
    """Return the call that starts first, then ends last, then has the lower thread."""
    matching = [
        (call["start_ns"], -call["end_ns"], call["thread_id"], number)
        for number, call in enumerate(calls)
        if call["process_id"] == kernel["process_id"]
        and kernel["correlation_id"] is not None
        and call["correlation_id"] == kernel["correlation_id"]
    ]
    return calls[min(matching)[3]] if matching else None
