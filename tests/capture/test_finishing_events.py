"""Fields of ranges and marks: names, domains, values."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from capture.finished import read, rows
from capture.raw_writer import DOUBLE, FLOAT, INT32, INT64, ORIGIN_NS, UINT32, UINT64, Log

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


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
