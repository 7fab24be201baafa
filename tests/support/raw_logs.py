"""An independent reader of raw recordings in plain Python: the agent's output as objects.

It follows ``native/raw/records.toml`` and ``warpline_payload.h``, shares no code with Warpline's
finishing, and rejects everything that those do not allow. It also creates sessions for
tests that run programs.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import RangeMode, State
from warpline.capture.session.session import Session, create_session

MAGIC = b"WLRAW\r\n\x1a"
HEADER_BYTES = 4096

END, PAD, THREAD, STRING, DOMAIN, CATEGORY, THREAD_NAME, RESOURCE_NAME = range(8)
PUSH, POP, START, STOP, MARK, PAYLOAD, SCHEMA, ENUM = range(8, 16)
WINDOW, DROPPED, CLOCK, NOTE, THREAD_END = range(16, 21)
EVENT_NAMES = {PUSH: "push", POP: "pop", START: "start", STOP: "stop", MARK: "mark"}

HAS_DOMAIN, HAS_COLOR, HAS_VALUE, HAS_NO_NAME, HAS_SEQUENCE = 1, 2, 4, 8, 16
POP_HAS_SEQUENCE = 1
HAS_TARGETS = 1
TARGET_IN_SLOT = 0xFFFFFFFF

NOTE_NVTX_BOUND, NOTE_UNKNOWN_CALL, NOTE_PAYLOAD_UNKNOWN, NOTE_TOO_LONG, NOTE_FORK = range(1, 6)

VALUE_FORMATS = {1: "Q", 2: "q", 3: "d", 4: "I", 5: "i", 6: "f"}

STATIC_SCHEMAS = 1 << 24
DYNAMIC_SCHEMAS = 1 << 32


@dataclass(frozen=True)
class Record:
    """One record of a log: its header's fields and the words after the header."""

    kind: int
    flags: int
    aux: int
    words: tuple[int, ...]

    @property
    def body(self) -> bytes:
        """The words as bytes."""
        return struct.pack(f"<{len(self.words)}Q", *self.words)


@dataclass(frozen=True)
class Payload:
    """One blob of an event, and the targets of its pointers by offset."""

    place: int
    schema_id: int
    data: bytes
    targets: dict[int, bytes]


@dataclass
class Event:
    """One event; ``domain`` is "" for the default domain, and None for a stop."""

    kind: str
    time_ns: int
    tid: int
    name: str | None = None
    domain: str | None = ""
    category: int = 0
    color: int | None = None
    value: int | float | None = None
    sequence: int | None = None
    range_id: int | None = None
    payloads: list[Payload] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """One entry of a schema."""

    flags: int
    type: int
    detail: int
    offset: int
    bytes: int
    align: int
    name: str
    description: str


@dataclass(frozen=True)
class Schema:
    """A registered schema."""

    compat_id: int
    type: int
    flags: int
    static_bytes: int
    pack_align: int
    name: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Enum:
    """A registered enum: values by name, and the names of flags."""

    compat_id: int
    bytes: int
    name: str
    values: dict[str, int]
    flags: frozenset[str]


@dataclass
class Log:
    """One log, decoded."""

    path: Path
    pid: int
    incarnation: int
    forked_from: int
    counted: int
    dropped: int
    cut: int
    records: list[Record]
    events: list[Event] = field(default_factory=list)
    categories: dict[tuple[str, int], str] = field(default_factory=dict)
    thread_names: dict[int, str] = field(default_factory=dict)
    resources: dict[tuple[int, int], str] = field(default_factory=dict)
    schemas: dict[tuple[str, int], Schema] = field(default_factory=dict)
    enums: dict[tuple[str, int], Enum] = field(default_factory=dict)
    strings: int = 0
    notes: list[tuple[int, str]] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    thread_ends: list[int] = field(default_factory=list)

    def ranges(self) -> list[tuple[str | None, int]]:
        """Return names and depths of pushed ranges, checking that pops have pushes."""
        found = []
        depths: dict[str | None, int] = {}
        for event in self.events:
            if event.kind == "push":
                found.append((event.name, depths.setdefault(event.domain, 0)))
                depths[event.domain] += 1
            elif event.kind == "pop":
                depths[event.domain] -= 1
                assert depths[event.domain] >= 0
        return found


