"""Processes and threads derived from logs, and their open ranges at the end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from capture.finished import read, rows
from capture.raw_writer import ORIGIN_NS, Log

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

RANGE = ("start_ns", "end_ns", "name", "is_truncated")
SAMPLE_BEGIN, SAMPLE_END = 6, 7  # of Note in native/raw/records.toml


def test_threads_and_processes(tmp_path: Path) -> None:
    first = Log(pid=100, tid=100, incarnation=5)
    second = Log(pid=100, tid=107, incarnation=5, number=1)
    other = Log(pid=50, tid=50, incarnation=9, executable="/opt/bin/worker", host="far")
    again = Log(pid=100, tid=100, incarnation=20, executable="/bin/sh")
    first.thread(3, 100, b"main")
    second.thread(3, 107, b"pool-1")
    second.thread_name(100, "named")
    second.thread_name(999, "nobody")
    trace, finished = read(tmp_path, first, second, other, again)
    assert rows(trace, "process", "pid", "name", "host") == [
        (100, "prog", "box"),
        (50, "worker", "far"),
        (100, "sh", "box"),
    ]
    assert rows(trace, "thread", "process_id", "tid", "name") == [
        (0, 100, "named"),
        (0, 107, "pool-1"),
        (1, 50, None),
        (2, 100, None),
    ]
    assert (finished.processes, finished.threads) == (3, 4)


def test_names_of_categories_come_from_the_parent_of_a_fork(tmp_path: Path) -> None:
    parent = Log(pid=100, incarnation=5)
    parent.category(0, 3, "io")
    parent.category(0, 4, "old")
    child = Log(pid=101, incarnation=7, forked_from=(100, 5))
    child.category(0, 4, "new")
    grandchild = Log(pid=102, incarnation=9, forked_from=(101, 7))
    stranger = Log(pid=103, incarnation=11)
    for log in (parent, child, grandchild, stranger):
        log.mark(1, category=3)
        log.mark(2, category=4)
    trace, _ = read(tmp_path, parent, child, grandchild, stranger)
    assert rows(trace, "mark", "process_id", "category") == [
        (0, "io"), (1, "io"), (2, "io"), (3, "3"),
        (0, "old"), (1, "new"), (2, "new"), (3, "4"),
    ]  # fmt: skip


def test_a_fork_of_itself_ends(tmp_path: Path) -> None:
    log = Log(pid=100, incarnation=5, forked_from=(100, 5))
    log.mark(1, category=3)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "mark", "category") == [("3",)]


def test_what_a_process_that_died_had_open_ends_at_its_last_sign_of_life(tmp_path: Path) -> None:
    main_thread, worker = Log(closed=None), Log(tid=101, number=1, closed=None)
    main_thread.push(10, "open")
    main_thread.push(20, "closed")
    main_thread.pop(30)
    worker.mark(70)
    trace, finished = read(tmp_path, main_thread, worker)
    assert rows(trace, "range", *RANGE) == [(10, 70, "open", True), (20, 30, "closed", False)]
    assert finished.truncated == 1
    assert finished.warnings == (
        "process 100 ended abruptly with 1 range open, cut at its last event",
    )


def test_what_a_process_had_open_when_it_ended_in_order(tmp_path: Path) -> None:
    log = Log(closed=400)
    log.push(10, "open")
    trace, finished = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [(10, 400, "open", True)]
    assert finished.warnings == ()


def test_nothing_lasts_longer_than_the_recording(tmp_path: Path) -> None:
    log = Log(closed=900)
    log.push(10, "open")
    facts = {"stopped_monotonic_ns": ORIGIN_NS + 300}
    trace, _ = read(tmp_path, log, **facts)
    assert rows(trace, "range", *RANGE) == [(10, 300, "open", True)]
    assert trace.meta.span_ns == (0, 300)


def test_a_delay_is_no_part_of_what_was_recorded(tmp_path: Path) -> None:
    log = Log(closed=900)
    log.push(450, "late")
    facts = {"recording_monotonic_ns": ORIGIN_NS + 400, "ended_monotonic_ns": ORIGIN_NS + 900}
    trace, _ = read(tmp_path, log, **facts)
    assert rows(trace, "range", *RANGE) == [(450, 900, "late", True)]
    assert (trace.meta.span_ns, trace.recorded_ns()) == ((400, 900), 500)


def test_a_delay_longer_than_the_run_is_no_negative_time(tmp_path: Path) -> None:
    facts = {"recording_monotonic_ns": ORIGIN_NS + 400, "ended_monotonic_ns": ORIGIN_NS + 100}
    trace, _ = read(tmp_path, Log(closed=80), **facts)
    assert trace.meta.span_ns == (400, 400)


def test_a_thread_that_takes_a_log_over_ends_what_its_predecessor_left(tmp_path: Path) -> None:
    log = Log()
    log.push(10, "left")
    log.thread(50, 102)
    log.pop(60)
    log.push(70, "own")
    log.pop(80)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "range", *RANGE, "thread_id") == [
        (10, 50, "left", True, 0),
        (70, 80, "own", False, 1),
    ]


def test_a_process_that_still_runs_is_open_until_the_end(tmp_path: Path) -> None:
    log = Log(
        pid=os.getpid(), incarnation=time.monotonic_ns(), host=os.uname().nodename, closed=None
    )
    log.push(10, "open")
    trace, finished = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [(10, 1000, "open", True)]
    assert finished.alive == 1
    assert not finished.is_whole
    assert "was still running" in finished.warnings[0]


def test_a_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    log = Log(pid=os.getpid(), incarnation=1, host=os.uname().nodename, closed=None)
    log.push(10, "open")
    log.mark(20)
    trace, finished = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [(10, 20, "open", True)]
    assert finished.alive == 0


def test_what_was_open_when_recording_stopped_is_not_called_an_abrupt_end(tmp_path: Path) -> None:
    log = Log(closed=None)
    log.push(10, "open")
    log.mark(70)
    _, finished = read(tmp_path, log, stopped_monotonic_ns=ORIGIN_NS + 300)
    (warning,) = finished.warnings
    assert "had 1 range open when it ended or recording stopped, cut at its last event" in warning


def test_capture_ranges_are_what_was_recorded(tmp_path: Path) -> None:
    """Of two processes, whose ranges overlap; the last one is open when its process dies."""
    first, second = Log(closed=900), Log(pid=200, tid=200, closed=None)
    for log, begin, end in ((first, 100, 300), (second, 200, 350), (first, 500, 600)):
        log.note(begin, SAMPLE_BEGIN, "")
        log.mark(begin + 10)
        log.note(end, SAMPLE_END, "")
    second.note(700, SAMPLE_BEGIN, "")
    second.mark(750)
    facts = {"options": {"capture_range": "nvtx"}, "ended_monotonic_ns": ORIGIN_NS + 1_000}
    trace, finished = read(tmp_path, first, second, **facts)
    assert trace.meta.windows_ns == ((100, 350), (500, 600), (700, 750))
    assert (trace.span(), trace.recorded_ns()) == ((0, 1_000), 400)
    assert finished.warnings == ()


def test_ranges_from_before_the_delay_and_after_the_end_are_cut(tmp_path: Path) -> None:
    log = Log(closed=900)
    for begin, end in ((100, 300), (500, 800), (850, 890)):
        log.note(begin, SAMPLE_BEGIN, "")
        log.note(end, SAMPLE_END, "")
    facts = {"recording_monotonic_ns": 200, "stopped_monotonic_ns": 600}
    trace, _ = read(tmp_path, log, **{name: ORIGIN_NS + at for name, at in facts.items()})
    assert trace.meta.windows_ns == ((200, 300), (500, 600))
