"""The sums of a thinned report against SQL over the recording, and the use of its size limit."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.viewer_container import Decoded

import warpline
from warpline.viewer.exact_sums import LEAST_BINS, MOST_BINS, bins_within, exact_sums
from warpline.viewer.pack import report_bytes
from warpline.viewer.rows import Events

GPU_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
)


def thinned(make, path, share):
    """Return the decoded container of a recording, thinned to a share of its size."""
    _, whole = make(warpline.open(path))
    size = report_bytes(whole)
    _, small = make(warpline.open(path), max_bytes=int(size * share))
    return Decoded(small.head, [block.data for block in small.blocks])


def time_in(intervals, low, high):
    return sum(max(min(end, high) - max(start, low), 0) for start, end in intervals)


def union(intervals):
    merged: list[list[int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def intervals_of(path, tables, where="1"):
    """Return the intervals by SQL, in the time of the trace."""
    with sqlite3.connect(path) as database:
        return [
            row
            for table in tables
            for row in database.execute(f"SELECT start, end FROM {table} WHERE {where}")
        ]


def check_bins(found, row_id, intervals, *, busy_only=False):
    """Compare the time in every bin of a row with intervals that do not overlap."""
    row, head = found.rows[row_id], found.head
    sums = row["sums"]
    columns = found.columns(sums)
    kinds = {category["name"]: category["kind"] for category in head["categories"]}
    wanted = [
        values
        for name, values in columns.items()
        if name != "events" and not (busy_only and kinds[name] == "idle")
    ]
    width = 1 << sums["level"]
    assert sums["count"] <= MOST_BINS
    assert sums["count"] * width >= head["end_ns"] - head["start_ns"]
    for place in range(sums["count"]):
        low = head["start_ns"] + place * width
        assert sum(values[place] for values in wanted) == time_in(intervals, low, low + width)
    return columns


def test_the_sums_of_streams_are_those_of_the_recording(capture, make):
    path = capture("host_sync.bad")
    found = thinned(make, path, 0.7)
    shift = intervals_shift(path)
    lacking = {row_id for row_id, row in found.rows.items() if "sums" in row}
    streams = [row for row in lacking if found.rows[row]["kind"] == "stream"]
    assert streams
    for row_id in streams:
        native = int(found.rows[row_id]["label"].removeprefix("stream "))
        recorded = intervals_of(path, GPU_TABLES, f"streamId = {native}")
        own = [(start - shift, end - shift) for start, end in recorded]
        columns = check_bins(found, row_id, own)
        assert sum(columns["events"]) == len(own) > len(found.events(row_id))


def test_the_sums_of_a_device_are_its_busy_time_in_the_recording(capture, make):
    path = capture("host_sync.bad")
    found = thinned(make, path, 0.6)
    shift = intervals_shift(path)
    own = union((start - shift, end - shift) for start, end in intervals_of(path, GPU_TABLES))
    columns = check_bins(found, "gpu0/state", own, busy_only=True)
    row = found.rows["gpu0/state"]
    assert sum(map(sum, columns.values())) - sum(columns["events"]) == row["busy_ns"]
    assert sum(columns["events"]) == row["count"] > len(found.events("gpu0/state"))


def intervals_shift(path):
    """Return the difference between the times of the export and of the trace."""
    with sqlite3.connect(path) as database:
        (first,) = database.execute(f"SELECT MIN(start) FROM {GPU_TABLES[0]}").fetchone()
    return first - int(warpline.open(path).table("kernel")["start_ns"].min())


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 2)), max_size=30),
    st.integers(1, 64),
    st.integers(-100, 100),
)
def test_every_nanosecond_is_in_its_bin(made, most_bins, low):
    start, end, name = [], [], []
    now = low
    for gap, length, number in made:
        start.append(now + gap)
        end.append(now + gap + length)
        name.append(number)
        now = end[-1]
    high = max(now, low + 1)
    events = Events(np.array(start, np.int64), np.array(end, np.int64), np.array(name, np.int64))
    categories = np.array([4, 2, 4])
    sums = exact_sums(events, categories, (low, high), most_bins)
    width = 1 << sums.level
    bins = len(sums.events)
    assert bins <= most_bins
    assert (bins - 1) * width < high - low <= bins * width
    assert width == 1 or -(-(high - low) // (width // 2)) > most_bins
    for place in range(bins):
        first = low + place * width
        is_last = place == bins - 1
        assert sums.events[place] == sum(
            first <= each and (each < first + width or is_last) for each in start
        )
        for category in (2, 4):
            own = [
                (begin, until)
                for begin, until, number in zip(start, end, name, strict=True)
                if categories[number] == category
            ]
            expected = time_in(own, first, first + width)
            assert (sums.ns[category][place] if own else 0) == expected


@pytest.mark.parametrize(
    ("size", "rows", "bins"), [(1e9, 3, MOST_BINS), (0, 3, LEAST_BINS), (5 * 3 * 100, 3, 64)]
)
def test_many_rows_or_a_small_file_have_wider_bins(size, rows, bins):
    assert bins_within(size, rows) == bins


@pytest.mark.parametrize("share", [0.99, 0.9, 0.7, 0.6])
def test_a_size_limit_is_used(capture, make, share):
    trace = warpline.open(capture("host_sync.bad"))
    _, whole = make(trace)
    allowed = int(report_bytes(whole) * share)
    _, small = make(trace, max_bytes=allowed)
    assert small.head["thinned"] is not None
    assert 0.9 * allowed <= report_bytes(small) <= allowed


def test_calls_go_before_streams_and_streams_before_gpu_states(capture, make):
    order = ["api", "stream", "state"]
    numbers = []
    for share in (0.98, 0.93, 0.7):
        found = thinned(make, capture("host_sync.bad"), share)
        lacking = {row["kind"] for row in found.rows.values() if "sums" in row} & set(order)
        assert lacking == set(order[: len(lacking)])
        numbers.append(len(lacking))
    assert numbers[0] < numbers[-1] == len(order)