class _Cursor:
    """Reads the bytes of a schema or enum."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def text(self) -> str:
        (size,) = self.take("H")
        self.at += size
        return self.data[self.at - size : self.at].decode()


class _Decoder:
    """Stores the state that later records of a log refer to."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.texts: dict[int, str] = {}
        self.domains: dict[int, str] = {0: ""}
        self.tid = 0
        self.takes_payloads: Event | None = None

    def add(self, record: Record) -> None:
        if record.kind in EVENT_NAMES:
            self.takes_payloads = self._event(record)
            self.log.events.append(self.takes_payloads)
        elif record.kind == PAYLOAD:
            assert self.takes_payloads is not None
            self.takes_payloads.payloads.append(_payload(record, self.texts))
        elif record.kind != PAD:
            self._define(record)

    def _define(self, record: Record) -> None:
        log = self.log
        if record.kind == THREAD:
            self.tid = record.words[1]
        elif record.kind == STRING:
            self.texts[record.aux] = _text(record.body)
            log.strings += 1
        elif record.kind == DOMAIN:
            self.domains[record.aux] = _text(record.body)
        elif record.kind == CATEGORY:
            category = (self.domains[record.aux], record.words[0])
            log.categories[category] = _text(record.body[8:])
        elif record.kind == THREAD_NAME:
            log.thread_names[record.aux] = _text(record.body)
        elif record.kind == RESOURCE_NAME:
            log.resources[record.aux, record.words[0]] = _text(record.body[8:])
        elif record.kind == SCHEMA:
            domain = self.domains[record.aux]
            log.schemas[domain, record.words[0]] = _schema(_bytes(record.body[8:]))
        elif record.kind == ENUM:
            domain = self.domains[record.aux]
            log.enums[domain, record.words[0]] = _enum(_bytes(record.body[8:]))
        elif record.kind == NOTE:
            log.notes.append((record.aux, _text(record.body[8:])))
        elif record.kind == WINDOW:
            log.windows.append(record.aux)
        elif record.kind == THREAD_END:
            log.thread_ends.append(record.words[0])
        else:
            assert record.kind in (DROPPED, CLOCK), f"a record of kind {record.kind}"

    def _event(self, record: Record) -> Event:
        words = list(record.words)
        event = Event(EVENT_NAMES[record.kind], words.pop(0), self.tid)
        if record.kind in (START, STOP):
            event.range_id = words.pop(0)
        if record.kind == POP:
            event.domain = self.domains[record.aux]
            if record.flags & POP_HAS_SEQUENCE:
                event.sequence = words.pop(0)
        elif record.kind == STOP:
            event.domain = None
        else:
            if not record.flags & HAS_NO_NAME:
                event.name = self.texts[record.aux]
            self._fields(event, record.flags, words)
        assert not words, "words that no flag explains"
        return event

    def _fields(self, event: Event, flags: int, words: list[int]) -> None:
        if flags & HAS_DOMAIN:
            word = words.pop(0)
            event.domain = self.domains[word & 0xFFFFFFFF]
            event.category = word >> 32
        if flags & HAS_COLOR:
            event.color = words.pop(0)
        if flags & HAS_VALUE:
            layout = VALUE_FORMATS[words.pop(0)]
            event.value = struct.unpack_from("<" + layout, struct.pack("<Q", words.pop(0)))[0]
        if flags & HAS_SEQUENCE:
            event.sequence = words.pop(0)


def _bytes(body: bytes) -> bytes:
    (size,) = struct.unpack_from("<Q", body)
    assert 0 <= len(body) - 8 - size < 8
    return body[8 : 8 + size]


def _text(body: bytes) -> str:
    return _bytes(body).decode(errors="backslashreplace")


