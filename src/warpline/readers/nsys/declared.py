"""What an export declares about processes, threads, GPUs, contexts, streams and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.identity import Identities, pid_of, process_key
from warpline.readers.nsys.names import Names

NULL_STREAM_KIND = 3  # of schema.labels.STREAM_KINDS
THREAD_NAME_EVENT = 39

_GPU_TEXTS = {"name_id": "name", "uuid_id": "uuid", "bus_id": "busLocation", "chip_id": "chipName"}
_GPU_NUMBERS = {
    "sm_count": "smCount",
    "memory_bytes": "totalMemory",
    "memory_bytes_per_s": "memoryBandwidth",
    "l2_bytes": "l2CacheSize",
    "clock_hz": "clockRate",
    "compute_major": "computeMajor",
    "compute_minor": "computeMinor",
}


class Declared:
    """The descriptive tables of an export, each read on first use.

    Args:
        export: The export.
        ids: The ids in use: a table that gives a bare process id means the process with events.
        names: Texts by StringIds id.
    """

    def __init__(self, export: Export, ids: Identities, names: Names) -> None:
        self._export = export
        self._ids = ids
        self._names = names

    @cached_property
    def host(self) -> str | None:
        """Name of the machine."""
        table = SourceTable.facts(self._export, "TARGET_INFO_SYSTEM_ENV", texts=["name", "value"])
        facts = dict(zip(table.strings("name"), table.strings("value"), strict=True))
        return facts.get("Hostname") or None

    @cached_property
    def processes(self) -> dict[int, str]:
        """Name of each globalPid; a row without one names the process in use with its pid."""
        table = SourceTable.facts(self._export, "PROCESSES", ["globalPid", "pid"], ["name"])
        names: dict[int, str] = {}
        columns = (table.numbers("globalPid"), table.numbers("pid"), table.strings("name"))
        for key, pid, name in zip(*columns, strict=True):
            if name and (key is not None or pid is not None):
                names[self._process(pid or 0) if key is None else key] = name
        return names

    @cached_property
    def threads(self) -> dict[int, tuple[str, int | None]]:
        """Name and priority of each globalTid.

        A name that the program set through NVTX takes precedence over the operating system's.
        """
        table = SourceTable.facts(self._export, "ThreadNames", ["nameId", "globalTid", "priority"])
        columns = (table.numbers(name) for name in ("globalTid", "nameId", "priority"))
        threads = {
            key: (self._names.text_of_id(name), priority)
            for key, name, priority in zip(*columns, strict=True)
            if key is not None and name is not None
        }
        for key, text in self._names_given_by_nvtx():
            threads[key] = (text, threads[key][1] if key in threads else None)
        return threads

    @cached_property
    def gpus(self) -> dict[int, dict[str, int | str | None]]:
        """Columns of the device table for each GPU index that TARGET_INFO_GPU describes."""
        texts, numbers = [*_GPU_TEXTS.values()], ["id", *_GPU_NUMBERS.values()]
        table = SourceTable.facts(self._export, "TARGET_INFO_GPU", numbers, texts)
        columns: dict[str, list[int | str | None]] = {
            **{ours: [*table.strings(theirs)] for ours, theirs in _GPU_TEXTS.items()},
            **{ours: [*table.numbers(theirs)] for ours, theirs in _GPU_NUMBERS.items()},
        }
        gpus: dict[int, dict[str, int | str | None]] = {}
        for row, index in enumerate(table.numbers("id")):
            if index is not None:
                # The exporter writes 0 and '' for "unknown" here.
                facts = {name: values[row] or None for name, values in columns.items()}
                facts["compute_minor"] = columns["compute_minor"][row]
                gpus.setdefault(index, facts)
        return gpus

    def gpu(self, index: int) -> Mapping[str, int | str | None]:
        """Return the columns of the device table for a GPU, all None if undescribed."""
        facts = self.gpus.get(index)
        return dict.fromkeys((*_GPU_TEXTS, *_GPU_NUMBERS)) if facts is None else facts

    @cached_property
    def visible_gpus(self) -> dict[tuple[int, int], int]:
        """GPU index of each (pid, CUDA device number)."""
        table = SourceTable.facts(
            self._export, "TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"]
        )
        columns = (table.numbers(name) for name in ("pid", "cudaId", "gpuId"))
        return {
            (pid, device): gpu
            for pid, device, gpu in zip(*columns, strict=True)
            if pid is not None and device is not None and gpu is not None
        }

    def gpu_index(self, pid: int, device: int) -> int:
        """Return the index of the GPU that a process calls `device`.

        TARGET_INFO_CUDA_DEVICE holds the numbering by CUDA_VISIBLE_DEVICES. Exports before it have
        CUDA's number of each GPU, whose order may differ from nsys's: on nodes with 4 A100, it is
        the reverse. Without either, the numbers are assumed to be the same.
        """
        seen = self.visible_gpus.get((pid, device))
        return self._cuda_numbers.get(device, device) if seen is None else seen

    @cached_property
    def _cuda_numbers(self) -> dict[int, int]:
        """GPU index of each number that CUDA gives, none if two have the same."""
        table = SourceTable.facts(self._export, "TARGET_INFO_GPU", ["id", "cuDevice"])
        pairs = {
            (number, index)
            for index, number in zip(table.numbers("id"), table.numbers("cuDevice"), strict=True)
            if index is not None and number is not None
        }
        numbers = dict(pairs)
        return numbers if len(numbers) == len(pairs) else {}

    @cached_property
    def contexts(self) -> dict[tuple[int, int, int], tuple[bool, int | None]]:
        """Whether each (globalPid, device number, native id) is green, and its parent's id."""
        table = self._table("TARGET_INFO_CUDA_CONTEXT_INFO", "isGreenContext", "parentContextId")
        green, parents = table.numbers("isGreenContext"), table.numbers("parentContextId")
        contexts = {key: (bool(green[row]), parents[row]) for row, key in self._context_keys(table)}
        old = self._table("TARGET_INFO_CUDA_NULL_STREAM", "streamId")
        return {**{key: (False, None) for _, key in self._context_keys(old)}, **contexts}

    @cached_property
    def streams(self) -> dict[tuple[int, int, int], tuple[int | None, int | None]]:
        """Priority and kind of each (globalPid, native id of the context, native id)."""
        streams: dict[tuple[int, int, int], tuple[int | None, int | None]] = {}
        for name, column in (
            ("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"),
            ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"),
        ):
            table = self._table(name, column)
            natives = table.numbers(column)
            for row, (process, _, context) in self._context_keys(table):
                native = natives[row]
                if native is not None:
                    streams[process, context, native] = (None, NULL_STREAM_KIND)
        table = self._table("TARGET_INFO_CUDA_STREAM", "streamId", "priority", "flag")
        columns = [table.numbers(name) for name in ("streamId", "priority", "flag")]
        for row, (process, _, context) in self._context_keys(table):
            native, priority, kind = (column[row] for column in columns)
            if native is not None:
                streams[process, context, native] = (priority, kind)
        return streams

    def _table(self, name: str, *columns: str) -> SourceTable:
        keys = ("hwId", "vmId", "processId", "deviceId", "contextId")
        return SourceTable.facts(self._export, name, (*keys, *columns))

    def _context_keys(self, table: SourceTable) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """Yield the rows of a table that name a context, each with (globalPid, device, id)."""
        names = ("hwId", "vmId", "processId", "deviceId", "contextId")
        columns = zip(*(table.numbers(name) for name in names), strict=True)
        for row, (hardware, machine, pid, device, context) in enumerate(columns):
            if pid is not None and context is not None:
                process = self._process(pid, hardware or 0, machine or 0)
                yield row, (process, device or 0, context)

    def _process(self, pid: int, hardware: int = 0, machine: int = 0) -> int:
        """Return the globalPid of a process: its own if in use, otherwise one with its pid."""
        key = process_key(hardware, machine, pid)
        if key in self._ids.process_keys:
            return key
        return next((other for other in self._ids.process_keys if pid_of(other) == pid), key)

    def _names_given_by_nvtx(self) -> Iterator[tuple[int, str]]:
        with suppress(CorruptTraceError):
            types = self._export.event_types
            rows = np.flatnonzero((np.asarray(types.keys) == THREAD_NAME_EVENT)[types.codes])
            if len(rows):
                named = SourceTable(self._export, "NVTX_EVENTS", rows)
                for key, text in zip(
                    named.numbers("globalTid"), named.strings("text"), strict=True
                ):
                    if key is not None and text is not None:
                        yield key, text
