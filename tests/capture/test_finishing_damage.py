"""Logs are hostile input: cut, overwritten, made up. What is whole is read, the rest is told."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from capture.raw_writer import HEADER_BYTES, ORIGIN_NS, Log, record, text_body, write_session

import warpline
from warpline import native
from warpline.capture.finishing.finish import Finished, finish
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

MARK, POP, PUSH, STRING = 12, 9, 8, 3
FIRST_BLOCK = 65536  # of a log's file, until it grows


def good_log(marks: int = 10) -> Log:
    log = Log()
    log.domain(1, "dom")
    log.category(1, 2, "cat")
    for time_ns in range(marks):
        log.mark(time_ns, f"mark {time_ns}", domain=1, category=2, value=(1, b"\x05"))
    return log


def read(folder: Path, content: bytes, *logs: Log, **facts: Any) -> tuple[Trace, Finished]:
    session = write_session(folder / "x.raw", *logs, **facts)
    (session / "100-1-0.wlraw").write_bytes(content)
    finished = finish(session, folder / "x.warpline")
    return warpline.open(folder / "x.warpline"), finished


def time_of(ns: int) -> bytes:
    return struct.pack("<Q", ORIGIN_NS + ns)


def test_a_cut_log_keeps_what_is_whole(tmp_path: Path) -> None:
    log = good_log()
    whole = log.content()[: HEADER_BYTES + len(log.body)]
    trace, finished = read(tmp_path, whole[:-70])
    assert 0 < len(trace["mark"]) < 10
    assert finished.damaged_logs == 1
    assert not finished.is_whole
    assert finished.lost == 10 - len(trace["mark"])
    assert "100-1-0.wlraw is damaged" in finished.warnings[0]


def test_a_record_whose_writer_died_is_no_damage(tmp_path: Path) -> None:
    log = good_log()
    content = bytearray(log.content())
    # The header of the next record is zero still; the words behind it are written.
    content[HEADER_BYTES + len(log.body) + 8 :] = time_of(99) + bytes(64)
    trace, finished = read(tmp_path, bytes(content))
    assert (len(trace["mark"]), finished.damaged_logs, finished.lost) == (10, 0, 0)


def test_zeros_in_the_middle_are_damage(tmp_path: Path) -> None:
    log = good_log()
    content = bytearray(log.content())
    middle = HEADER_BYTES + len(log.body) // 2 // 8 * 8
    content[middle : middle + 256] = bytes(256)
    trace, finished = read(tmp_path, bytes(content))
    assert len(trace["mark"]) < 10
    assert finished.damaged_logs == 1


BAD_RECORDS = {
    "no length": struct.pack("<Q", MARK << 32),
    "beyond the file": struct.pack("<Q", 65535 << 48 | MARK << 32),
    "too short": record(MARK),
    "too long": record(MARK, body=time_of(1) + bytes(8)),
    "unknown kind": record(40, body=time_of(1)),
    "unknown flag": record(MARK, flags=0x80, body=time_of(1)),
    "a time that cannot be": record(MARK, body=struct.pack("<Q", 1 << 62)),
    "a negative time": record(MARK, body=struct.pack("<q", -1)),
    "a text that is longer than it": record(STRING, body=struct.pack("<QQ", 1 << 63, 0)),
    "a text that is shorter than it": record(STRING, body=text_body("") + bytes(16)),
    "a payload that is longer than it": record(13, body=struct.pack("<QQ", 1, 99)),
    "a window that is neither": record(16, 7, body=time_of(1)),
}


@pytest.mark.parametrize("bad", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_reading_stops_at_the_first_bad_record(tmp_path: Path, bad: bytes) -> None:
    log = good_log(3)
    log.body += bad
    log.mark(50, "behind")
    trace, finished = read(tmp_path, log.content())
    assert len(trace["mark"]) == 3
    assert (finished.damaged_logs, finished.lost) == (1, 1)


def test_an_event_before_any_thread_is_bad(tmp_path: Path) -> None:
    log = Log()
    log.body.clear()
    log.mark(1)
    trace, finished = read(tmp_path, log.content())
    assert (len(trace["mark"]), finished.damaged_logs) == (0, 1)


def test_records_of_a_newer_agent_are_passed_over_and_told(tmp_path: Path) -> None:
    log = good_log(2)
    log.add(200, body=time_of(1))
    log.add(255, body=b"")
    log.mark(9)
    trace, finished = read(tmp_path, log.content())
    assert (len(trace["mark"]), finished.damaged_logs) == (3, 0)
    assert trace.meta.unread == {"records of a newer agent": 2}


@pytest.mark.parametrize(
    "content",
    [b"x", bytes(3 * FIRST_BLOCK), Log(version=2).content(), b"\xff" * 10_000],
    ids=["a byte", "zeros that had grown", "newer", "noise"],
)
def test_what_is_no_log_is_told_and_the_others_are_read(tmp_path: Path, content: bytes) -> None:
    other = Log(pid=200, incarnation=2)
    other.mark(5)
    trace, finished = read(tmp_path, content, other)
    assert (len(trace["mark"]), finished.damaged_logs) == (1, 1)
    assert "100-1-0.wlraw is damaged" in finished.warnings[0]


def headless(log: Log) -> bytes:
    """Return a log whose header, but not its records, is missing the magic."""
    return bytes(8) + log.content()[8:]


UNWRITTEN = {
    "of no length": b"",
    "reserved": bytes(FIRST_BLOCK),
    "partly reserved": bytes(HEADER_BYTES // 2),
    "with half a header": headless(Log())[:HEADER_BYTES].ljust(FIRST_BLOCK, b"\0"),
}


@pytest.mark.parametrize("content", UNWRITTEN.values(), ids=UNWRITTEN)
def test_a_log_that_was_made_and_not_written_is_no_damage(tmp_path: Path, content: bytes) -> None:
    # A process that ends while another of its threads makes a log leaves such a file.
    other = Log(pid=200, incarnation=2)
    other.mark(5)
    trace, finished = read(tmp_path, content, other)
    assert (len(trace["mark"]), len(trace["process"])) == (1, 1)
    assert (finished.damaged_logs, finished.lost, finished.warnings) == (0, 0, ())
    assert finished.is_whole


def test_records_below_a_header_that_was_not_written_are_told(tmp_path: Path) -> None:
    content = headless(good_log())
    _, finished = read(tmp_path, content)
    told = f"log 100-1-0.wlraw is damaged: {len(content):,} bytes could not be read"
    assert (finished.damaged_logs, finished.warnings[0]) == (1, told)


def test_logs_without_content_are_told_of_if_nobody_saw_the_end(tmp_path: Path) -> None:
    # After a crash of the machine, a log whose pages were not on disk yet looks like one.
    _, finished = read(tmp_path, b"", ended_monotonic_ns=None)
    told = "1 log without content, from processes that ended before they recorded anything"
    assert finished.damaged_logs == 0
    assert any(each.startswith(told) for each in finished.warnings)


@pytest.mark.parametrize(
    ("writer", "counts", "is_told"),
    [(1, {}, True), (1, {"samples": 0}, False), (0, {}, False), (1, None, False)],
    ids=["killed", "ended", "not sampled", "unknown"],
)
def test_samples_whose_process_did_not_say_that_it_ended_are_told(
    tmp_path: Path, writer: int, counts: dict[str, int] | None, is_told: bool
) -> None:
    _, finished = read(tmp_path, Log(writer=writer).content(), cpu_sampler=counts)
    told = "CPU samples, context switches and Python samples end early: "
    assert [each.startswith(told) for each in finished.warnings] == [True] * is_told


def test_a_folder_and_a_pipe_called_like_logs_do_no_harm(tmp_path: Path) -> None:
    session = write_session(tmp_path / "x.raw", good_log())
    (session / "1-1-0.wlraw").mkdir()
    os.mkfifo(session / "1-1-1.wlraw")
    finished = finish(session, tmp_path / "x.warpline")
    assert (finished.marks, finished.damaged_logs) == (10, 2)


def test_counts_in_a_header_are_not_believed(tmp_path: Path) -> None:
    huge = 2**64 - 1
    log = Log(records=huge, dropped=huge, cut=huge, used=huge)
    log.mark(1)
    others = [Log(number=number, dropped=huge) for number in range(1, 9)]
    trace, finished = read(tmp_path, log.content(), *others)
    assert len(trace["mark"]) == 1
    assert finished.damaged_logs == 1
    assert trace.meta.lost == {"NVTX events": 1 << 61}


def test_many_damaged_logs_are_a_few_lines(tmp_path: Path) -> None:
    session = write_session(tmp_path / "x.raw")
    for number in range(50):
        (session / f"1-1-{number}.wlraw").write_bytes(b"noise")
    finished = finish(session, tmp_path / "x.warpline")
    assert finished.damaged_logs == 50
    assert len(finished.warnings) == 4
    assert finished.warnings[-1].startswith("47 more logs")


def test_texts_that_are_no_utf8(tmp_path: Path) -> None:
    log = Log(host=b"h\xffst", executable=b"/bin/\xfe")
    log.mark(1, b"a\xff\x00b")
    trace, _ = read(tmp_path, log.content())
    assert trace["mark"]["name"].to_list() == ["a\ufffd\x00b"]
    assert trace["process"]["name"].to_list() == ["\ufffd"]


def mutated(content: bytes, source: random.Random) -> bytes:
    """Return a log with a few bytes, words or runs changed, or a part cut out."""
    data = bytearray(content)
    for _ in range(source.randrange(1, 6)):
        at = source.randrange(len(data))
        choice = source.randrange(5)
        if choice == 0:
            data[at] = source.randrange(256)
        elif choice == 1:
            word = source.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, source.getrandbits(64)])
            data[at // 8 * 8 : at // 8 * 8 + 8] = struct.pack("<Q", word)
        elif choice == 2:
            data[at : at + 64] = source.randbytes(64)
        elif choice == 3:
            del data[at : at + source.randrange(200)]
        else:
            data[at:at] = data[source.randrange(len(data)) :][:160]
    return bytes(data) or b"x"


def rich_log(tid: int, number: int) -> Log:
    """Return a log with every kind of record."""
    log = Log(tid=tid, number=number)
    log.domain(1, "dom")
    log.category(1, 2, "cat")
    log.thread_name(tid, "thread")
    log.clock(1)
    for time_ns in range(10, 200, 10):
        log.push(time_ns, f"range {time_ns % 30}", domain=1, category=2, value=(3, b"\1" * 8))
        log.payload(18, b"\7" * 8)
        log.start(time_ns + 1, time_ns, "start", color=5)
        log.mark(time_ns + 2, None)
        log.stop(time_ns + 3, time_ns - 10)
        if time_ns % 30:
            log.pop(time_ns + 4, 1)
        if time_ns == 100:
            log.window(time_ns + 5, opens=False)
            log.window(time_ns + 6, opens=True)
            log.dropped(time_ns + 7, 3)
    log.note(300, 1, "libx.so")
    return log


@pytest.mark.parametrize("seed", range(30))
def test_mutated_logs_are_finished_all_the_same(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    first, second = rich_log(100, 0), rich_log(101, 1)
    session = write_session(tmp_path / "x.raw", second)
    (session / first.name).write_bytes(mutated(first.content(), source))
    finish(session, tmp_path / "x.warpline")
    trace = warpline.open(tmp_path / "x.warpline")
    for name in trace.tables:
        assert len(trace[name]) == trace.row_count(name)
    assert (trace["range"]["end_ns"] >= trace["range"]["start_ns"]).all()
