"""Finishing: convert the logs of a session to a recording.

It runs in a separate process, ``python -m warpline.capture.finishing FOLDER --output PATH``, so
that the launcher's memory stays small. It prints one JSON object per line to stdout:

    {"progress": 0.42}
    {"finished": {"output": "run.warpline", "ranges": 12, ...}}     or
    {"failed": {"message": "...", "hint": "..."}}, and the exit status is 1

Nothing is deleted without ``--remove``. Logs of running processes are read up to their size at that
moment.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpline.capture.finishing import cost, cuda_tables
from warpline.capture.finishing.ends import Life, lives_of, tell_ends
from warpline.capture.finishing.raw_session import LogFile, RawSession, log_files
from warpline.capture.finishing.samples import find_samples
from warpline.capture.finishing.told import Told, tell
from warpline.capture.session.control import ControlFile, Counters
from warpline.capture.session.session import FACTS_NAME, is_full, read_facts
from warpline.container import META, ContainerWriter
from warpline.errors import CaptureError, WarplineError
from warpline.redaction import join_command
from warpline.schema import TABLES, DType
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
_DIMENSIONS = ("process", "thread")
_FAR_NS = 1 << 61
_DECODING = 0.6  # the share of decoding in the progress
_PROGRESS_S = 0.1
_PACKED = {DType.INT64: "q", DType.INT32: "i"}
_ITEM_BYTES = {DType.INT64: 8, DType.INT32: 4, DType.FLOAT64: 8, DType.BOOL: 1}

Progress = Callable[[float], None]
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Finished:
    """The result of finishing a session.

    Attributes:
        output: The recording.
        processes, threads, ranges, marks, payloads, diagnostics, kernels, cuda_calls: Rows of its
            tables.
        lost: Events that were dropped while recording, or could not be read.
        truncated: Ranges that were open when their process, or recording, ended.
        damaged_logs: Logs that could not be read completely.
        alive: Processes that were still running.
        bytes: Size of the recording.
        seconds: Duration of finishing.
        warnings: The recording's warnings, without the count of dropped events.
    """

    output: str
    processes: int
    threads: int
    ranges: int
    marks: int
    payloads: int
    diagnostics: int
    kernels: int
    cuda_calls: int
    lost: int
    truncated: int
    damaged_logs: int
    alive: int
    bytes: int
    seconds: float
    warnings: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the recording has all data of the logs, so that they may be deleted."""
        return self.damaged_logs == 0 and self.alive == 0


def finish(
    folder: Path,
    output: Path,
    *,
    progress: Progress | None = None,
    costs: Mapping[str, float] | None = None,
) -> Finished:
    """Convert the logs of a session to a recording.

    Args:
        folder: The session directory; it is not changed.
        output: The recording; it replaces an existing file once it is complete.
        progress: Called with the completed fraction, from 0 to 1.
        costs: The agent's overhead by table, from `cost.measure`; None if unknown.

    Raises:
        CaptureError: The directory is not a session, or the recording cannot be written.
    """
    began = time.perf_counter()
    progress = progress or _silent
    logs = log_files(folder)
    facts, complaints = _facts(folder, logs)
    with RawSession(logs) as session:
        session.decode(lambda part: progress(part * _DECODING))
        lives = lives_of(session, logs, facts, folder)
        clock = _Clock.of(facts, session, logs, lives)
        for process, life in enumerate(lives):
            if life.until_ns is not None:
                session.end_process(process, life.until_ns)
        session.seal(clock.origin_ns, clock.end_ns)
        counters = _counters(folder)
        was_stopped = _time(facts, "stopped_monotonic_ns") is not None
        told = tell(session, logs, counters, lives, was_stopped=was_stopped)
        told.ends = tell_ends(session, lives, facts, clock.origin_ns)
        cuda_tables.tell_cuda(told, session)
        told.warnings[:0] = [*complaints, *_texts(facts.get("notes"))]
        told.windows = _tell_samples(told, session, facts, clock, counters, lives)
        draft = _Draft(session, facts, clock, told, costs or {})
        try:
            draft.write(output, lambda part: progress(_DECODING + part * (1 - _DECODING)))
        except OSError as error:
            raise CaptureError(
                f"cannot write {output}: {error.strerror or error}",
                hint=f"{'free some space, then ' if is_full(error) else ''}run warpline recover"
                f" {folder}; add -o FILE to write to another directory",
            ) from error
        rows = draft.rows
    return Finished(
        output=str(output),
        processes=rows["process"],
        threads=rows["thread"],
        ranges=rows["range"],
        marks=rows["mark"],
        payloads=rows["range_payload"],
        diagnostics=rows["diagnostic"],
        kernels=rows["kernel"],
        cuda_calls=rows["api_call"],
        lost=told.lost + sum(told.more_lost.values()),
        truncated=told.truncated,
        damaged_logs=told.damaged_logs,
        alive=told.alive,
        bytes=output.stat().st_size,
        seconds=round(time.perf_counter() - began, 3),
        warnings=tuple(told.warnings),
    )


