"""A recording with the memory of its PyTorch programs: allocations, segments, and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I64
from warpline.schema import TABLES, Column
from warpline.schema.labels import TENSOR_KINDS
from warpline.trace.column import ColumnData, concatenate, make_column, null_column, translated
from warpline.trace.framework_records import read_texts
from warpline.trace.replaced import ReplacedTables
from warpline.trace.trace import Trace

_ADDED = (
    "frame",
    "stack",
    "allocator_event",
    "segment_event",
    "allocator_segment",
    "allocator_block",
    "tensor_block",
)
_KINDS = {label: value for value, label in TENSOR_KINDS.items()}


class Gpu(NamedTuple):
    """What identifies a GPU, as PyTorch has it.

    Attributes:
        name: Product name.
        uuid: UUID in hexadecimal; empty if unknown.
        memory_bytes: Memory size.
    """

    name: str
    uuid: str
    memory_bytes: int


class TensorRow(NamedTuple):
    """Where a tensor of a program was at a time.

    Attributes:
        time_ns: Time in the recording.
        device: The GPU's number in the program.
        address: Address of its first element.
        bytes: Size.
        kind: One of `labels.TENSOR_KINDS`.
        name: Path.
        module: Path of its module, or None.
    """

    time_ns: int
    device: int
    address: int
    bytes: int
    kind: str
    name: str
    module: str | None


class ProcessMemory(NamedTuple):
    """What was recorded of the memory of a process.

    Attributes:
        pid: The process.
        history: Its allocations, in the recording's time: a trace of one process, in which the
            index of a GPU is its number in the program. None without any.
        gpus: The GPUs by their number in the program.
        tensors: Where its tensors were.
    """

    pid: int
    history: Trace | None
    gpus: Sequence[Gpu]
    tensors: Sequence[TensorRow]


def with_allocator_records(
    ours: Trace, memories: Sequence[ProcessMemory], warnings: Sequence[str] = ()
) -> Trace:
    """Return a recording with what PyTorch recorded of the memory of its processes.

    Processes and GPUs that the recording does not have, as it has no other events of them, are
    added.

    Args:
        ours: The recording.
        memories: The memory of processes.
        warnings: Warnings to add to those of the recording.
    """
    builder = _Builder(ours, warnings)
    for memory in memories:
        builder.add(memory)
    return Trace(builder.source())


class _Builder:
    """Collects the rows that are added to a recording."""

    def __init__(self, ours: Trace, warnings: Sequence[str]) -> None:
        self._ours = ours
        read_texts(ours)
        self._columns: dict[str, dict[str, list[ColumnData]]] = {}
        self._counts = {table: ours.row_count(table) if ours.has(table) else 0 for table in TABLES}
        self._warnings = list(warnings)
        self._environment = dict(ours.meta.environment)
        self._pids = {pid: row for row, pid in enumerate(self._own("process", "pid"))}
        self._indices = {index: row for row, index in enumerate(self._own("device", "gpu_index"))}
        uuids = self._own("device", "uuid_id")
        self._uuids = {
            _digits(ours.strings.texts([uuid])[0]): row
            for row, uuid in enumerate(uuids)
            if uuid is not None
        }

    def add(self, memory: ProcessMemory) -> None:
        """Add the rows of a process."""
        process = self._process(memory.pid)
        devices = np.array([self._device(*item) for item in enumerate(memory.gpus)], np.int64)
        if memory.history is not None:
            self._add_history(memory.history, process, devices)
        self._add_tensors(memory.tensors, process, devices)

    def source(self) -> ReplacedTables:
        """Return the recording with the rows that were added."""
        tables = {}
        for table, parts in self._columns.items():
            names = tuple(parts)
            own = self._ours.columns(table, *names) if self._ours.has(table) else {}
            tables[table] = {
                name: concatenate([own[name], *parts[name]] if own else parts[name])
                for name in names
            }
        meta = self._ours.meta
        warnings = (*meta.warnings, *dict.fromkeys(self._warnings))
        meta = replace(meta, warnings=warnings, environment=self._environment)
        return ReplacedTables(self._ours, tables, meta)

    def _process(self, pid: int) -> int:
        if pid not in self._pids:
            self._pids[pid] = self._append("process", {"pid": [pid]}, 1)
        return self._pids[pid]

    def _device(self, number: int, gpu: Gpu) -> int:
        """Return the row of a GPU: by its UUID; by its number if this is not known."""
        digits = _digits(gpu.uuid)
        known = self._uuids.get(digits) if digits else self._indices.get(number)
        if known is not None:
            return known
        index = number if number not in self._indices else max(self._indices) + 1
        intern = self._intern
        values: dict[str, list[Any]] = {
            "gpu_index": [index],
            "name_id": [intern(gpu.name)],
            "uuid_id": [intern(gpu.uuid) if digits else None],
            "memory_bytes": [gpu.memory_bytes],
        }
        row = self._indices[index] = self._append("device", values, 1)
        if digits:
            self._uuids[digits] = row
        return row

    def _add_history(self, theirs: Trace, process: int, devices: I64) -> None:
        """Add the rows of a trace, with its references renumbered."""
        numbers = theirs.columns("device", "gpu_index")["gpu_index"].values
        places = {
            "process": np.full(theirs.row_count("process"), process, np.int64),
            "device": devices[numbers],
        }
        for table in ("frame", "stack"):
            count = theirs.row_count(table) if theirs.has(table) else 0
            places[table] = self._counts[table] + np.arange(count)
        for table in _ADDED:
            if not theirs.has(table):
                continue
            names = [column.name for column in TABLES[table].columns]
            columns = theirs.columns(table, *names)
            self._append_columns(
                table,
                {
                    column.name: self._translated(theirs, column, columns[column.name], places)
                    for column in TABLES[table].columns
                },
                theirs.row_count(table),
            )
        self._warnings += theirs.meta.warnings
        self._environment = {**theirs.meta.environment, **self._environment}

    def _translated(
        self, theirs: Trace, column: Column, data: ColumnData, places: Mapping[str, I64]
    ) -> ColumnData:
        if column.ref is None:
            return data
        if column.ref == "string":
            return translated(data, theirs.strings, self._ours.strings)
        if column.ref not in places or not len(places[column.ref]):
            return null_column(column, len(data))
        return make_column(column, places[column.ref][data.values], data.valid)

    def _add_tensors(self, rows: Sequence[TensorRow], process: int, devices: I64) -> None:
        rows = [row for row in rows if row.device < len(devices)]
        if not rows:
            return
        intern = self._intern
        names = {text: intern(text) for text in {row.name for row in rows}}
        modules = {text: intern(text) for row in rows if (text := row.module) is not None}
        values: dict[str, list[Any]] = {
            "time_ns": [row.time_ns for row in rows],
            "process_id": [process] * len(rows),
            "device_id": devices[[row.device for row in rows]].tolist(),
            "address": [row.address for row in rows],
            "bytes": [row.bytes for row in rows],
            "kind": [_KINDS[row.kind] for row in rows],
            "name_id": [names[row.name] for row in rows],
            "module_id": [None if row.module is None else modules[row.module] for row in rows],
        }
        self._append("tensor_block", values, len(rows))

    def _append(self, table: str, values: Mapping[str, list[Any]], count: int) -> int:
        """Add rows by the values of some columns, None for none; return the first row."""
        columns = {}
        for column in TABLES[table].columns:
            given = values.get(column.name)
            if given is None:
                columns[column.name] = null_column(column, count)
                continue
            valid = np.array([value is not None for value in given], np.bool_)
            columns[column.name] = make_column(column, [value or 0 for value in given], valid)
        return self._append_columns(table, columns, count)

    def _append_columns(self, table: str, columns: Mapping[str, ColumnData], count: int) -> int:
        parts = self._columns.setdefault(table, {name: [] for name in columns})
        for name, data in columns.items():
            parts[name].append(data)
        first = self._counts[table]
        self._counts[table] += count
        return first

    def _intern(self, text: str) -> int:
        return self._ours.strings.intern(text.encode("utf-8", "replace"))

    def _own(self, table: str, column: str) -> list[Any]:
        return self._ours.columns(table, column)[column].to_list() if self._ours.has(table) else []


def _digits(uuid: str) -> str:
    """Return the digits of a UUID, however it is written: GPU-1234-... or 1234...."""
    return "".join(digit for digit in uuid.lower().removeprefix("gpu-") if digit.isalnum())
