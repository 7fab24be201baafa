"""Native ids of an export, and their rows in the dimensions of a trace.

A globalTid packs four fields: hardware (8 bits), virtual machine (8), process (24), thread (24).
A globalPid is the same with thread 0. Signed in SQLite, so a key may be negative.

Which rows the dimensions have: every id that a row of a mapped table uses, and the ids that the
TARGET_INFO tables declare. PROCESSES and ThreadNames list the whole machine; they name rows and,
for processes with events, add threads. They never add a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.frozen import frozen, replace
from warpline.ops.arrays import I32, I64, BoolArray, taken
from warpline.ops.group import factorize, factorize_rows
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.export import REEXPORT_HINT, Export, SourceTable

PROCESS_MASK = ~0xFF_FFFF
NO_ID = 0xFFFF_FFFF  # CUPTI's "not applicable" for streams and events

# The column and value of the one kind of row in OSRT_API that is no call: tracing began.
OS_TRACE_BEGAN = ("eventClass", 31)

# Tables of library calls -> the library, and the column of the function's name.
LIBRARY_TABLES: Mapping[str, tuple[bytes, str]] = {
    "CUBLAS_EVENTS": (b"cuBLAS", "nameId"),
    "CUDNN_EVENTS": (b"cuDNN", "nameId"),
    **{
        f"MPI_{kind}_EVENTS": (b"MPI", "textId")
        for kind in ("COLLECTIVES", "OTHER", "P2P", "START_WAIT")
    },
    **{
        f"OPENMP_EVENT_KIND_{kind}": (b"OpenMP", "nameId")
        for kind in ("MUTEX_WAIT", "PARALLEL", "SYNC_REGION_WAIT", "TASK", "WORKSHARE")
    },
}

CPU_FAULTS, GPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS"

# Source columns that hold globalTids or globalPids. A null in them is the thread or process 0,
# because the trace's column may not be null. In the optional ones a null stays null.
THREAD_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("globalTid",),
    "NVTX_EVENTS": ("globalTid",),
    "OSRT_API": ("globalTid",),
    "CUDA_GRAPH_NODE_EVENTS": ("globalTid",),
    "CUDA_GRAPH_EVENTS": ("globalTid",),
    CPU_FAULTS: ("globalPid",),
    **dict.fromkeys(LIBRARY_TABLES, ("globalTid",)),
}
OPTIONAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "NVTX_EVENTS": ("endGlobalTid",),
    "COMPOSITE_EVENTS": ("globalTid",),
    "SCHED_EVENTS": ("globalTid",),
    "PROFILER_OVERHEAD": ("globalTid",),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": ("globalTid",),
    "DIAGNOSTIC_EVENT": ("globalPid",),
}
PLACE_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    GPU_FAULTS,
)
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_WORK_TABLES = PLACE_TABLES[:4]
_PLACE_COLUMNS = ("globalPid", "deviceId", "contextId", "streamId")
_PEER_COLUMNS = ("srcDeviceId", "dstDeviceId")
_PROCESS_TABLES = ("DIAGNOSTIC_EVENT", CPU_FAULTS)  # with globalPids
# Columns that identify a series in each table of samples: what is measured, and where.
_NETWORK_SERIES = ("globalId", "portId", "metricsListId", "metricsIdx")
SERIES_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "GPU_METRICS": ("typeId", "metricId"),
    "SOC_METRICS": ("typeId", "metricId"),
    "NET_NIC_METRIC": _NETWORK_SERIES,
    "NET_IB_SWITCH_METRIC": _NETWORK_SERIES,
}
_NEWER_COLUMN = "portId"  # until 2024 samples name no port
_TABLES = tuple(dict.fromkeys((*THREAD_COLUMNS, *OPTIONAL_COLUMNS)))


class Codes(NamedTuple):
    """A column of keys as dense numbers.

    Attributes:
        codes: Shape (n,), int32.
        keys: Shape (k,), int64: the key of each number, ascending.
        valid: Shape (n,), or None when every row has a key.
    """

    codes: I32
    keys: I64
    valid: BoolArray | None


@frozen
class Place:
    """Where a GPU operation ran: native ids; None where the row has none."""

    process: int
    device: int
    context: int | None
    stream: int | None


def pid_of(key: int) -> int:
    """Return the process id (pid) in a globalPid or globalTid."""
    return (key >> 24) & 0xFF_FFFF


def gpu_of_type(key: int) -> int:
    """Return the index of the GPU in the type id of a sampled metric: its low 8 bits."""
    return key & 0xFF


def process_key(hardware: int, machine: int, pid: int) -> int:
    """Return the globalPid of a process, as SQLite's signed number."""
    key = ((hardware & 0xFF) << 56) | ((machine & 0xFF) << 48) | ((pid & 0xFF_FFFF) << 24)
    return key - 2**64 if key >= 2**63 else key