def _payload(record: Record, texts: dict[int, str]) -> Payload:
    schema_id, size = record.words[:2]
    body = record.body[16:]
    data = body[:size]
    assert len(data) == size
    at = (size + 7) // 8 * 8
    targets = {}
    if record.flags & HAS_TARGETS:
        (count,) = struct.unpack_from("<Q", body, at)
        at += 8
        for _ in range(count):
            offset, length = struct.unpack_from("<II", body, at)
            if length == TARGET_IN_SLOT:
                (slot,) = struct.unpack_from("<Q", body, at + 8)
                targets[offset] = texts[slot].encode()
                at += 16
                continue
            targets[offset] = body[at + 8 : at + 8 + length]
            at += 8 + (length + 7) // 8 * 8
    assert at == len(body)
    return Payload(record.aux, schema_id, data, targets)


def _schema(data: bytes) -> Schema:
    cursor = _Cursor(data)
    version, compat_id, kind = cursor.take("HHI")
    assert version == 1
    flags, static_bytes, pack_align = cursor.take("QQQ")
    name = cursor.text()
    (count,) = cursor.take("I")
    entries = tuple(_entry(cursor) for _ in range(count))
    assert cursor.at == len(data)
    return Schema(compat_id, kind, flags, static_bytes, pack_align, name, entries)


def _entry(cursor: _Cursor) -> Entry:
    flags, kind, detail, offset, size, align = cursor.take("QQQQII")
    return Entry(flags, kind, detail, offset, size, align, cursor.text(), cursor.text())


def _enum(data: bytes) -> Enum:
    cursor = _Cursor(data)
    version, compat_id, size = cursor.take("HHI")
    assert version == 1
    name = cursor.text()
    values = {}
    flags = set()
    (count,) = cursor.take("I")
    for _ in range(count):
        value, is_flag = cursor.take("QB")
        label = cursor.text()
        values[label] = value
        if is_flag:
            flags.add(label)
    assert cursor.at == len(data)
    return Enum(compat_id, size, name, values, frozenset(flags))


def _records(data: bytes) -> Iterator[Record]:
    at = HEADER_BYTES
    while at + 8 <= len(data):
        (header,) = struct.unpack_from("<Q", data, at)
        kind = header >> 32 & 0xFF
        if kind == END:
            return
        size = header >> 48
        assert size > 0
        assert at + size * 8 <= len(data)
        words = struct.unpack_from(f"<{size - 1}Q", data, at + 8)
        yield Record(kind, header >> 40 & 0xFF, header & 0xFFFFFFFF, words)
        at += size * 8


def decode_log(path: Path) -> Log:
    """Decode one log."""
    data = path.read_bytes()
    assert data[:8] == MAGIC
    version, header_bytes, pid, _, incarnation, forked_from = struct.unpack_from("<IIIIQI", data, 8)
    assert (version, header_bytes) == (1, HEADER_BYTES)
    counted, dropped, cut = struct.unpack_from("<QQQ", data, 64)
    records = list(_records(data))
    log = Log(path, pid, incarnation, forked_from, counted, dropped, cut, records)
    decoder = _Decoder(log)
    for record in records:
        decoder.add(record)
    return log


def decode(folder: Path) -> list[Log]:
    """Decode all logs of a session, by process and number."""

    def order(path: Path) -> tuple[str, int]:
        start, _, number = path.stem.rpartition("-")
        return start, int(number)

    return [decode_log(path) for path in sorted(folder.glob("*.wlraw"), key=order)]


def events(folder: Path, kind: str | None = None) -> list[Event]:
    """Return the events of all logs of a session, of one kind or of all."""
    found = [event for log in decode(folder) for event in log.events]
    return [event for event in found if kind is None or event.kind == kind]


def make_session(
    folder: Path,
    config: AgentConfig | None = None,
    *,
    state: State = State.RECORDING,
    mode: RangeMode = RangeMode.NONE,
    windows_wanted: int = 0,
) -> Session:
    """Create a session in a new directory, ready for programs."""
    folder.mkdir(mode=0o700)
    facts = {"version": 1, "started_monotonic_ns": time.monotonic_ns()}
    return create_session(
        folder,
        config or AgentConfig(),
        facts,
        state=state,
        mode=mode,
        windows_wanted=windows_wanted,
    )


def run_program(
    session: Session, agent: Path, command: Sequence[str | Path], **environment: str
) -> str:
    """Run a program in a session; return its output. It must succeed without error output."""
    variables = {**os.environ, **session.variables(agent), **environment}
    done = subprocess.run(
        [str(part) for part in command],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
