"""Writes logs of raw sessions, record by record: what the agent would write, and what it would not.

The layout is that of native/raw/records.toml.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"WLRAW\r\n\x1a"
HEADER_BYTES = 4096
PAD, THREAD, STRING, DOMAIN, CATEGORY, THREAD_NAME, RESOURCE_NAME = 1, 2, 3, 4, 5, 6, 7
PUSH, POP, START, STOP, MARK, PAYLOAD, SCHEMA, ENUM, WINDOW, DROPPED = range(8, 18)
CLOCK, NOTE, CUDA = 18, 19, 64
HAS_DOMAIN, HAS_COLOR, HAS_VALUE, HAS_NO_NAME, HAS_SEQUENCE = 1, 2, 4, 8, 16
POP_HAS_SEQUENCE = 1
UINT64, INT64, DOUBLE, UINT32, INT32, FLOAT = 1, 2, 3, 4, 5, 6

STATIC, DYNAMIC, UNION, UNION_WITH_SELECTOR = 1, 2, 3, 4
POINTER, FIXED, TERMINATED, LENGTH_INDEX, MESSAGE = 2, 1 << 4, 2 << 4, 3 << 4, 1 << 10

ORIGIN_NS = 5_000_000_000_000
ORIGIN_UTC_NS = 1_790_000_000_000_000_000


def record(kind: int, aux: int = 0, flags: int = 0, body: bytes = b"") -> bytes:
    """Return a record, its body padded to whole words."""
    body += bytes(-len(body) % 8)
    header = (1 + len(body) // 8) << 48 | flags << 40 | kind << 32 | aux
    return struct.pack("<Q", header) + body


def text_body(text: str | bytes, *first: int) -> bytes:
    """Return the words before a text, its length, and the text."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(f"<{len(first) + 1}Q", *first, len(raw)) + raw


def fields(
    domain: int = 0,
    category: int = 0,
    color: int | None = None,
    value: tuple[int, bytes] | None = None,
    sequence: int | None = None,
) -> tuple[int, bytes]:
    """Return the flags and the words of what an event may carry."""
    flags, body = 0, b""
    if domain or category:
        flags, body = HAS_DOMAIN, struct.pack("<II", domain, category)
    if color is not None:
        flags, body = flags | HAS_COLOR, body + struct.pack("<Q", color)
    if value is not None:
        flags |= HAS_VALUE
        body += struct.pack("<Q", value[0]) + value[1].ljust(8, b"\0")
    if sequence is not None:
        flags, body = flags | HAS_SEQUENCE, body + struct.pack("<Q", sequence)
    return flags, body


def short(text: str) -> bytes:
    """Return a text as schemas hold one."""
    return struct.pack("<H", len(text.encode())) + text.encode()


@dataclass(frozen=True)
class Entry:
    """An entry of a schema."""

    name: str
    type: int
    size: int = 4
    flags: int = 0
    detail: int = 0
    offset: int = 0
    align: int = 0

    def content(self) -> bytes:
        """Return the entry as a schema holds it; a number is aligned to its size."""
        align = self.align or (self.size if self.size in {1, 2, 4, 8, 16} else 1)
        numbers = (self.flags, self.type, self.detail, self.offset, self.size, align)
        return struct.pack("<4Q2I", *numbers) + short(self.name) + short("description")


