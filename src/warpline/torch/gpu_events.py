"""GPU operations and CUDA calls of a recording, as PyTorch's profiler would have recorded them.

Each launch belongs to the innermost operator that its thread was running at that time, as in
PyTorch's profiler, which finds out in the same way. A block of record_function gets the time from
the first to the last operation that was launched directly in it, per stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warpline.derived.texts import without_version
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.torch.kineto_events import (
    ANNOTATION,
    COPY,
    DRIVER,
    KERNEL,
    MEMSET,
    RUNTIME,
    KinetoEvent,
)
from warpline.torch.operators import Launcher, Operators
from warpline.trace.trace import Trace

_CUDA = torch.autograd.DeviceType.CUDA
_CPU = torch.autograd.DeviceType.CPU

_DRIVER_CALL = 1  # of schema.labels.API_KINDS
_UNKNOWN_MEMORY = 7  # of schema.labels.MEMORY_KINDS
_NOWHERE = Launcher(0, 0, 0)
_COPY_LETTERS = {
    label: "".join(word[0] if word != "to" else word for word in label.split("-"))
    for label in COPY_KINDS.values()
}


@dataclass(frozen=True)
class Window:
    """The active steps of a cycle.

    Attributes:
        start_ns: Start, ns since 1970.
        end_ns: End.
        pauses: Parts of it, (start, end), in which nothing of the GPU was recorded.
    """

    start_ns: int
    end_ns: int
    pauses: tuple[tuple[int, int], ...] = ()

    def has(self, start_ns: int, end_ns: int) -> bool:
        """Return whether an event took place in it, outside its pauses."""
        if start_ns < self.start_ns or end_ns > self.end_ns:
            return False
        return not any(since <= start_ns < until for since, until in self.pauses)


def gpu_events(
    trace: Trace, pid: int, window: Window, operators: Operators, devices: Mapping[int, int]
) -> list[KinetoEvent]:
    """Return the events of a process in a window: calls, GPU operations, blocks on the GPU.

    Args:
        trace: The recording.
        pid: The process.
        window: The active steps.
        operators: What PyTorch recorded of them.
        devices: CUDA's index of each GPU, by its index in the recording.

    Returns:
        Events without an order.
    """
    return _Events(trace, pid, window, operators, devices).all()


class _Events:
    def __init__(
        self,
        trace: Trace,
        pid: int,
        window: Window,
        operators: Operators,
        devices: Mapping[int, int],
    ) -> None:
        self._trace = trace
        self._pid = pid
        self._window = window
        self._operators = operators
        self._devices = devices
        self._zero_ns = trace.meta.origin_utc_ns or 0
        pids = trace.columns("process", "pid")["pid"].values.tolist() if "process" in trace else []
        self._processes = {row for row, number in enumerate(pids) if number == pid}

    def all(self) -> list[KinetoEvent]:
        calls, launchers = self._calls()
        work = [
            *self._work("kernel", KERNEL, self._kernel_names, launchers),
            *self._work("memcpy", COPY, self._copy_names, launchers),
            *self._work("memset", MEMSET, self._memset_names, launchers),
        ]
        return [*calls, *work, *self._blocks(work, launchers)]

    def _rows(self, table: str, names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the given columns of this process's rows in the window, times since 1970."""
        if table not in self._trace:
            return
        columns = self._trace.columns(table, "process_id", "start_ns", "end_ns", *names)
        rows = zip(*(column.to_list() for column in columns.values()), strict=True)
        for process, start_ns, end_ns, *values in rows:
            start, end = start_ns + self._zero_ns, end_ns + self._zero_ns
            if process in self._processes and self._window.has(start, end):
                yield [start, end, *values]

    def _calls(self) -> tuple[list[KinetoEvent], dict[int, Launcher]]:
        """Return the CUDA calls, and what launched the operations with each correlation id."""
        tids = self._trace.columns("thread", "tid")["tid"].values if "thread" in self._trace else ()
        rows = list(self._rows("api_call", ("thread_id", "correlation_id", "api", "name_id")))
        numbers = [int(tids[row[2]]) for row in rows]
        middles = [(row[0] + row[1]) // 2 for row in rows]  # clocks differ by a microsecond
        launchers = self._operators.launchers(numbers, middles)
        of: dict[int, Launcher] = {}
        calls = []
        for row, tid, by in zip(rows, numbers, launchers, strict=True):
            start, end, _, correlation, api, name = row
            of.setdefault(correlation or 0, by)
            calls.append(
                KinetoEvent(
                    DRIVER if api == _DRIVER_CALL else RUNTIME,
                    without_version(self._trace.strings.text(name)),
                    start,
                    end,
                    _CPU,
                    self._pid,
                    tid,
                    by.thread,
                    correlation or 0,
                    by.operator,
                    f'"correlation": {correlation or 0}',
                )
            )
        of.pop(0, None)
        return calls, of

    def _work(
        self,
        table: str,
        kind: str,
        names: Callable[[], Iterator[tuple[str, str]]],
        launchers: Mapping[int, Launcher],
    ) -> list[KinetoEvent]:
        """Return the operations of one table."""
        found = []
        places = self._places()
        contexts = self._column("context", "native_id")
        rows = self._rows(table, ("device_id", "stream_id", "context_id", "correlation_id"))
        for row, (name, details) in zip(rows, names(), strict=True):
            start, end, device, stream, context, correlation = row
            by = launchers.get(correlation or 0, _NOWHERE)
            gpu, number = places[0][device], places[1][stream]
            found.append(
                KinetoEvent(
                    kind,
                    name,
                    start,
                    end,
                    _CUDA,
                    gpu,
                    number,
                    by.thread,
                    correlation or 0,
                    by.operator,
                    f'"device": {gpu}, "context": {contexts[context]}, "stream": {number},'
                    f' "correlation": {correlation or 0}, {details}',
                )
            )
        return found

    def _places(self) -> tuple[list[int], list[int]]:
        """Return CUDA's index of each device row, and the number of each stream row."""
        indexes = self._column("device", "gpu_index")
        return [self._devices.get(gpu, gpu) for gpu in indexes], self._column("stream", "native_id")

    def _column(self, table: str, name: str) -> list[int]:
        if table not in self._trace:
            return []
        numbers: list[int] = self._trace.columns(table, name)[name].values.tolist()
        return numbers

    def _kernel_names(self) -> Iterator[tuple[str, str]]:
        shape = [f"{kind}_{axis}" for kind in ("grid", "block") for axis in "xyz"]
        names = ("name_id", *shape, "registers_per_thread", "static_shared_bytes")
        for row in self._rows("kernel", (*names, "dynamic_shared_bytes")):
            name, *sizes, registers, static, dynamic = row[2:]
            details = (
                f'"registers per thread": {registers}, "shared memory": {static + dynamic},'
                f' "grid": {sizes[:3]}, "block": {sizes[3:]}'
            )
            yield self._trace.strings.text(name), details

    def _copy_names(self) -> Iterator[tuple[str, str]]:
        for row in self._rows("memcpy", ("kind", "src_memory", "dst_memory", "bytes")):
            kind, *memory, size = row[2:]
            source, target = (MEMORY_KINDS[_UNKNOWN_MEMORY if m is None else m] for m in memory)
            direction = _COPY_LETTERS[COPY_KINDS[kind]]
            yield f"Memcpy {direction} ({source} -> {target})", _bytes(size, row[1] - row[0])

    def _memset_names(self) -> Iterator[tuple[str, str]]:
        for row in self._rows("memset", ("memory", "bytes")):
            memory = MEMORY_KINDS[_UNKNOWN_MEMORY if row[2] is None else row[2]]
            yield f"Memset ({memory})", _bytes(row[3], row[1] - row[0])

    def _blocks(
        self, work: Iterable[KinetoEvent], launchers: Mapping[int, Launcher]
    ) -> list[KinetoEvent]:
        """Return the time that each block of record_function has on each stream."""
        spans: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        for event in work:
            by = launchers.get(event.correlation, _NOWHERE)
            if by.block:
                key = by.block, event.place, event.track
                start, end, _ = spans.get(key, (event.begin, event.end, 0))
                spans[key] = min(start, event.begin), max(end, event.end), by.thread
        names = self._operators.block_names
        return [
            KinetoEvent(ANNOTATION, names[block], start, end, _CUDA, gpu, stream, thread, block)
            for (block, gpu, stream), (start, end, thread) in spans.items()
        ]


def _bytes(size: int, duration_ns: int) -> str:
    rate = size / duration_ns if duration_ns else 0.0
    return f'"bytes": {size}, "memory bandwidth (GB/s)": {json.dumps(rate)}'


def cuda_indexes(trace: Trace) -> dict[int, int]:
    """Return CUDA's index of each GPU of a recording, by its index there.

    A recording counts all GPUs of the machine, CUDA those that the program sees.
    """
    if "device" not in trace:
        return {}
    columns = trace.columns("device", "gpu_index", "uuid_id")
    known = {
        trace.strings.text(uuid).lower().removeprefix("gpu-"): index
        for index, uuid in zip(*(column.to_list() for column in columns.values()), strict=True)
        if uuid is not None
    }
    found = {}
    for number in range(torch.cuda.device_count()):
        uuid = getattr(torch.cuda.get_device_properties(number), "uuid", None)
        index = known.get(str(uuid).lower().removeprefix("gpu-"))
        if index is not None:
            found[index] = number
    return found


def selected(events: Iterable[KinetoEvent], kinds: Collection[str]) -> list[KinetoEvent]:
    """Return the events of some kinds, and the blocks."""
    return [event for event in events if event.kind == ANNOTATION or event.kind in kinds]
