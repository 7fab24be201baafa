"""Ranges derived from logs: nesting and ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from capture.finished import read, rows, stored
from capture.raw_writer import ORIGIN_NS, Log

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

RANGE = ("start_ns", "end_ns", "name", "is_truncated")


def test_nested_ranges_end_in_order(tmp_path: Path) -> None:
    log = Log()
    log.push(10, "outer")
    log.push(20, "inner")
    log.pop(30)
    log.pop(45)
    trace, finished = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [(10, 45, "outer", False), (20, 30, "inner", False)]
    assert rows(trace, "range", "style", "source_id") == [("PushPop", 1), ("PushPop", 2)]
    assert (finished.ranges, finished.truncated, finished.lost) == (2, 0, 0)
    assert finished.warnings == ()
    assert finished.bytes == (tmp_path / "x.warpline").stat().st_size


def test_domains_nest_apart(tmp_path: Path) -> None:
    log = Log()
    log.domain(1, "one")
    log.push(10, "default")
    log.push(20, "in one", domain=1)
    log.pop(30)
    log.pop(40, domain=1)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "range", "start_ns", "end_ns", "name", "domain") == [
        (10, 30, "default", None),
        (20, 40, "in one", "one"),
    ]


def test_a_pop_without_a_push_is_nothing(tmp_path: Path) -> None:
    log = Log()
    log.pop(5)
    log.push(10)
    log.pop(20)
    log.pop(30)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [(10, 20, "range", False)]


@pytest.mark.parametrize("count", [3, 300])  # merged, and sorted because there are too many
def test_logs_are_brought_into_one_order(tmp_path: Path, count: int) -> None:
    logs = [Log(tid=100 + number, number=number) for number in range(count)]
    written = []
    for number, log in enumerate(logs):
        # Starts that logs share, and two in one log, of which the later one ends first.
        for start in range(number % 4, 60, 5):
            log.push(start, f"outer {number}")
            log.push(start, f"inner {start}")
            log.pop(start + 1)
            log.pop(start + 3)
            written += [(start, start + 3, number, f"outer {number}")]
            written += [(start, start + 1, number, f"inner {start}")]
    by_start = sorted(written, key=lambda row: row[0])
    expected = sorted(
        (start, end, number, name, source)
        for source, (start, end, number, name) in enumerate(by_start, 1)
    )
    trace, _ = read(tmp_path, *logs)
    assert rows(trace, "range", "start_ns", "end_ns", "thread_id", "name", "source_id") == expected


def test_rows_come_in_the_total_order_whatever_the_logs_say(tmp_path: Path) -> None:
    first, second = Log(), Log(tid=101, number=1)
    first.push(50, "late")
    first.pop(60)
    for end in (40, 30):
        second.push(10, f"to {end}")
        second.pop(end)
    second.mark(20, "m2")
    first.mark(20, "m1")
    first.mark(15, "m0")
    trace, _ = read(tmp_path, first, second)
    assert rows(trace, "range", "start_ns", "end_ns", "source_id") == [
        (10, 30, 2),
        (10, 40, 1),
        (50, 60, 3),
    ]
    assert rows(trace, "mark", "time_ns", "name") == [(15, "m0"), (20, "m1"), (20, "m2")]
    assert stored(tmp_path, "range/start_ns") == [10, 10, 50]  # as the file has them
    assert stored(tmp_path, "range/source_id") == [2, 1, 3]


def test_a_range_may_end_in_another_thread(tmp_path: Path) -> None:
    first, second = Log(), Log(tid=101, number=1)
    first.start(10, 77, "across")
    first.start(12, 78, "here")
    first.stop(13, 78)
    first.start(14, 79, "never")
    second.stop(30, 77)
    second.stop(31, 12345)
    trace, finished = read(tmp_path, first, second)
    found = rows(trace, "range", "name", "end_ns", "end_thread_id", "style", "is_truncated")
    assert found == [
        ("across", 30, 1, "StartEnd", False),
        ("here", 13, None, "StartEnd", False),
        ("never", 1000, None, "StartEnd", True),
    ]
    assert finished.truncated == 1


def test_ids_of_ranges_are_those_of_a_process(tmp_path: Path) -> None:
    first, second = Log(), Log(pid=200, incarnation=2)
    first.start(10, 1, "a")
    second.start(11, 1, "b")
    second.stop(20, 1)
    first.stop(30, 1)
    trace, _ = read(tmp_path, first, second)
    assert rows(trace, "range", "name", "end_ns", "process_id") == [("a", 30, 0), ("b", 20, 1)]


def test_capture_ranges_cut_what_they_leave_open(tmp_path: Path) -> None:
    log = Log()
    log.push(10, "first")
    log.push(11, "inner")
    log.pop(30)
    log.window(40, opens=False)
    log.window(90, opens=True)
    log.pop(95)
    log.push(100, "second")
    log.pop(110)
    log.push(120, "third")
    log.window(130, opens=False)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [
        (10, 40, "first", True),
        (11, 30, "inner", False),
        (100, 110, "second", False),
        (120, 130, "third", True),
    ]


def test_a_capture_range_of_another_process_cuts_too(tmp_path: Path) -> None:
    log, keeper = Log(), Log(pid=200, incarnation=2)
    log.push(10, "open")
    log.mark(20)
    keeper.window(50, opens=False)
    keeper.window(500, opens=True)
    keeper.mark(501)
    keeper.window(600, opens=False)
    trace, _ = read(tmp_path, log, keeper)
    assert rows(trace, "range", *RANGE) == [(10, 50, "open", True)]


def test_what_goes_on_beyond_a_capture_range_is_not_cut(tmp_path: Path) -> None:
    log, keeper = Log(), Log(pid=200, incarnation=2)
    log.push(10, "open")
    keeper.window(50, opens=False)  # another one was open
    log.mark(50_000_000)
    log.pop(50_000_001)
    log.push(50_000_002, "last")
    log.mark(90_000_000)
    trace, _ = read(tmp_path, log, keeper, ended_monotonic_ns=ORIGIN_NS + 10**8)
    assert rows(trace, "range", *RANGE)[0] == (10, 50_000_001, "open", False)


def test_lost_records_leave_nothing_open(tmp_path: Path) -> None:
    log = Log()
    log.push(10, "before")
    log.mark(20)
    log.dropped(60, 5)
    log.push(70, "after")
    log.pop(80)
    log.pop(90)
    trace, finished = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [
        (10, 20, "before", True),
        (70, 80, "after", False),
    ]
    assert finished.lost == 5
    assert trace.meta.lost == {"NVTX events": 5}
    assert "the disk was full or nearly full" in trace.meta.warnings[0]