class Log:
    """A log of one thread, its times given from the origin.

    Args:
        pid: The process.
        incarnation: When its agent began.
        tid: The thread; None writes no thread record.
        number: Which of the process's logs it is.
        header: Other fields of the header, by name; `closed` is a time, or None for a process
            that died.
    """

    def __init__(
        self,
        pid: int = 100,
        incarnation: int = 1,
        tid: int | None = None,
        number: int = 0,
        **header: Any,
    ) -> None:
        self.pid, self.incarnation, self.number = pid, incarnation, number
        self.header: dict[str, Any] = {"closed": 1000, "host": "box", "executable": "/usr/bin/prog"}
        self.header.update(header)
        self.body = bytearray()
        self.events = 0
        self._slots: dict[str | bytes, int] = {}
        self.thread(0, pid if tid is None else tid)

    @property
    def name(self) -> str:
        return f"{self.pid}-{self.incarnation}-{self.number}.wlraw"

    def add(self, kind: int, aux: int = 0, flags: int = 0, body: bytes = b"") -> None:
        self.body += record(kind, aux, flags, body)

    def thread(self, time: int, tid: int, name: bytes = b"") -> None:
        self.add(THREAD, body=struct.pack("<QQ16s", ORIGIN_NS + time, tid, name))

    def slot(self, text: str | bytes) -> int:
        if text not in self._slots:
            self._slots[text] = len(self._slots)
            self.add(STRING, self._slots[text], body=text_body(text))
        return self._slots[text]

    def domain(self, number: int, name: str) -> None:
        self.add(DOMAIN, number, body=text_body(name))

    def category(self, domain: int, number: int, name: str) -> None:
        self.add(CATEGORY, domain, body=text_body(name, number))

    def thread_name(self, tid: int, name: str) -> None:
        self.add(THREAD_NAME, tid, body=text_body(name))

    def push(self, time: int, name: str | bytes | None = "range", **more: Any) -> None:
        self._named(PUSH, name, struct.pack("<Q", ORIGIN_NS + time), more)

    def pop(self, time: int, domain: int = 0, sequence: int | None = None) -> None:
        body = struct.pack("<Q", ORIGIN_NS + time)
        if sequence is not None:
            self.add(POP, domain, POP_HAS_SEQUENCE, body + struct.pack("<Q", sequence))
        else:
            self.add(POP, domain, body=body)

    def start(self, time: int, number: int, name: str | None = "range", **more: Any) -> None:
        self._named(START, name, struct.pack("<QQ", ORIGIN_NS + time, number), more)

    def stop(self, time: int, number: int) -> None:
        self.add(STOP, body=struct.pack("<QQ", ORIGIN_NS + time, number))

    def mark(self, time: int, name: str | bytes | None = "mark", **more: Any) -> None:
        self._named(MARK, name, struct.pack("<Q", ORIGIN_NS + time), more)

    def payload(self, schema: int, data: bytes, place: int = 0, targets: bytes = b"") -> None:
        body = struct.pack("<QQ", schema, len(data)) + data
        if targets:
            body += bytes(-len(body) % 8) + targets
        self.add(PAYLOAD, place, int(bool(targets)), body)

    def schema(
        self, number: int, entries: list[Entry], kind: int = STATIC, size: int = 0, domain: int = 1
    ) -> None:
        body = struct.pack("<HHIQQQ", 1, 0x0103, kind, 0, size, 0) + short("schema")
        body += struct.pack("<I", len(entries))
        body += b"".join(entry.content() for entry in entries)
        self.add(SCHEMA, domain, body=struct.pack("<QQ", number, len(body)) + body)

    def enum(
        self,
        number: int,
        size: int,
        names: dict[int, str],
        domain: int = 1,
        flags: Collection[int] = (),
    ) -> None:
        body = struct.pack("<HHI", 1, 0x0103, size) + short("enum") + struct.pack("<I", len(names))
        for value, name in names.items():
            body += struct.pack("<QB", value, value in flags) + short(name)
        self.add(ENUM, domain, body=struct.pack("<QQ", number, len(body)) + body)

    def window(self, time: int, *, opens: bool) -> None:
        self.add(WINDOW, int(opens), body=struct.pack("<Q", ORIGIN_NS + time))

    def dropped(self, time: int, count: int) -> None:
        self.add(DROPPED, body=struct.pack("<QQ", ORIGIN_NS + time, count))
        self.header["dropped"] = self.header.get("dropped", 0) + count

    def clock(self, time: int) -> None:
        self.add(CLOCK, body=struct.pack("<QQ", ORIGIN_NS + time, ORIGIN_UTC_NS + time))

    def note(self, time: int, kind: int, text: str) -> None:
        self.add(NOTE, kind, body=text_body(text, ORIGIN_NS + time))

    def content(self) -> bytes:
        """Return the log as a file holds it."""
        facts = {"records": self.events, "used": HEADER_BYTES + len(self.body), **self.header}
        head = struct.pack(
            "<8s4IQ2IQ2q5Q64s512s2048sQ",
            MAGIC,
            facts.get("version", 1),
            HEADER_BYTES,
            self.pid,
            facts.get("ppid", 1),
            self.incarnation,
            facts.get("forked_from", (0, 0))[0],
            facts.get("writer", 0),
            facts.get("forked_from", (0, 0))[1],
            ORIGIN_NS,
            ORIGIN_UTC_NS,
            facts["records"],
            facts.get("dropped", 0),
            facts.get("cut", 0),
            0 if facts["closed"] is None else ORIGIN_NS + facts["closed"],
            facts["used"],
            os.fsencode(facts["host"]),
            os.fsencode(facts["executable"]),
            b"prog",
            4,
        )
        return head.ljust(HEADER_BYTES, b"\0") + bytes(self.body) + bytes(64)

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        path.write_bytes(self.content())
        return path

    def _named(self, kind: int, name: str | bytes | None, fixed: bytes, more: Any) -> None:
        self.events += 1
        flags, body = fields(**more)
        slot = 0 if name is None else self.slot(name)
        self.add(kind, slot, flags | (HAS_NO_NAME if name is None else 0), fixed + body)


def write_session(folder: Path, *logs: Log, **facts: Any) -> Path:
    """Write a session of logs; `facts` replaces some of session.json's, None leaves one out."""
    folder.mkdir(mode=0o700, exist_ok=True)
    whole = {
        "version": 1,
        "warpline": "9.9",
        "command": ["python", "train me.py"],
        "host": "box",
        "started_utc_ns": ORIGIN_UTC_NS,
        "started_monotonic_ns": ORIGIN_NS,
        "ended_monotonic_ns": ORIGIN_NS + 1000,
        "environment": {"CUDA_VISIBLE_DEVICES": "0"},
        "software": {"driver": "580.1", "odd": 7},
        "output": str(folder.with_suffix("")),
        "launcher_pid": 0,
        "notes": [],
        "collected": ["nvtx"],
        **facts,
    }
    kept = {name: value for name, value in whole.items() if value is not None}
    (folder / "session.json").write_text(json.dumps(kept))
    for log in logs:
        log.write(folder)
    return folder
