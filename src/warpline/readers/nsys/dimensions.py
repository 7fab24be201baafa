"""The dimensions of a trace: process, thread, device, context, stream and metric."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from warpline.readers.nsys.declared import Declared
from warpline.readers.nsys.identity import PROCESS_MASK, Identities, Place, pid_of
from warpline.readers.nsys.metrics import Metrics
from warpline.readers.nsys.names import Names
from warpline.schema import TABLES, Column
from warpline.trace.column import ColumnData, make_column

ContextKey = tuple[int, int, int]  # globalPid, device number, native id
StreamKey = tuple[int, int, int, int]  # the context's, native id

Key = TypeVar("Key", bound=Hashable)
Value = int | str | None


class Dimensions:
    """Rows of the dimensions: keys ascending, and the row of each key.

    Args:
        ids: Which keys the tables of the export use.
        declared: What the export declares about them.
        metrics: The series of samples.
        names: Where texts become rows of the string pool.
    """

    def __init__(self, ids: Identities, declared: Declared, metrics: Metrics, names: Names) -> None:
        self.ids = ids
        self.declared = declared
        self._metrics = metrics
        self._names = names
        self._build: Mapping[str, Callable[[], Iterable[Mapping[str, Value]]]] = {
            "process": self._processes,
            "thread": self._threads,
            "device": self._devices,
            "context": self._contexts,
            "stream": self._streams,
            "metric": self._metric_names,
        }
        self._rows: dict[str, list[Mapping[str, Value]]] = {}

    def tables(self) -> Iterable[str]:
        """Return the names of the dimensions."""
        return self._build

    def row_count(self, table: str) -> int:
        """Return the rows of a dimension."""
        return len(self._table(table))

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a dimension; their texts enter the string pool."""
        rows, spec = self._table(table), TABLES[table]
        return {name: self._column(spec.column(name), rows) for name in columns}

    @cached_property
    def process_row(self) -> dict[int, int]:
        """Row of each globalPid: in use, or owner of a context."""
        return _numbered({*self.ids.process_keys, *(key for key, *_ in self.context_row)})

    @cached_property
    def thread_row(self) -> dict[int, int]:
        """Row of each globalTid: in use, or named in a process that has a thread in use."""
        in_use = self.ids.thread_keys
        processes = {key & PROCESS_MASK for key in in_use}
        named = {key for key in self.declared.threads if key & PROCESS_MASK in processes}
        return _numbered({*in_use, *named})

    @cached_property
    def device_row(self) -> dict[int, int]:
        """Row of each GPU index: of the machine's GPUs, and of any other that rows name."""
        used = {(place.process, place.device) for place in self.ids.all_places} | self.ids.peers
        used |= {(process, device) for process, device, _ in self.context_row}
        known = {*self.declared.gpus, *self._metrics.gpus}
        return _numbered(known | {self.gpu(*device) for device in used})

    @cached_property
    def context_row(self) -> dict[ContextKey, int]:
        """Row of each context, in use or declared."""
        used = {
            (place.process, place.device, place.context)
            for place in self.ids.all_places
            if place.context is not None
        }
        declared = {key[:3] for key in self._declared_streams}
        return _numbered({*used, *declared, *self.declared.contexts})

    @cached_property
    def stream_row(self) -> dict[StreamKey, int]:
        """Row of each stream, in use or declared."""
        used = {
            (place.process, place.device, place.context, place.stream)
            for place in self.ids.all_places
            if place.context is not None and place.stream is not None
        }
        return _numbered({*used, *self._declared_streams})

    @cached_property
    def metric_row(self) -> dict[str, int]:
        """Row of each metric's name."""
        return {name: row for row, name in enumerate(self._metrics.names)}

    def device_row_of(self, place: Place) -> int:
        """Return the row of the device that a place names."""
        return self.device_row[self.gpu(place.process, place.device)]

    def context_row_of(self, place: Place) -> int | None:
        """Return the row of the context that a place names, if it names one."""
        if place.context is None:
            return None
        return self.context_row[place.process, place.device, place.context]

    def stream_row_of(self, place: Place) -> int | None:
        """Return the row of the stream that a place names, if it names one."""
        if place.context is None or place.stream is None:
            return None
        return self.stream_row[place.process, place.device, place.context, place.stream]

    def gpu(self, process: int, device: int) -> int:
        """Return the index of the GPU that a process calls `device`."""
        return self.declared.gpu_index(pid_of(process), device)

    @cached_property
    def _declared_streams(self) -> dict[StreamKey, tuple[int | None, int | None]]:
        """Priority and kind of each declared stream.

        A stream is declared by process and context only. It belongs to every context of that
        number, normally one.
        """
        devices: dict[tuple[int, int], set[int]] = {}
        used = ((p.process, p.device, p.context) for p in self.ids.all_places)
        for process, device, context in (*used, *self.declared.contexts):
            if context is not None:
                devices.setdefault((process, context), set()).add(device)
        return {
            (process, device, context, stream): facts
            for (process, context, stream), facts in self.declared.streams.items()
            for device in sorted(devices.get((process, context), {0}))
        }

    def _table(self, table: str) -> list[Mapping[str, Value]]:
        if table not in self._rows:
            self._rows[table] = list(self._build[table]())
        return self._rows[table]

    def _column(self, spec: Column, rows: Sequence[Mapping[str, Value]]) -> ColumnData:
        values: list[Any] = [row.get(spec.name) for row in rows]
        if spec.ref == "string":
            pool = self._names.pool
            values = [pool.intern_text(v) if isinstance(v, str) else v for v in values]
        valid = np.array([value is not None for value in values], np.bool_)
        return make_column(spec, [0 if value is None else value for value in values], valid)

    def _processes(self) -> Iterable[Mapping[str, Value]]:
        host = self.declared.host
        for key in self.process_row:
            name = self.declared.processes.get(key)
            yield {"pid": pid_of(key), "name_id": name, "host_id": host}

    def _threads(self) -> Iterable[Mapping[str, Value]]:
        for key in self.thread_row:
            name, priority = self.declared.threads.get(key, (None, None))
            process = self.process_row[key & PROCESS_MASK]
            tid = key & ~PROCESS_MASK
            yield {"process_id": process, "tid": tid, "name_id": name, "priority": priority}

    def _devices(self) -> Iterable[Mapping[str, Value]]:
        for index in self.device_row:
            yield {"gpu_index": index, **self.declared.gpu(index)}

    def _contexts(self) -> Iterable[Mapping[str, Value]]:
        for key in self.context_row:
            process, device, native = key
            is_green, parent = self.declared.contexts.get(key, (False, None))
            yield {
                "process_id": self.process_row[process],
                "device_id": self.device_row[self.gpu(process, device)],
                "native_id": native,
                "is_green": int(is_green),
                "parent_native_id": parent if is_green else None,
            }

    def _streams(self) -> Iterable[Mapping[str, Value]]:
        for key in self.stream_row:
            *context, native = key
            priority, kind = self._declared_streams.get(key, (None, None))
            yield {
                "process_id": self.process_row[key[0]],
                "context_id": self.context_row[context[0], context[1], context[2]],
                "native_id": native,
                "priority": priority,
                "kind": kind,
            }

    def _metric_names(self) -> Iterable[Mapping[str, Value]]:
        for name in self.metric_row:
            yield {"name_id": name}


def _numbered(keys: Iterable[Key]) -> dict[Key, int]:
    """Return the place of each key in ascending order."""
    return {key: row for row, key in enumerate(sorted(keys))}  # type: ignore[type-var]