def _tell_samples(
    told: Told,
    session: RawSession,
    facts: Facts,
    clock: _Clock,
    counters: Counters | None,
    lives: Sequence[Life],
) -> tuple[tuple[int, int], ...] | None:
    """Add the sentence about a sampled run; return its windows, None if all of it was recorded."""
    found = find_samples(
        session,
        facts,
        counters,
        origin_ns=clock.origin_ns,
        span_ns=clock.span_ns,
        lived_until_ns=[life.until_ns for life in lives],
    )
    if found is None:
        return None
    if found.sentence is not None:
        told.warnings.insert(0, found.sentence)
    return found.windows


def _facts(folder: Path, logs: Sequence[LogFile]) -> tuple[dict[str, Any], list[str]]:
    """Return the content of session.json, and warnings if it cannot be read.

    Raises:
        CaptureError: There is neither session.json nor a log.
    """
    try:
        return read_facts(folder), []
    except CaptureError as error:
        if not logs:
            raise CaptureError(
                f"{folder} is not an unfinished recording: it has no {FACTS_NAME} and no log",
                hint="name a directory that ends in .raw",
            ) from error
        # Recordings are shared: leave out the directory's path.
        said = error.message.replace(f"{folder}{os.sep}", "")
        return {}, [f"{said}; command and options are unknown"]


def _counters(folder: Path) -> Counters | None:
    """Return the agents' counters, or None if they cannot be read."""
    try:
        control = ControlFile.open(folder)
    except (CaptureError, OSError, ValueError, struct.error):
        return None
    counters = control.counters()
    control.close()
    return counters


@dataclass(frozen=True)
class _Clock:
    """Times of a session.

    Attributes:
        origin_ns: The monotonic time that becomes 0.
        origin_utc_ns: The same time in UTC, if known.
        begin_ns: The monotonic time when recording started; the origin without a delay.
        end_ns: The monotonic time when recording stopped, if known.
        last_ns: The monotonic time of the last event or process end; the origin if there is none.
    """

    origin_ns: int
    origin_utc_ns: int | None
    begin_ns: int
    end_ns: int | None
    last_ns: int

    @classmethod
    def of(
        cls, facts: Facts, session: RawSession, logs: Sequence[LogFile], lives: Sequence[Life]
    ) -> _Clock:
        times = [ns for ns in session.facts("process", "first_ns") if ns]
        origin, utc = _time(facts, "started_monotonic_ns"), _time(facts, "started_utc_ns")
        if origin is None:
            origin = min(times, default=0)
            utc = next((origin + log.utc_offset_ns for log in logs if log.pid), None)
        end = _time(facts, "stopped_monotonic_ns") or _time(facts, "ended_monotonic_ns")
        begin = max(_time(facts, "recording_monotonic_ns") or origin, origin)
        lived = [life.until_ns for life in lives if life.until_ns is not None]
        last = max([*session.facts("process", "last_ns"), *lived], default=begin)
        return cls(origin, utc, begin, end if end is None else max(end, begin), max(last, begin))

    @property
    def span_ns(self) -> tuple[int, int]:
        """When recording started and ended, from the origin."""
        end_ns = self.last_ns if self.end_ns is None else self.end_ns
        return self.begin_ns - self.origin_ns, end_ns - self.origin_ns


