"""Payloads attached by programs, decoded with their registered schemas."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from capture.raw_writer import (
    DYNAMIC,
    FIXED,
    LENGTH_INDEX,
    MESSAGE,
    POINTER,
    TERMINATED,
    UNION,
    UNION_WITH_SELECTOR,
    Entry,
    Log,
    write_session,
)

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

INT32, UINT8, UINT64, DOUBLE, FLOAT, SIZE = 15, 12, 18, 20, 19, 22
STRING, UTF16, REGISTERED, SELECTOR = 76, 77, 80, 100
INNER, OUTER, ENUM = 1 << 24, (1 << 24) + 1, (1 << 24) + 2
RAW = 1023
IN_SLOT = 0xFFFFFFFF


def read(folder: Path, *logs: Log) -> Trace:
    session = write_session(folder / "x.raw", *logs)
    finish(session, folder / "x.warpline")
    return warpline.open(folder / "x.warpline")


def pairs(trace: Trace) -> list[tuple[str, Any]]:
    columns = trace["range_payload"].select("key", "int_value", "float_value", "text").rows()
    return [(key, next(v for v in values if v is not None)) for key, *values in columns]


def attach(log: Log, number: int, data: bytes, targets: bytes = b"") -> None:
    """Add a mark of domain 1 with a payload."""
    log.mark(10, "mark", domain=1)
    log.payload(number, data, targets=targets)


def target(offset: int, content: bytes) -> bytes:
    return struct.pack("<II", offset, len(content)) + content + bytes(-len(content) % 8)


def test_a_structure_with_everything_in_it(tmp_path: Path) -> None:
    log = Log()
    log.enum(ENUM, 4, {0: "sum", 1: "max"})
    log.schema(INNER, [Entry("x", UINT8, 1), Entry("y", DOUBLE, 8)])
    entries = [
        Entry("count", INT32),
        Entry("op", ENUM),
        Entry("inner", INNER, 16, offset=8),
        Entry("fixed", UINT8, 1, FIXED, 3),
        Entry("counted", INT32, 4, LENGTH_INDEX, 0),
        Entry("letters", STRING, 1, FIXED, 6),
    ]
    log.schema(OUTER, entries)
    data = struct.pack("<iiB7xd3Bxii6s", 2, 1, 9, 0.5, 7, 8, 9, -1, -2, b"abc")
    attach(log, OUTER, data)
    assert pairs(read(tmp_path, log)) == [
        ("count", 2),
        ("op", "max"),
        ("inner.x", 9),
        ("inner.y", 0.5),
        ("fixed", "[7, 8, 9]"),
        ("counted", "[-1, -2]"),
        ("letters", "abc"),
    ]


def test_flags_of_an_enumeration_are_named_together(tmp_path: Path) -> None:
    log = Log()
    log.enum(ENUM, 4, {1: "a", 2: "b", 4: "c"}, flags={1, 2, 4})
    log.schema(OUTER, [Entry("first", ENUM), Entry("second", ENUM), Entry("third", ENUM)])
    attach(log, OUTER, struct.pack("<3i", 5, 8, -1))
    assert pairs(read(tmp_path, log)) == [("first", "a|c"), ("second", 8), ("third", -1)]


def test_a_value_with_flags(tmp_path: Path) -> None:
    log = Log()
    log.enum(ENUM, 4, {1: "red", 2: "green", 256: "bold"}, flags={256})
    log.schema(OUTER, [Entry("paint", ENUM), Entry("other", ENUM)])
    attach(log, OUTER, struct.pack("<2i", 257, 259))
    assert pairs(read(tmp_path, log)) == [("paint", "red|bold"), ("other", 259)]


def test_pointers_are_what_they_pointed_to(tmp_path: Path) -> None:
    log = Log()
    entries = [
        Entry("text", STRING, 8),
        Entry("registered", REGISTERED, 8),
        Entry("null", STRING, 8),
        Entry("list", INT32, 4, POINTER | LENGTH_INDEX, 4),
        Entry("count", SIZE, 8),
    ]
    log.schema(OUTER, entries)
    targets = struct.pack("<Q", 3)
    targets += target(0, "größer".encode()) + target(8, b"known")
    targets += target(24, struct.pack("<2i", 3, -4))
    attach(log, OUTER, struct.pack("<4QQ", 111, 222, 0, 333, 2), targets)
    assert pairs(read(tmp_path, log)) == [
        ("text", "größer"),
        ("registered", "known"),
        ("list", "[3, -4]"),
        ("count", 2),
    ]


def test_registered_strings_are_found_by_their_slots(tmp_path: Path) -> None:
    log = Log()
    log.schema(OUTER, [Entry(name, REGISTERED, 8) for name in ("code", "place", "lost", "far")])
    slots = [log.slot("code" * 9000), log.slot("model.py:7"), 77, 1 << 40]
    targets = struct.pack("<Q", 4)
    targets += b"".join(
        struct.pack("<IIQ", 8 * place, IN_SLOT, slot) for place, slot in enumerate(slots)
    )
    for _ in range(2):
        attach(log, OUTER, struct.pack("<4Q", 1, 2, 3, 4), targets)
    attach(log, OUTER, struct.pack("<4Q", 1, 2, 3, 4), struct.pack("<QII", 1, 8, IN_SLOT))  # cut
    assert pairs(read(tmp_path, log)) == [("code", "code" * 9000), ("place", "model.py:7")] * 2


def test_arrays_of_structures_and_texts_up_to_a_zero(tmp_path: Path) -> None:
    log = Log()
    log.schema(INNER, [Entry("a", UINT8, 1), Entry("b", FLOAT, 4)])
    entries = [
        Entry("points", INNER, 8, FIXED, 2),
        Entry("wide", UTF16, 2, TERMINATED),
        Entry("numbers", UINT8, 1, TERMINATED),
    ]
    log.schema(OUTER, entries, DYNAMIC)
    wide = "ä😀\0".encode("utf-16-le")
    points = struct.pack("<B3xfB3xf", 1, 0.5, 2, 1.5)
    attach(log, OUTER, points + wide + bytes([4, 5, 0]))
    found = pairs(read(tmp_path, log))
    assert found[0][0] == "points"
    assert json.loads(found[0][1]) == [{"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}]
    assert found[1:] == [("wide", "ä😀"), ("numbers", "[4, 5]")]


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_union_is_the_member_that_is_selected(tmp_path: Path, *, is_inside: bool) -> None:
    log = Log()
    members = [Entry("number", INT32), Entry("real", FLOAT)]
    if is_inside:
        members = [
            Entry("which", SELECTOR, 1),
            Entry("number", INT32, offset=4),
            Entry("real", FLOAT, offset=4),
        ]
    log.schema(INNER, members, UNION_WITH_SELECTOR if is_inside else UNION)
    size = 8 if is_inside else 4
    log.schema(OUTER, [Entry("which", INT32), Entry("value", INNER, size, detail=0, offset=4)])
    data = struct.pack("<iB3xf", 7, 2, 2.5) if is_inside else struct.pack("<if", 1, 2.5)
    attach(log, OUTER, data)
    assert pairs(read(tmp_path, log))[1:] == [("value.real", 2.5)]


PLAIN = {
    "an integer": (INT32, struct.pack("<i", -5), -5),
    "a wide one wraps": (UINT64, struct.pack("<Q", 2**64 - 1), -1),
    "half": (42, struct.pack("<e", 1.5), 1.5),
    "bfloat": (50, struct.pack("<f", 3.0)[2:], 3.0),
    "several": (DOUBLE, struct.pack("<2d", 0.1, float("inf")), "[0.1, Infinity]"),
    "whole reals": (DOUBLE, struct.pack("<2d", 2.0, 1e300), "[2.0, 1e+300]"),
    "large and unsigned": (UINT64, struct.pack("<2Q", 2**64 - 1, 1), f"[{2**64 - 1}, 1]"),
    "a text": (STRING, b"hello\0", "hello"),
    "bytes": (RAW, b"\x01\xff", "01ff"),
    "a schema that nobody registered": (OUTER, b"\x01\xff", "01ff"),
}


@pytest.mark.parametrize(("number", "data", "expected"), PLAIN.values(), ids=PLAIN)
def test_payloads_without_a_schema(tmp_path: Path, number: int, data: bytes, expected: Any) -> None:
    log = Log()
    attach(log, number, data)
    assert pairs(read(tmp_path, log)) == [("payload", expected)]


def test_schemas_may_come_later_from_other_threads_and_parents(tmp_path: Path) -> None:
    first, second = Log(incarnation=5), Log(incarnation=5, tid=101, number=1)
    child = Log(pid=200, incarnation=9, forked_from=(100, 5))
    stranger = Log(pid=300, incarnation=10)
    for log in (first, child, stranger):
        attach(log, OUTER, struct.pack("<i", 3))
    second.schema(OUTER, [Entry("late", INT32)])
    found = pairs(read(tmp_path, first, second, child, stranger))
    assert found == [("late", 3), ("late", 3), ("payload", "03000000")]


def test_schemas_are_those_of_a_domain(tmp_path: Path) -> None:
    log = Log()
    log.schema(OUTER, [Entry("one", INT32)], domain=1)
    log.schema(OUTER, [Entry("two", INT32)], domain=2)
    log.start(10, 5, "range", domain=2)
    log.stop(20, 5)
    log.payload(OUTER, struct.pack("<i", 3))
    log.push(30, "push", domain=1)
    log.pop(40, domain=1)
    log.payload(OUTER, struct.pack("<i", 4))
    trace = read(tmp_path, log)
    assert pairs(trace) == [("two", 3), ("one", 4)]
    assert trace["range_payload"]["range_id"].to_list() == [0, 1]


def test_an_entry_may_name_the_event(tmp_path: Path) -> None:
    log = Log()
    log.schema(OUTER, [Entry("message", STRING, 8, MESSAGE)])
    for name in (None, "own"):
        log.mark(10, name, domain=1)
        log.payload(OUTER, bytes(8), targets=struct.pack("<Q", 1) + target(0, b"said"))
    assert read(tmp_path, log)["mark"]["name"].to_list() == ["said", "own"]


def test_what_does_not_fit_its_schema_is_kept_as_hexadecimal(tmp_path: Path) -> None:
    log = Log()
    log.schema(INNER, [Entry("x", INT32), Entry("y", INT32)])
    entries = [Entry("a", INT32), Entry("inner", INNER, 8, align=4), Entry("b", INT32)]
    log.schema(OUTER, entries)
    attach(log, OUTER, struct.pack("<iiH", 1, 2, 3))
    assert pairs(read(tmp_path, log)) == [("a", 1), ("inner.x", 2), ("inner.y", "0300")]


def test_a_structure_in_itself_ends(tmp_path: Path) -> None:
    log = Log()
    log.schema(OUTER, [Entry("again", OUTER, 0, FIXED, 1 << 60), Entry("x", OUTER, 0)])
    log.schema(INNER, [Entry(f"e{n}", INNER, 0) for n in range(100)])
    attach(log, OUTER, b"12345678")
    attach(log, INNER, b"12345678")
    assert len(pairs(read(tmp_path, log))) < 40


def test_damaged_schemas_and_payloads_do_no_harm(tmp_path: Path) -> None:
    source = random.Random(3)
    log = Log()
    log.enum(ENUM, 4, {0: "sum", 1: "max"})
    entries = [
        Entry("count", INT32),
        Entry("op", ENUM),
        Entry("inner", INNER, 16),
        Entry("list", INT32, 4, LENGTH_INDEX, 0),
    ]
    for number in range(400):
        log.schema(OUTER + number, entries, source.choice([1, 2, 3, 4]))
        data = bytes(source.randbytes(source.randrange(60)))
        attach(log, OUTER + number, data, source.randbytes(8 * source.randrange(4)))
        start = len(log.body)
        for _ in range(4):
            at = source.randrange(max(0, start - 300), start)
            log.body[at] = source.choice([0, 1, 255, log.body[at] ^ 4, source.randrange(256)])
    trace = read(tmp_path, log)
    assert len(trace["range_payload"]) == trace.row_count("range_payload")


def nccl_rank(rank: int, incarnation: int) -> Log:
    """Return the log of a rank that makes a communicator of two and calls it three times."""
    log = Log(pid=100 + rank, incarnation=incarnation)
    log.domain(4, "NCCL")
    log.enum(ENUM, 4, {0: "Sum", 1: "Max"}, domain=4)
    communicator = Entry("NCCL communicator ID", UINT64, 8)
    init = [communicator, Entry("No. of ranks", INT32), Entry("Rank", INT32)]
    size, operation = Entry("Message size [bytes]", SIZE, 8), Entry("Reduction operation", ENUM)
    reduce = [communicator, size, operation]
    log.schema(OUTER, init, domain=4)
    log.schema(OUTER + 2, reduce, domain=4)
    log.schema(OUTER + 3, [communicator, Entry("Peer rank", INT32)], domain=4)
    calls = [
        ("ncclCommInitRank", OUTER, struct.pack("<Qii", 2**63 + 1, 2, rank)),
        ("ncclAllReduce", OUTER + 2, struct.pack("<QQi", 2**63 + 1, 4096, 1)),
        ("ncclGroupStart", RAW, b""),
        ("ncclSend", OUTER + 3, struct.pack("<Qi", 2**63 + 1, 1 - rank)),
    ]
    for number, (name, schema, data) in enumerate(calls):
        log.push(100 * number + rank, name, domain=4)
        log.payload(schema, data)
        log.pop(100 * number + 50, domain=4)
    log.push(900, "ncclAllReduce")  # the program's own range
    log.pop(910)
    return log


def test_calls_of_nccl_are_collectives(tmp_path: Path) -> None:
    trace = read(tmp_path, nccl_rank(0, 5), nccl_rank(1, 6))
    names = ("start_ns", "operation", "bytes", "reduction", "peer", "rank", "rank_count")
    assert trace["collective"].select(names).rows() == [
        (100, "ncclAllReduce", 4096, "Max", None, 0, 2),
        (101, "ncclAllReduce", 4096, "Max", None, 1, 2),
        (300, "ncclSend", None, None, 1, 0, 2),
        (301, "ncclSend", None, None, 0, 1, 2),
    ]
    assert set(trace["collective"]["communicator"]) == {"0x8000000000000001"}
    assert trace["collective"]["sequence"].to_list() == [0, 0, 1, 1]
    ranges = trace["range"]["name"].to_list()
    chosen = [ranges[row] for row in trace["collective"]["range_id"]]
    assert chosen == trace["collective"]["operation"].to_list()
    # A recording that is written again holds them.
    warpline.export(trace, tmp_path / "again.warpline")
    again = warpline.open(tmp_path / "again.warpline")
    assert again["collective"].rows() == trace["collective"].rows()


def test_without_nccl_no_call_was_made(tmp_path: Path) -> None:
    log = Log()
    log.push(1, "ncclAllReduce", domain=4)
    trace = read(tmp_path, log)
    assert trace.has("collective")
    assert len(trace["collective"]) == 0


def test_numbers_of_pytorch_at_the_ends_of_ranges(tmp_path):
    log = Log()
    log.push(10, "outer", sequence=5)
    log.push(20, "inner", sequence=7, value=(2, struct.pack("<q", -1)))
    log.pop(30, sequence=9)
    log.push(40, "cut", sequence=9)
    log.push(50, "plain")
    log.pop(60)
    trace = read(tmp_path, log)
    names = trace["range"]["name"].to_list()
    rows = trace["range_payload"].select("range_id", "key", "int_value").rows()
    assert [(names[number], key, value) for number, key, value in rows] == [
        ("outer", "sequence", 5),
        ("inner", "payload", -1),
        ("inner", "sequence", 7),
        ("inner", "end_sequence", 9),
        ("cut", "sequence", 9),
    ]
