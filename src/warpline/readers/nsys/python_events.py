"""What nsys records of Python as NVTX events: samples of stacks, and the state of the GIL.

A sample is a mark in a domain of its own, whose binary payload has the state of the thread and its
frames, innermost first: function and file as ids of StringIds, and the line. Times of the GIL are
ranges in another domain. Exports of Warpline have the time that a sample stands for, and who held
the GIL, as well. Exports omit binary payloads unless they are asked for: samples then have
neither state nor stack.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I32, I64, BoolArray, Integers
from warpline.ops.group import factorize, factorize_rows
from warpline.ops.text import factorize_texts
from warpline.readers.nsys.binary import parts_of
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.export import SourceTable
from warpline.readers.nsys.fields import Reading, process, required, thread
from warpline.readers.nsys.identity import PROCESS_MASK
from warpline.readers.nsys.ranges import EVENTS, NvtxEvents, event_name
from warpline.schema import TABLES
from warpline.schema.labels import CODE_KINDS, GIL_STATES, THREAD_STATES
from warpline.trace.backtraces import FrameRows
from warpline.trace.column import Array, ColumnData, make_column

SAMPLING, GIL = b"Python Periodic Sampling", b"GIL Trace"
_HOLDING = b"Holding GIL"
_STATES = {_HOLDING: "Holding", b"Waiting for GIL": "Waiting"}
_HEAD = struct.Struct("<QII")  # id of the state, state, number of frames
_FRAME = np.dtype([("function", "<u8"), ("file", "<u8"), ("line", "<u8")])
_PYTHON = next(value for value, label in CODE_KINDS.items() if label == "Python")
_RUNNING = next(value for value, label in THREAD_STATES.items() if label == "Running")
_UNKNOWN = next(value for value, label in THREAD_STATES.items() if label == "Unknown")
_MISSED = 2  # a sample stands for at most this many periods


class _Stacks(NamedTuple):
    """Distinct payloads of samples.

    Attributes:
        code: Shape (samples,), int64, the payload of each sample; -1 without one.
        state: Shape (payloads,), int64, of THREAD_STATES.
        frames: Frames of all payloads, of dtype _FRAME.
        owner: Shape (frames,), int64, the payload of each frame.
    """

    code: I64
    state: I64
    frames: np.ndarray[tuple[int], np.dtype[np.void]]
    owner: I64


class PythonSamples:
    """The table python_sample.

    Args:
        reading: What rows refer to.
        events: Which rows of NVTX_EVENTS are marks.
        chains: The position of `frame_rows` among the parts of `Reading.backtraces`.
        was_wanted: Whether the program was profiled with Python sampling.
    """

    def __init__(
        self, reading: Reading, events: NvtxEvents, chains: int, *, was_wanted: bool
    ) -> None:
        self._reading = reading
        self._events = events
        self._chains = chains
        self._was_wanted = was_wanted

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table python_sample."""
        return {name: self._column(name) for name in columns}

    def frame_rows(self) -> FrameRows:
        """Return the frames of the distinct stacks, which are numbered by their payloads."""
        stacks, spec = self._stacks, TABLES["frame"]
        sizes = np.bincount(stacks.owner, minlength=len(stacks.state))
        position = np.arange(len(stacks.owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        line = stacks.frames["line"].astype(np.int64)
        columns = {
            "symbol_id": make_column(spec.column("symbol_id"), self._texts("function")),
            "module_id": make_column(spec.column("module_id"), self._texts("file")),
            "line": make_column(spec.column("line"), line, line > 0),
            "kind": make_column(spec.column("kind"), np.full(len(line), _PYTHON)),
            "is_unresolved": make_column(spec.column("is_unresolved"), np.zeros(len(line))),
        }
        return FrameRows(stacks.owner, position, columns)

    @cached_property
    def is_recorded(self) -> bool:
        """Whether Python stacks were sampled."""
        return self._was_wanted and _has_domain(self._events, SAMPLING)

    @property
    def are_stacks_left_out(self) -> bool:
        """Whether the export holds samples without their payloads, nsys's default."""
        return self.is_recorded and len(self) > 0 and not len(self._stacks.state)

    def _column(self, name: str) -> ColumnData:
        spec = TABLES["python_sample"].column(name)
        table = SourceTable(self._reading.export, EVENTS, self._rows)
        fields = {"time_ns": required("start"), "thread_id": thread()}
        if name in fields:
            return fields[name].load(self._reading, table, spec)
        if name == "stack_id":
            code = self._stacks.code
            chains = ColumnData(np.maximum(code, 0), code >= 0)
            return self._reading.backtraces.stack_of(self._chains, chains)
        return make_column(spec, *self._values(name, table))

    def _values(self, name: str, table: SourceTable) -> tuple[Array, BoolArray | None]:
        """Return the values of period_ns, is_running or has_gil, and which are known."""
        if name == "period_ns":
            noted = table.ints("warplinePeriodNs")
            return np.where(noted.is_valid(), noted.values, self._periods_ns), None
        if name == "has_gil":
            held = table.ints("warplineHasGil")
            return held.values != 0, held.is_valid()
        state = np.append(self._stacks.state, _UNKNOWN)[self._stacks.code]
        return state == _RUNNING, state != _UNKNOWN

    @cached_property
    def _rows(self) -> I64:
        """Rows of NVTX_EVENTS that are samples, ascending."""
        if not self.is_recorded:
            return np.zeros(0, np.int64)
        return _in_domain(self._events, self._events.mark_rows, SAMPLING)

    @cached_property
    def _periods_ns(self) -> I64:
        """Return the time to the thread's next sample, at most some periods: some are missed."""
        table = self._events.table(self._rows, "start", "globalTid")
        time, key = table.ints("start").values, table.ints("globalTid").values
        order = np.lexsort((time, key))
        gaps = np.diff(time[order])
        same = key[order][1:] == key[order][:-1]
        period = int(np.median(gaps[same])) if same.any() else 0
        until = np.where(same, np.minimum(gaps, _MISSED * period), period)
        periods = np.full(len(time), period)
        periods[order[:-1]] = until
        return periods

    @cached_property
    def _stacks(self) -> _Stacks:
        raw = SourceTable(self._reading.export, EVENTS, self._rows).texts("binaryData", Kind.BLOB)
        codes = factorize_texts(raw.blob, raw.offsets, raw.valid).codes.astype(np.int64)
        has_payload = np.flatnonzero(codes >= 0)
        groups = factorize(codes[has_payload])
        first = has_payload[_first_of(groups.codes, groups.n_groups)]
        code = np.full(len(codes), -1)
        state: list[int] = []
        frames = []
        numbers = np.full(groups.n_groups, -1)
        for number, row in enumerate(first.tolist()):
            sample = _parsed(raw.blob[raw.offsets[row] : raw.offsets[row + 1]].tobytes())
            if sample is not None:
                numbers[number] = len(state)
                state.append(sample[0])
                frames.append(sample[1])
        code[has_payload] = numbers[groups.codes]
        owner = np.repeat(np.arange(len(frames)), [len(each) for each in frames])
        nothing = np.zeros(0, _FRAME)
        return _Stacks(code, np.array(state, np.int64), np.concatenate([nothing, *frames]), owner)

    def _texts(self, part: str) -> I32:
        """Return the rows of the string pool of functions or files of all frames."""
        ids = self._stacks.frames[part].astype(np.int64)
        groups = factorize(ids)
        pool, text_of = self._reading.names.pool, self._reading.names.text_of_id
        rows = [pool.intern_text(text_of(key)) for key in groups.uniques.tolist()]
        return np.array(rows, np.int32)[groups.codes] if rows else np.zeros(0, np.int32)


class GilSpans:
    """The table gil_span.

    Args:
        reading: What rows refer to.
        events: Which rows of NVTX_EVENTS are ranges.
    """

    def __init__(self, reading: Reading, events: NvtxEvents) -> None:
        self._reading = reading
        self._events = events

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table gil_span."""
        return {name: self._column(name) for name in columns}

    @cached_property
    def is_recorded(self) -> bool:
        """Whether states of the GIL were recorded."""
        return (
            self._reading.export.has(EVENTS)
            and self._reading.names.holds(_HOLDING)
            and _has_domain(self._events, GIL)
        )

    def _column(self, name: str) -> ColumnData:
        spec = TABLES["gil_span"].column(name)
        if name == "end_ns":
            places = np.searchsorted(self._events.range_rows, self._rows)
            return make_column(spec, self._events.range_ends()[0][places])
        if name == "state":
            return make_column(spec, self._named[1])
        fields = {"start_ns": required("start"), "process_id": process(), "thread_id": thread()}
        table = SourceTable(self._reading.export, EVENTS, self._rows)
        return fields[name].load(self._reading, table, spec)

    @property
    def _rows(self) -> I64:
        """Rows of NVTX_EVENTS that are states of the GIL, ascending."""
        return self._named[0]

    @cached_property
    def _named(self) -> tuple[I64, I64]:
        """Return the rows and their states."""
        if not self.is_recorded:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = _in_domain(self._events, self._events.range_rows, GIL)
        table = SourceTable(self._reading.export, EVENTS, rows)
        spec = TABLES["range"].column("name_id")
        names = event_name().load(self._reading, table, spec).filled(0)
        groups = factorize(names)
        label_of = {label: value for value, label in GIL_STATES.items()}
        raw = (self._reading.names.pool.raw(name) for name in groups.uniques.tolist())
        states = [label_of[_STATES[text]] if text in _STATES else 0 for text in raw]
        state = np.array(states, np.int64)[groups.codes]
        return rows[state > 0], state[state > 0]


def _has_domain(events: NvtxEvents, name: bytes) -> bool:
    return name in events.domains.values()


def _in_domain(events: NvtxEvents, rows: I64, name: bytes) -> I64:
    """Return the rows in a domain with a name."""
    table = events.table(rows, "globalTid", "domainId")
    key = table.ints("globalTid").values & PROCESS_MASK
    domain = table.ints("domainId").filled(0)
    if not len(rows):
        return rows
    groups = factorize_rows(key, domain)
    pairs = zip(key[groups.first].tolist(), domain[groups.first].tolist(), strict=True)
    is_wanted: BoolArray = np.array([events.domains.get(pair) == name for pair in pairs], np.bool_)
    return rows[is_wanted[groups.codes]]


def _first_of(codes: Integers, count: int) -> I64:
    """Return the first row of each group."""
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def _parsed(content: bytes) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.void]]] | None:
    """Return the state and the frames of a sample; None for bytes of another layout."""
    for _, payload in parts_of(content):
        if len(payload) < _HEAD.size:
            continue
        _, state, count = _HEAD.unpack_from(payload)
        if _HEAD.size + count * _FRAME.itemsize == len(payload):
            return state, np.frombuffer(payload, _FRAME, count, _HEAD.size)
    return None
