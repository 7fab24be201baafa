"""Processes, threads, devices, contexts and streams, from the fields of the events.

In these traces a GPU operation has its device as the process and its stream as the thread. The
process that launched it is the one with a call of the same correlation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import RowGroups, factorize, factorize_rows
from warpline.ops.join import lookup
from warpline.readers.kineto.events import Events, number_in
from warpline.readers.kineto.kinds import Kind
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column

DEVICE_KINDS = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.WAIT, Kind.EVENT_RECORD)
HOST_KINDS = (
    Kind.RUNTIME,
    Kind.DRIVER,
    Kind.OP,
    Kind.ANNOTATION,
    Kind.PYTHON,
    Kind.MARK,
    Kind.ALLOCATION,
)
CALL_KINDS = (Kind.RUNTIME, Kind.DRIVER)

_NO_STREAM = 0xFFFF_FFFF
_THREAD_NAME = re.compile(r"thread -?[0-9]+ \((.*)\)")
_STREAM_NAME = re.compile(r"stream -?[0-9]++.*", re.IGNORECASE)

# Member of deviceProperties -> column of the table device.
_PROPERTIES: Mapping[str, str] = {
    "totalGlobalMem": "memory_bytes",
    "numSms": "sm_count",
    "computeMajor": "compute_major",
    "computeMinor": "compute_minor",
    "l2CacheSize": "l2_bytes",
}


@dataclass(frozen=True)
class Places:
    """Where GPU operations ran, one place per event of `DEVICE_KINDS` in the file's order.

    Attributes:
        rows: Shape (n,), int64, the events, ascending.
        process: Shape (n,), int64, rows of process.
        device: Shape (n,), int64, the producer's numbers.
        context: Shape (n,), int64, likewise.
        stream: Shape (n,), int64, likewise; -1 where none is named.
    """

    rows: I64
    process: I64
    device: I64
    context: I64
    stream: I64


class Recordings(NamedTuple):
    """Recordings of events into streams.

    Attributes:
        wait: Shape (n,), int64, the place of a wait for the recorded event.
        stream: Shape (n,), int64, the producer's number of the stream it was recorded in.
        correlation: Shape (n,), int64, of the call that recorded it.
    """

    wait: I64
    stream: I64
    correlation: I64


class Dimensions:
    """Rows of the dimensions, and the row of each event."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._build: Mapping[str, Callable[[], dict[str, Sequence[Any]]]] = {
            "process": self._processes,
            "thread": self._threads,
            "device": self._devices,
            "context": self._contexts,
            "stream": self._streams,
        }
        self._tables: dict[str, dict[str, Sequence[Any]]] = {}

    def tables(self) -> Sequence[str]:
        """Return the names of the dimensions."""
        return list(self._build)

    def row_count(self, table: str) -> int:
        """Return the rows of a dimension."""
        return len(next(iter(self._table(table).values())))

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a dimension, without those that are entirely null."""
        table_columns, loaded = self._table(table), {}
        for name in columns:
            values = table_columns.get(name)
            if values is not None:
                spec = TABLES[table].column(name)
                plain = [self._plain(value) for value in values]
                valid = np.array([value is not None for value in plain], np.bool_)
                loaded[name] = make_column(spec, [v or 0 for v in plain], valid)
        return loaded

    def processes_of(self, rows: I64) -> I32:
        """Return the process row of some CPU events."""
        return self._process_of_pid[self._events.scan.pid[rows]]

    def threads_of(self, rows: I64) -> I32:
        """Return the thread row of some CPU events."""
        keys, _ = self._thread_rows
        return keys[np.searchsorted(self._host_rows, rows)]

    def places_of(self, rows: I64) -> I64:
        """Return the positions in `places` of some GPU events."""
        return np.searchsorted(self.places.rows, rows)

    def devices_of(self, numbers: I64) -> tuple[I32, BoolArray]:
        """Return the rows of devices by the producer's numbers, and which exist."""
        at = lookup(numbers, np.array(self.device_numbers, np.int64))
        return at.row.astype(np.int32), at.found

    @cached_property
    def places(self) -> Places:
        """Where GPU operations ran."""
        events = self._events
        rows = events.rows(*DEVICE_KINDS)
        device = self._number(rows, ("device", "inDevice"), events.scan.pid)
        context, _ = events.integers(rows, "context", "inContext")
        stream = self._number(rows, ("stream",), events.scan.tid)
        is_none = (stream < 0) | (stream == _NO_STREAM)
        # Only a wait may have no stream. Other operations without one ran in the default stream.
        stream[is_none] = np.where(events.kinds[rows[is_none]] == Kind.WAIT, -1, 0)
        return Places(rows, self._launchers(rows), device, context, stream)

    @cached_property
    def recordings(self) -> Recordings:
        """Recordings of events, as named by the waits for them; each once."""
        events, places = self._events, self.places
        waits = np.flatnonzero(events.kinds[places.rows] == Kind.WAIT)
        rows = places.rows[waits]
        correlation, has_one = events.integers(rows, "wait_on_cuda_event_record_corr_id")
        stream, has_stream = events.integers(rows, "wait_on_stream")
        known = has_one & has_stream & (correlation >= 0) & (stream >= 0) & (stream != _NO_STREAM)
        waits, stream, correlation = waits[known], stream[known], correlation[known]
        groups = factorize_rows(places.process[waits], correlation)
        first = groups.first
        return Recordings(waits[first], stream[first], correlation[first])

    @cached_property
    def device_row(self) -> I32:
        """Row of device of each place."""
        return self.devices_of(self.places.device)[0]

    @cached_property
    def context_row(self) -> I32:
        """Row of context of each place."""
        return self._context_groups.codes

    @cached_property
    def stream_row(self) -> tuple[I32, BoolArray]:
        """Row of stream of each place, and where it has one."""
        has_stream = self.places.stream >= 0
        rows = np.zeros(len(has_stream), np.int32)
        rows[has_stream] = self._stream_groups.codes[: np.count_nonzero(has_stream)]
        return rows, has_stream

    @cached_property
    def recorded_stream_row(self) -> I32:
        """Row of stream of each of `recordings`."""
        return self._stream_groups.codes[np.count_nonzero(self.places.stream >= 0) :]

    @cached_property
    def device_numbers(self) -> list[int]:
        """The devices in use, ascending; if there are none, those that the file lists."""
        used = {*np.unique(self.places.device).tolist(), *self._allocated_on}
        return sorted(used or self._properties)

    @cached_property
    def _allocated_on(self) -> set[int]:
        """Devices in allocator events. A file may have no other GPU events."""
        if len(self.places.rows):
            return set()
        rows = self._events.rows(Kind.ALLOCATION)
        kinds, _ = self._events.integers(rows, "Device Type")
        devices, has_value = self._events.integers(rows, "Device Id")
        return set(np.unique(devices[has_value & (kinds != 0) & (devices >= 0)]).tolist())

    @cached_property
    def _properties(self) -> dict[int, Mapping[str, Any]]:
        """The file's properties of each device."""
        listed = self._events.scan.top.get("deviceProperties")
        items = listed if isinstance(listed, list) else []
        devices = [item for item in items if isinstance(item, dict)]
        return {item["id"]: item for item in devices if _integer(item.get("id")) is not None}

    @cached_property
    def _host_rows(self) -> I64:
        return self._events.rows(*HOST_KINDS)

    @cached_property
    def _pids(self) -> list[int]:
        """Text numbers of the CPU processes' pids, by pid; -2 for a process without events."""
        used = np.unique(self._events.scan.pid[self._host_rows]).tolist()
        named = used or self._cpu_pids or [-2]
        return sorted(named, key=lambda number: (self._pid(number) or 0, number))

    def _pid(self, number: int) -> int | None:
        return number_in(self._events.text(number))

    @cached_property
    def _cpu_pids(self) -> list[int]:
        """Pids labeled as CPU processes, if there are no CPU events."""
        rows = self._metadata("process_labels")
        labels = self._argument_texts(rows, "labels")
        return sorted(
            {
                pid
                for pid, label in zip(self._events.scan.pid[rows].tolist(), labels, strict=True)
                if label == "CPU"
            }
        )

    @cached_property
    def _process_of_pid(self) -> I32:
        table = np.zeros(len(self._events.scan.texts) + 2, np.int32)
        for row, number in enumerate(self._pids):
            table[number] = row
        return table

    @cached_property
    def _thread_rows(self) -> tuple[I32, list[tuple[int, int]]]:
        """Row of thread of each CPU event, and (process, text number of the tid) of each."""
        scan, rows = self._events.scan, self._host_rows
        tid = scan.tid[rows]
        groups = factorize_rows(self.processes_of(rows), tid)
        first = rows[groups.first]
        keys = zip(self.processes_of(first).tolist(), scan.tid[first].tolist(), strict=True)
        return groups.codes, list(keys)

    def _number(self, rows: I64, keys: tuple[str, ...], otherwise: I32) -> I64:
        """Return an argument, or the number in the event's pid or tid."""
        values, has_value = self._events.integers(rows, *keys)
        missing = np.flatnonzero(~has_value)
        if len(missing):
            groups = factorize(otherwise[rows[missing]])
            numbers = [number_in(self._events.text(text)) or 0 for text in groups.uniques.tolist()]
            values[missing] = np.array(numbers, np.int64)[groups.codes]
        return values

    def _launchers(self, rows: I64) -> I64:
        """Return the process of each GPU event: that of the call with its correlation."""
        process = np.zeros(len(rows), np.int64)
        if len(self._pids) < 2 or not len(rows):
            return process
        calls = self._events.rows(*CALL_KINDS)
        owners = self.processes_of(calls)
        if len(calls):
            process[:] = int(np.bincount(owners).argmax())
        wanted, has_one = self._events.correlations(rows)
        keys, is_key = self._events.correlations(calls)
        at = lookup(wanted, keys[is_key])
        known = at.found & has_one
        process[known] = owners[is_key][at.row[known]]
        return process

    @cached_property
    def _context_groups(self) -> RowGroups:
        places = self.places
        return factorize_rows(places.process, self.device_row, places.context)

    @cached_property
    def _stream_keys(self) -> tuple[I64, I32, I64]:
        """Process, context and number of the streams of places, then of recordings."""
        places, recordings = self.places, self.recordings
        some = np.concatenate((np.flatnonzero(places.stream >= 0), recordings.wait))
        streams = np.concatenate((places.stream[places.stream >= 0], recordings.stream))
        return places.process[some], self.context_row[some], streams

    @cached_property
    def _stream_groups(self) -> RowGroups:
        return factorize_rows(*self._stream_keys)

    def _metadata(self, name: str) -> I64:
        rows, scan = self._events.rows(Kind.METADATA), self._events.scan
        wanted = name.encode()
        texts = [
            n for n in np.unique(scan.name[rows]).tolist() if n >= 0 and scan.texts[n] == wanted
        ]
        return rows[np.isin(scan.name[rows], texts)]

    def _argument_texts(self, rows: I64, key: str) -> list[str | None]:
        numbers, has_text = self._events.texts_of(rows, key)
        texts = self._events.pool.texts(numbers)
        return [text if ok else None for text, ok in zip(texts, has_text.tolist(), strict=True)]

    @cached_property
    def _process_names(self) -> dict[int, str]:
        rows = self._metadata("process_name")
        names = self._argument_texts(rows, "name")
        pids = self._events.scan.pid[rows].tolist()
        return {pid: name for pid, name in zip(pids, names, strict=True) if name}

    @cached_property
    def _thread_names(self) -> dict[tuple[int, int], str]:
        """Name of each (process, text number of the tid). The first informative one counts."""
        rows, scan = self._metadata("thread_name"), self._events.scan
        names: dict[tuple[int, int], str] = {}
        keys = zip(scan.pid[rows].tolist(), scan.tid[rows].tolist(), strict=True)
        for (pid, tid), name in zip(keys, self._argument_texts(rows, "name"), strict=True):
            inner = _THREAD_NAME.fullmatch(name or "")
            shown = inner[1] if inner else name
            if pid in self._pids and shown and not _STREAM_NAME.fullmatch(shown):
                key = (int(self._process_of_pid[pid]), tid)
                if key not in names or names[key] == self._process_names.get(pid):
                    names[key] = shown
        return names

    def _table(self, name: str) -> dict[str, Sequence[Any]]:
        if name not in self._tables:
            self._tables[name] = self._build[name]()
        return self._tables[name]

    def _processes(self) -> dict[str, Sequence[Any]]:
        texts = [self._events.text(number) for number in self._pids]
        numbers = [number_in(text) for text in texts]
        names = [self._process_names.get(number) for number in self._pids]
        shown = [
            name or (text if number is None else None)
            for name, text, number in zip(names, texts, numbers, strict=True)
        ]
        host = self._events.scan.top.get("host_name")
        hosts = [host if isinstance(host, str) else None] * len(texts)
        rank, rank_count = self._rank if len(texts) == 1 else (None, None)
        return {
            "pid": [n or 0 for n in numbers],
            "name_id": shown,
            "host_id": hosts,
            "rank": [rank] * len(texts),
            "rank_count": [rank_count] * len(texts),
        }

    @property
    def _rank(self) -> tuple[int | None, int | None]:
        """Rank of the file's process, and the number of ranks."""
        info = self._events.scan.top.get("distributedInfo")
        if not isinstance(info, dict):
            return None, None
        return _integer(info.get("rank")), _integer(info.get("world_size"))

    def _threads(self) -> dict[str, Sequence[Any]]:
        keys = self._thread_rows[1]
        texts = [self._events.text(tid) for _, tid in keys]
        numbers = [number_in(text) for text in texts]
        names = [
            self._thread_names.get(key) or (text if number is None and text else None)
            for key, text, number in zip(keys, texts, numbers, strict=True)
        ]
        return {
            "process_id": [process for process, _ in keys],
            "tid": [number or 0 for number in numbers],
            "name_id": names,
        }

    def _devices(self) -> dict[str, Sequence[Any]]:
        properties = [self._properties.get(number, {}) for number in self.device_numbers]
        columns: dict[str, Sequence[Any]] = {
            column: [_integer(item.get(key)) for item in properties]
            for key, column in _PROPERTIES.items()
        }
        texts = {"name_id": "name", "uuid_id": "uuid"}
        for column, key in texts.items():
            columns[column] = [
                item[key] if isinstance(item.get(key), str) else None for item in properties
            ]
        return {"gpu_index": self.device_numbers, **columns}

    def _contexts(self) -> dict[str, Sequence[Any]]:
        first, places = self._context_groups.first, self.places
        return {
            "process_id": places.process[first].tolist(),
            "device_id": self.device_row[first].tolist(),
            "native_id": places.context[first].tolist(),
            "is_green": [0] * len(first),
        }

    def _streams(self) -> dict[str, Sequence[Any]]:
        first = self._stream_groups.first
        process, context, stream = (keys[first].tolist() for keys in self._stream_keys)
        return {
            "process_id": process,
            "context_id": context,
            "native_id": stream,
            "priority": self._priorities(len(first)),
        }

    def _priorities(self, count: int) -> list[int | None]:
        """Return the priority of each stream, if its operations have one."""
        values, has_value = self._events.integers(self.places.rows, "priority")
        rows, has_stream = self.stream_row
        known: list[int | None] = [None] * count
        for place in np.flatnonzero(has_value & has_stream).tolist() if has_value.any() else ():
            known[rows[place]] = int(values[place])
        return known

    def _plain(self, value: Any) -> Any:
        return self._events.pool.intern_text(value) if isinstance(value, str) else value


def _integer(value: object) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 62 else None
