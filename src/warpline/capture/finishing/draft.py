"""A recording before it is written: which tables it has, and its metadata."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpline.capture.finishing import counter_tables, cpu_tables, cuda_tables, pc_tables
from warpline.capture.finishing.clock import Clock
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.told import Told
from warpline.capture.session.facts import Facts, texts_of
from warpline.capture.session.raw_numbers import COLLECTORS, EVENT_TABLES, ROW_TABLES
from warpline.container import META, ContainerWriter
from warpline.redaction import join_command
from warpline.schema import TABLES, Column, DType
from warpline.schema.recording import (
    BLOB,
    FORMAT,
    MASK_ENDING,
    NPY_TYPES,
    OFFSETS,
    RAW_FORMAT,
    VERSION,
)

LOST_EVENTS = "NVTX events"
LOST_CUDA_EVENTS = "NVTX and CUDA events"

_NVTX = "nvtx"
_EVENTS = ("range", "mark", "range_payload")
_OF_CUDA = ("api_call", "kernel", "profiled_kernel")
_DIMENSIONS = ("process", "thread")
_PACKED = {DType.INT64: "q", DType.INT32: "i"}
_ITEM_BYTES = {
    DType.INT64: 8,
    DType.INT32: 4,
    DType.UINT16: 2,
    DType.FLOAT64: 8,
    DType.BOOL: 1,
}

Progress = Callable[[float], None]
# A column's values, in one piece or several, and its validity mask.
Packed = tuple[bytes | Sequence[bytes | memoryview], bytes | None]


@dataclass(frozen=True)
class Made:
    """A table that does not come from the native core, or some columns of one that does.

    Attributes:
        rows: Its rows.
        columns: Packed values by column; those that are missing are null.
    """

    rows: int
    columns: Mapping[str, Packed]


class Draft:
    """A recording before it is written."""

    def __init__(
        self,
        session: RawSession,
        facts: Facts,
        clock: Clock,
        told: Told,
        costs: Mapping[str, float],
        made: Mapping[str, Made],
    ) -> None:
        self._costs = dict(costs)
        self._session = session
        self._facts = facts
        self._clock = clock
        self._told = told
        self._made = {**made, "diagnostic": _diagnostics(session, told, clock.origin_ns)}
        self.rows = rows_of(session)
        self.rows |= {name: table.rows for name, table in self._made.items()}
        there = recorded_tables(session, facts, self.rows)
        self._tables = [name for name in self.rows if name in {*there, *made}]

    @property
    def is_empty(self) -> bool:
        """Whether nothing that a program did was recorded."""
        return not any(self.rows[name] for name in ("range", "mark", *EVENT_TABLES))

    def write(self, output: Path, progress: Progress) -> None:
        """Write the recording; OSError if that fails."""
        counted = {name: self.rows[name] for name in self._tables}
        meta = {
            "format": FORMAT,
            "version": ".".join(map(str, VERSION)),
            "rows": counted,
            "recording": self._meta(),
        }
        done, total = 0, max(sum(counted.values()), 1)
        with ContainerWriter(output) as writer:
            writer.add_json(META, meta)
            for table in self._tables:
                self._write_table(writer, table)
                done += counted[table]
                progress(done / total)
            ends, size = self._session.rows("string"), self._session.text_bytes
            writer.add_array(OFFSETS, "<i8", ends, self._session.values(OFFSETS, ends, 8))
            writer.add_array(BLOB, "|u1", size, self._session.values(BLOB, size, 1))

    def _write_table(self, writer: ContainerWriter, table: str) -> None:
        made = self._made[table].columns if table in self._made else {}
        for column in TABLES[table].columns:
            rows, place = self.rows[table], f"{table}/{column.name}"
            if column.name in made:
                _write_packed(writer, place, column, rows, made[column.name])
                continue
            nulls = self._session.nulls(place, rows) if column.nullable else 0
            if column.nullable and nulls in {None, rows}:
                continue
            values = self._session.values(place, rows, _ITEM_BYTES[column.dtype])
            writer.add_array(place, NPY_TYPES[column.dtype], rows, values)
            if nulls:
                writer.add_array(place + MASK_ENDING, "|b1", rows, self._session.mask(place, rows))

    def _meta(self) -> dict[str, Any]:
        """Return the metadata in the format of `trace.recording.meta_to_json`."""
        facts, told = self._facts, self._told
        command = facts.get("command")
        # Drops are counted per log, not by kind of record.
        events = LOST_CUDA_EVENTS if any(map(self.rows.get, _OF_CUDA)) else LOST_EVENTS
        return {
            "sources": [],
            "source_format": RAW_FORMAT,
            "producer": " ".join(["Warpline", *texts_of([facts.get("warpline")])]),
            "source_version": "1",
            "command": join_command(texts_of(command)) or None,
            "host": _text(facts.get("host")),
            "origin_utc_ns": self._clock.origin_utc_ns,
            "span_ns": self._clock.span_ns,
            "windows_ns": told.windows,
            "ends": told.ends,
            "lost": {**({events: told.lost} if told.lost else {}), **told.more_lost},
            "unread": told.unread,
            "warnings": told.warnings,
            "unrecorded": [asdict(cause) for cause in told.unrecorded],
            "damaged": {},
            "environment": _texts_by_name(facts.get("environment")),
            "software": _texts_by_name(facts.get("software")),
            "record_cost_ns": self._costs,
        }


def rows_of(session: RawSession) -> dict[str, int]:
    """Return the rows of the tables that come from the native core, of a sealed session."""
    tables = (*_EVENTS, *_DIMENSIONS, *cuda_tables.TABLES, *ROW_TABLES)
    return {name: session.rows(name) for name in tables}


def recorded_tables(session: RawSession, facts: Facts, rows: Mapping[str, int]) -> set[str]:
    """Return the names of the tables of a session that were recorded.

    A recorded table is present even without rows: there were no such events.

    Args:
        session: The sealed logs.
        facts: The content of session.json.
        rows: Rows by table.
    """
    collected = facts.get("collected", [_NVTX])
    collected = collected if isinstance(collected, list) else []
    is_cuda = cuda_tables.CUDA in collected
    there = {*_DIMENSIONS, *cuda_tables.recorded(session, is_asked_for=is_cuda)}
    is_counted = counter_tables.COUNTERS in collected
    there |= {*counter_tables.recorded(session, is_asked_for=is_counted)}
    is_sampled = pc_tables.PC_SAMPLES in collected
    there |= {*pc_tables.recorded(session, is_asked_for=is_sampled)}
    there |= {name for name, count in rows.items() if count}
    there |= {*cpu_tables.recorded(facts)}
    there |= {table for name, table in COLLECTORS.items() if name in collected}
    return there | ({*_EVENTS, "diagnostic"} if _NVTX in collected else set())


def _write_packed(
    writer: ContainerWriter, place: str, column: Column, rows: int, packed: Packed
) -> None:
    values, valid = packed
    if rows and valid is not None and not any(valid):
        return
    pieces = [values] if isinstance(values, bytes) else values
    writer.add_array(place, NPY_TYPES[column.dtype], rows, pieces)
    if valid is not None and not all(valid):
        writer.add_array(place + MASK_ENDING, "|b1", rows, [valid])


def _diagnostics(session: RawSession, told: Told, origin_ns: int) -> Made:
    rows = sorted(
        (item.time_ns - origin_ns, item.severity, session.intern(item.text), item.process)
        for item in told.diagnostics
    )
    names = ("time_ns", "severity", "text_id", "process_id")
    columns: dict[str, Packed] = {}
    for name, values in zip(names, zip(*rows, strict=True) if rows else ((),) * 4, strict=True):
        kind = _PACKED[TABLES["diagnostic"].column(name).dtype]
        columns[name] = struct.pack(f"={len(values)}{kind}", *values), None
    return Made(len(rows), columns)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts_by_name(facts: object) -> dict[str, str]:
    """Return the texts of an object of session.json; nothing if it is none."""
    pairs = facts.items() if isinstance(facts, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}