class Identities:
    """The ids that the tables of an export use. Each table is scanned once, when first needed.

    A damaged table adds no ids: its own rows cannot be read either.
    """

    def __init__(self, export: Export) -> None:
        self._export = export
        self._codes: dict[tuple[str, str], Codes] = {}
        self._places: dict[str, tuple[I32, list[Place]]] = {}
        self._series: dict[str, tuple[I32, list[tuple[int, ...]]]] = {}

    def codes(self, table: str, column: str) -> Codes:
        """Return a column of globalTids or globalPids of a whole table; a null is key 0."""
        if (table, column) not in self._codes:
            self._scan(table)
        return self._codes[table, column]

    def places(self, table: str) -> tuple[I32, list[Place]]:
        """Return each row's number of a place, shape (n,), and the places."""
        if table not in self._places:
            self._places[table] = self._scan_places(table)
        return self._places[table]

    @cached_property
    def thread_keys(self) -> list[int]:
        """Every globalTid in use, ascending."""
        tables = (name for name in _TABLES if name not in _PROCESS_TABLES)
        return sorted(set().union(*map(self._keys, tables)))

    @cached_property
    def process_keys(self) -> list[int]:
        """Every globalPid in use, ascending."""
        keys = {key & PROCESS_MASK for key in self.thread_keys}
        keys.update(place.process for place in self.all_places)
        for table in _PROCESS_TABLES:
            # Process 0 in a diagnostic is the profiler itself.
            known = (key for key in self._keys(table) if table == CPU_FAULTS or pid_of(key))
            keys.update(key & PROCESS_MASK for key in known)
        return sorted(keys)

    @cached_property
    def all_places(self) -> set[Place]:
        """Every place in use."""
        places: set[Place] = set()
        for table in PLACE_TABLES:
            if self._export.has(table):
                with suppress(CorruptTraceError):
                    places.update(self.places(table)[1])
        return places

    @cached_property
    def peers(self) -> set[tuple[int, int]]:
        """Every (globalPid, device number) that peer copies name."""
        peers: set[tuple[int, int]] = set()
        with suppress(CorruptTraceError):
            table = SourceTable(self._export, "CUPTI_ACTIVITY_KIND_MEMCPY")
            table.fetch(dict.fromkeys(_PEER_COLUMNS, Kind.INT64))
            codes, places = self.places(table.name)
            for column in _PEER_COLUMNS:
                device = table.ints(column)
                rows = np.flatnonzero(device.is_valid())
                groups = factorize_rows(codes[rows], device.values[rows])
                for row in rows[groups.first].tolist():
                    peers.add((places[int(codes[row])].process, int(device.values[row])))
        return peers

    def series(self, table: str) -> tuple[I32, list[tuple[int, ...]]]:
        """Return each sample's number of a series, shape (n,), and the SERIES_COLUMNS of each.

        Raises CorruptTraceError if a sample lacks one of them.
        """
        if table not in self._series:
            self._series[table] = self._scan_series(table)
        return self._series[table]

    def series_keys(self, table: str) -> list[tuple[int, ...]]:
        """Return the SERIES_COLUMNS of each series in use; none if the table is damaged."""
        with suppress(CorruptTraceError):
            return self.series(table)[1] if self._export.has(table) else []
        return []

    def _keys(self, table: str) -> set[int]:
        """Return the keys in all columns of a table, none if it is absent or damaged."""
        keys: set[int] = set()
        if not self._export.has(table):
            return keys
        with suppress(CorruptTraceError):
            for column in _columns(table):
                codes = self.codes(table, column)
                if table == "OSRT_API":
                    keys.update(self._os_call_threads(codes))
                elif codes.valid is None or column in THREAD_COLUMNS.get(table, ()):
                    keys.update(codes.keys.tolist())
                else:
                    keys.update(_used(codes, codes.valid))
        return keys

    def _os_call_threads(self, codes: Codes) -> list[int]:
        column, value = OS_TRACE_BEGAN
        is_call = SourceTable(self._export, "OSRT_API").ints(column).values != value
        return _used(codes, is_call)

    def _scan(self, name: str) -> None:
        table = SourceTable(self._export, name)
        table.fetch(dict.fromkeys(_columns(name), Kind.INT64_CODES))
        for column in _columns(name):
            coded = table.codes(column)
            self._codes[name, column] = Codes(coded.codes, np.asarray(coded.keys), coded.valid)

    def _scan_places(self, name: str) -> tuple[I32, list[Place]]:
        table = SourceTable(self._export, name)
        table.fetch(dict.fromkeys(_PLACE_COLUMNS, Kind.INT64_CODES))
        coded = [table.codes(column) for column in _PLACE_COLUMNS]
        values, codes = [np.asarray(part.keys) for part in coded], [part.codes for part in coded]
        processes = factorize(values[0] & PROCESS_MASK)
        values[0], codes[0] = processes.uniques, taken(processes.codes, codes[0])
        groups = factorize_rows(*codes)
        firsts = (
            value[code[groups.first]].tolist() for value, code in zip(values, codes, strict=True)
        )
        keys = zip(*firsts, strict=True)
        places = [_place(name, *key) for key in keys]
        if name == _SYNC:
            places = [self._repaired(place) for place in places]
        if len(places) == 1:  # as of the only stream: no memory
            return np.broadcast_to(np.int32(0), groups.codes.shape), places
        return groups.codes, places

    def _scan_series(self, name: str) -> tuple[I32, list[tuple[int, ...]]]:
        if name in self._export.damaged:  # as found meanwhile, when other columns were read
            raise CorruptTraceError(self._export.damaged[name], hint=REEXPORT_HINT)
        table, columns = SourceTable(self._export, name), SERIES_COLUMNS[name]
        table.fetch(dict.fromkeys(columns, Kind.INT64_CODES))
        coded = [table.codes(column) for column in columns]
        for column, part in zip(columns, coded, strict=True):
            if column != _NEWER_COLUMN or table.has(column):
                table.require(column, part.valid)
        groups = factorize_rows(*(part.codes for part in coded))
        firsts = (np.asarray(part.keys)[part.codes[groups.first]].tolist() for part in coded)
        return groups.codes, list(zip(*firsts, strict=True))

    def _repaired(self, place: Place) -> Place:
        """Return the place of a wait: CUPTI's record has no device, and the export writes 0."""
        device = self._context_device.get((pid_of(place.process), place.context))
        return place if device is None else replace(place, device=device)

    @cached_property
    def _context_device(self) -> dict[tuple[int, int | None], int]:
        """Device number of each (pid, context): as declared, or that of its operations."""
        worked, declared = self._devices_of_work(), self._devices_of_contexts()
        return {
            key: min(devices)
            for key, devices in {**worked, **declared}.items()
            if len(devices)
            == 1  # otherwise the file is inconsistent, and its synchronizations stay unchanged
        }

    def _devices_of_work(self) -> dict[tuple[int, int | None], set[int]]:
        devices: dict[tuple[int, int | None], set[int]] = {}
        for table in _WORK_TABLES:
            if self._export.has(table):
                with suppress(CorruptTraceError):
                    for place in self.places(table)[1]:
                        key = pid_of(place.process), place.context
                        devices.setdefault(key, set()).add(place.device)
        return devices

    def _devices_of_contexts(self) -> dict[tuple[int, int | None], set[int]]:
        names = ("processId", "contextId", "deviceId")
        table = SourceTable.facts(self._export, "TARGET_INFO_CUDA_CONTEXT_INFO", names)
        devices: dict[tuple[int, int | None], set[int]] = {}
        for pid, context, device in zip(*map(table.numbers, names), strict=True):
            if pid is not None and context is not None and device is not None:
                devices.setdefault((pid, context), set()).add(device)
        return devices


def _used(codes: Codes, rows: BoolArray) -> list[int]:
    """Return the keys of the chosen rows."""
    counts = np.bincount(codes.codes[rows], minlength=len(codes.keys))
    keys: list[int] = codes.keys[counts > 0].tolist()
    return keys


def _columns(table: str) -> tuple[str, ...]:
    return (*THREAD_COLUMNS.get(table, ()), *OPTIONAL_COLUMNS.get(table, ()))


def _place(table: str, process: int, device: int, context: int, stream: int) -> Place:
    if table == GPU_FAULTS:
        return Place(process, device, None, None)
    if table == "CUDA_GPU_MEMORY_USAGE_EVENTS":
        return Place(process, device, None if context in (0, NO_ID) else context, None)
    if table == _SYNC and stream in (NO_ID, -1):
        return Place(process, device, context, None)
    return Place(process, device, context, stream)
