"""Finishing: the rows that follow from logs, each expected value worked out by hand."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from capture.raw_writer import (
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    ORIGIN_NS,
    ORIGIN_UTC_NS,
    UINT32,
    UINT64,
    Log,
    write_session,
)

import warpline
from warpline import native
from warpline.capture.finishing import Finished, finish, main
from warpline.container import Container
from warpline.errors import CaptureError
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

RANGE = ("start_ns", "end_ns", "name", "is_truncated")


def read(folder: Path, *logs: Log, **facts: Any) -> tuple[Trace, Finished]:
    write_session(folder / "x.warpline.raw", *logs, **facts)
    output = folder / "x.warpline"
    finished = finish(folder / "x.warpline.raw", output)
    return warpline.open(output), finished


def rows(trace: Trace, table: str, *names: str) -> list[tuple[Any, ...]]:
    return trace[table].select(names).rows()


def stored(folder: Path, column: str) -> list[int]:
    """Return a column of 64-bit numbers in the order of the file."""
    container = Container.open(folder / "x.warpline")
    array = container.members[f"{column}.npy"].array
    assert array is not None
    return list(struct.unpack_from(f"<{array.count}q", container.data, array.offset_bytes))


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


def test_what_events_carry(tmp_path: Path) -> None:
    log = Log()
    log.domain(3, "lib")
    log.category(3, 7, "io")
    log.push(1, "x", domain=3, category=7, color=0xFF102030)
    log.push(2, None, domain=3, category=8)
    log.push(3, "", category=7)
    log.mark(4, "m", domain=3, category=7, color=1)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "range", "name", "domain", "category", "color") == [
        ("x", "lib", "io", 0xFF102030),
        (None, "lib", "8", None),
        ("", None, "7", None),
    ]
    assert rows(trace, "mark", "name", "domain", "category", "color") == [("m", "lib", "io", 1)]


def test_a_domain_that_was_never_named_has_its_number(tmp_path: Path) -> None:
    log = Log()
    log.push(1, "x", domain=9)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "range", "domain") == [("domain 9",)]


def test_values_have_the_type_that_the_program_gave(tmp_path: Path) -> None:
    values = [
        (UINT64, struct.pack("<Q", 2**64 - 1)),
        (INT64, struct.pack("<q", -5)),
        (DOUBLE, struct.pack("<d", 1.25)),
        (UINT32, struct.pack("<Iq", 2**32 - 1, -1)[:8]),
        (INT32, struct.pack("<iI", -7, 99)),
        (FLOAT, struct.pack("<fI", 0.5, 99)),
    ]
    log = Log()
    for time_ns, value in enumerate(values):
        log.push(time_ns, value=value)
        log.pop(100 + time_ns)
    log.mark(50, value=values[1])
    trace, finished = read(tmp_path, log)
    found = rows(trace, "range_payload", "range_id", "mark_id", "key", "int_value", "float_value")
    assert found == [
        (None, 0, "payload", -5, None),
        (0, None, "payload", -1, None),
        (1, None, "payload", -5, None),
        (2, None, "payload", None, 1.25),
        (3, None, "payload", 2**32 - 1, None),
        (4, None, "payload", -7, None),
        (5, None, "payload", None, 0.5),
    ]
    assert finished.payloads == 7


def test_a_slot_means_the_text_that_was_put_there_last(tmp_path: Path) -> None:
    log = Log()
    for time_ns, name in enumerate(("first", "second", "first")):
        log.add(3, 5, body=struct.pack("<Q", len(name)) + name.encode())
        log.add(12, 5, body=struct.pack("<Q", ORIGIN_NS + time_ns))
    log.add(3, 1 << 31, body=struct.pack("<Q", 3) + b"far")
    log.add(12, 1 << 31, body=struct.pack("<Q", ORIGIN_NS + 9))
    log.add(12, 6, body=struct.pack("<Q", ORIGIN_NS + 10))
    trace, _ = read(tmp_path, log)
    names = [("first",), ("second",), ("first",), ("far",), (None,)]
    assert rows(trace, "mark", "name") == names


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
        "process 100 ended abruptly with 1 range open, cut at its last sign of life",
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
    assert "still ran" in finished.warnings[0]


def test_a_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    log = Log(pid=os.getpid(), incarnation=1, host=os.uname().nodename, closed=None)
    log.push(10, "open")
    log.mark(20)
    trace, finished = read(tmp_path, log)
    assert rows(trace, "range", *RANGE) == [(10, 20, "open", True)]
    assert finished.alive == 0


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
    assert "the disk was full" in trace.meta.warnings[0]


def test_notes_become_diagnostics(tmp_path: Path) -> None:
    log = Log()
    log.note(30, 2, "nvtxSync")
    log.note(20, 1, "libfoo.so")
    log.note(25, 5, "1-2")
    trace, finished = read(tmp_path, log, notes=["tool X had bound NVTX before"])
    assert rows(trace, "diagnostic", "time_ns", "severity", "text", "process_id") == [
        (20, "Info", "NVTX is recorded: libfoo.so", 0),
        (30, "Warning", "NVTX calls of this kind are not recorded: nvtxSync", 0),
    ]
    assert trace.meta.warnings == (
        "tool X had bound NVTX before",
        "NVTX calls of this kind are not recorded: nvtxSync",
    )
    assert finished.diagnostics == 2


def test_the_facts_of_the_session(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, Log(cut=3))
    meta = trace.meta
    assert (meta.format, meta.producer, meta.host) == ("warpline", "Warpline 9.9", "box")
    assert meta.command == "python 'train me.py'"
    assert meta.origin_utc_ns == ORIGIN_UTC_NS
    assert meta.span_ns == (0, 1000)
    assert meta.environment == {"CUDA_VISIBLE_DEVICES": "0"}
    assert meta.lost == {}
    assert meta.warnings == ("3 texts and payloads longer than 65,535 bytes were cut or left out",)


def test_a_session_without_an_event_is_a_recording(tmp_path: Path) -> None:
    trace, finished = read(tmp_path)
    assert finished.ranges == finished.processes == 0
    assert {"range", "mark", "process", "thread"} <= set(trace.tables)
    assert len(trace["range"]) == len(trace["mark"]) == 0
    assert not trace.has("kernel")


def test_what_was_not_asked_for_was_not_recorded(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, Log(), collected=[])
    assert not trace.has("range")


def test_a_session_whose_facts_are_gone(tmp_path: Path) -> None:
    log = Log(closed=None)
    log.push(10)
    log.pop(25)
    folder = write_session(tmp_path / "x.raw", log)
    (folder / "session.json").write_text('{"started_monotonic_ns": 1')
    finished = finish(folder, tmp_path / "x.warpline")
    trace = warpline.open(tmp_path / "x.warpline")
    # The thread's record, at 0, is the first time that is known.
    assert rows(trace, "range", *RANGE) == [(10, 25, "range", False)]
    assert trace.meta.origin_utc_ns == ORIGIN_UTC_NS
    assert trace.meta.command is None
    assert "session.json is damaged" in finished.warnings[0]


@pytest.mark.parametrize("value", [None, "x", -1, 2**70, True, [], {}])
def test_nonsense_in_session_json_is_not_believed(tmp_path: Path, value: Any) -> None:
    log = Log()
    log.push(10)
    names = ("warpline", "command", "host", "started_utc_ns", "started_monotonic_ns", "notes")
    more = ("ended_monotonic_ns", "environment", "collected", "stopped_monotonic_ns")
    trace, finished = read(tmp_path, log, **dict.fromkeys((*names, *more), value))
    assert finished.ranges == len(trace["range"]) == 1


def test_a_folder_that_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is no session"):
        finish(tmp_path, tmp_path / "x.warpline")
    with pytest.raises(CaptureError, match="cannot be read"):
        finish(tmp_path / "nowhere", tmp_path / "x.warpline")
    assert not (tmp_path / "x.warpline").exists()


def test_a_recording_that_cannot_be_written_names_what_is_kept(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "x.raw", Log())
    with pytest.raises(CaptureError, match="cannot be written") as caught:
        finish(folder, tmp_path / "nowhere" / "x.warpline")
    assert caught.value.hint is not None
    assert f"warpline recover {folder}" in caught.value.hint


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    log = Log()
    for time_ns in range(5000):
        log.mark(time_ns)
    folder = write_session(tmp_path / "x.raw", log)
    code = (
        "import resource, signal, sys; from warpline.capture.finishing import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "sys.exit(main(sys.argv[1:]))"
    )
    output = tmp_path / "x.warpline"
    words = [sys.executable, "-c", code, str(folder), "--output", str(output)]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    failed = json.loads(run.stdout)["failed"]
    assert "cannot be written: File too large" in failed["message"]
    assert "warpline recover" in failed["hint"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.raw"]


def test_the_process_says_how_far_it_is_and_imports_no_numpy(tmp_path: Path) -> None:
    log = Log()
    log.push(1)
    log.pop(2)
    folder = write_session(tmp_path / "x.raw", log)
    code = (
        "import sys; from warpline.capture.finishing import main; status = main(sys.argv[1:]);"
        "assert not {'numpy', 'polars', 'warpline.api'} & set(sys.modules), sys.modules;"
        "sys.exit(status)"
    )
    output = tmp_path / "x.warpline"
    words = [str(folder), "--output", str(output), "--progress", "--remove"]
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    *parts, last = [json.loads(line) for line in run.stdout.splitlines()]
    assert parts
    assert all(0 <= part["progress"] <= 1 for part in parts)
    assert last["finished"]["ranges"] == 1
    assert output.exists()
    assert not folder.exists()


def test_a_failure_is_a_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "--output", str(tmp_path / "x")]) == 1
    assert "cannot be read" in json.loads(capsys.readouterr().out)["failed"]["message"]


def test_the_tables_of_nsys_work_on_it(tmp_path: Path) -> None:
    log = Log()
    log.domain(1, "lib")
    log.push(0, "step")
    log.push(10, "inner", domain=1)
    log.pop(30, domain=1)
    log.pop(100)
    trace, _ = read(tmp_path, log)
    names = ("name", "total_ns")
    result = warpline.stats(trace, "nvtx_sum")
    columns = [result.columns[name].to_list() for name in names]
    assert list(zip(*columns, strict=True)) == [("step", 100), ("lib:inner", 20)]
    assert len(warpline.stats(trace, "nvtx_pushpop_trace")) == 2
    assert warpline.summary(trace).sections


def test_a_large_session_equals_a_plain_model(tmp_path: Path) -> None:
    """Pushes, pops and marks at random over threads and domains, against a stack in Python."""
    import random

    random_numbers = random.Random(7)
    logs = [Log(tid=100 + number, number=number) for number in range(4)]
    stacks: dict[tuple[int, int], list[tuple[int, str]]] = {}
    expected: list[tuple[int, int, str, int, bool]] = []
    last = 0
    for time_ns in range(0, 8000, 2):
        number, domain = random_numbers.randrange(4), random_numbers.randrange(3)
        stack = stacks.setdefault((number, domain), [])
        if random_numbers.random() < 0.5:
            name = f"name {random_numbers.randrange(50)}"
            logs[number].push(time_ns, name, domain=domain)
            stack.append((time_ns, name))
        else:
            logs[number].pop(time_ns, domain)
            if stack:
                start, name = stack.pop()
                expected.append((start, time_ns, name, number, False))
        last = time_ns
    for (number, _), stack in stacks.items():
        expected += [(start, last + 1, name, number, True) for start, name in stack]
    for log in logs:
        log.header["closed"] = last + 1
    trace, _ = read(tmp_path, *logs, ended_monotonic_ns=ORIGIN_NS + last + 1)
    found = rows(trace, "range", "start_ns", "end_ns", "name", "thread_id", "is_truncated")
    assert found == sorted(expected)