class _Draft:
    """A recording before it is written."""

    def __init__(
        self,
        session: RawSession,
        facts: Facts,
        clock: _Clock,
        told: Told,
        costs: Mapping[str, float],
    ) -> None:
        self._costs = dict(costs)
        self._session = session
        self._facts = facts
        self._clock = clock
        self._told = told
        self._diagnostics = sorted(
            (item.time_ns - clock.origin_ns, item.severity, session.intern(item.text), item.process)
            for item in told.diagnostics
        )
        tables = (*_EVENTS, *_DIMENSIONS, *cuda_tables.TABLES)
        self.rows = {name: session.rows(name) for name in tables}
        self.rows["diagnostic"] = len(self._diagnostics)
        collected = facts.get("collected", [_NVTX])
        collected = collected if isinstance(collected, list) else []
        is_cuda = cuda_tables.CUDA in collected
        # A recorded table is present even without rows: there were no such events.
        there = {*_DIMENSIONS, *cuda_tables.recorded(session, is_asked_for=is_cuda)}
        there |= {name for name, rows in self.rows.items() if rows}
        if _NVTX in collected:
            there |= {*_EVENTS, "diagnostic"}
        self._tables = [name for name in self.rows if name in there]

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
                if table == "diagnostic":
                    self._write_diagnostics(writer)
                else:
                    self._write_table(writer, table)
                done += counted[table]
                progress(done / total)
            ends, size = self._session.rows("string"), self._session.text_bytes
            writer.add_array(OFFSETS, "<i8", ends, self._session.values(OFFSETS, ends, 8))
            writer.add_array(BLOB, "|u1", size, self._session.values(BLOB, size, 1))

    def _write_table(self, writer: ContainerWriter, table: str) -> None:
        for column in TABLES[table].columns:
            rows, place = self.rows[table], f"{table}/{column.name}"
            nulls = self._session.nulls(place, rows) if column.nullable else 0
            if column.nullable and nulls in {None, rows}:
                continue
            values = self._session.values(place, rows, _ITEM_BYTES[column.dtype])
            writer.add_array(place, NPY_TYPES[column.dtype], rows, values)
            if nulls:
                writer.add_array(place + MASK_ENDING, "|b1", rows, self._session.mask(place, rows))

    def _write_diagnostics(self, writer: ContainerWriter) -> None:
        names = ("time_ns", "severity", "text_id", "process_id")
        columns = zip(*self._diagnostics, strict=True) if self._diagnostics else ((),) * 4
        for name, values in zip(names, columns, strict=True):
            dtype = TABLES["diagnostic"].column(name).dtype
            raw = struct.pack(f"={len(values)}{_PACKED[dtype]}", *values)
            writer.add_array(f"diagnostic/{name}", NPY_TYPES[dtype], len(values), [raw])

    def _meta(self) -> dict[str, Any]:
        """Return the metadata in the format of `trace.recording.meta_to_json`."""
        facts, told = self._facts, self._told
        command = facts.get("command")
        environment = facts.get("environment")
        pairs = environment.items() if isinstance(environment, dict) else ()
        # Drops are counted per log, not by kind of record.
        events = LOST_CUDA_EVENTS if self.rows["api_call"] or self.rows["kernel"] else LOST_EVENTS
        return {
            "sources": [],
            "source_format": RAW_FORMAT,
            "producer": " ".join(["Warpline", *_texts([facts.get("warpline")])]),
            "source_version": "1",
            "command": join_command(_texts(command)) or None,
            "host": _text(facts.get("host")),
            "origin_utc_ns": self._clock.origin_utc_ns,
            "span_ns": self._clock.span_ns,
            "windows_ns": told.windows,
            "ends": told.ends,
            "lost": {**({events: told.lost} if told.lost else {}), **told.more_lost},
            "unread": told.unread,
            "warnings": told.warnings,
            "damaged": {},
            "environment": {name: value for name, value in pairs if isinstance(value, str)},
            "record_cost_ns": self._costs,
        }


def _time(facts: Facts, key: str) -> int | None:
    """Return a time in session.json, or None if it is missing or invalid."""
    value = facts.get(key)
    return value if type(value) is int and 0 < value < _FAR_NS else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def main(words: Sequence[str] | None = None) -> int:
    """Finish the given session, print the result to stdout and return the exit status."""
    parser = ArgumentParser(prog="python -m warpline.capture.finishing")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--progress", action="store_true", help="print the progress")
    parser.add_argument(
        "--remove", action="store_true", help="delete the directory after a complete conversion"
    )
    args = parser.parse_args(words)
    try:
        progress = _teller() if args.progress else _silent
        costs = cost.measure(args.folder) if _was_here(args.folder) else None
        found = finish(args.folder, args.output, progress=progress, costs=costs)
    except WarplineError as error:
        _say({"failed": {"message": error.message, "hint": error.hint}})
        return error.exit_code
    if args.remove and found.is_whole:
        shutil.rmtree(args.folder, ignore_errors=True)
    _say({"finished": asdict(found)})
    return 0


def _was_here(folder: Path) -> bool:
    """Return whether the session has logs, all of them from this machine."""
    try:
        logs = log_files(folder)
    except CaptureError:
        return False
    return bool(logs) and all(log.host == os.uname().nodename for log in logs)


def _teller() -> Progress:
    """Return a function that prints the progress, with a limited rate."""
    said_at = -_PROGRESS_S

    def tell_progress(part: float) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at >= _PROGRESS_S:
            said_at = now
            _say({"progress": round(part, 3)})

    return tell_progress


def _silent(part: float) -> None:
    pass


def _say(fact: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()
