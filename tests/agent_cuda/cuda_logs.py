"""The CUDA records of raw logs, read in plain Python after ``native/raw/records.toml``."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALL_NAME, NAME, CALL, KERNEL, COPY, FILL, GRAPH, WAIT, EVENT, MEMORY = range(64, 74)
POOL, OVERHEAD, DEVICE, CONTEXT, STREAM, GRAPH_NODE, LOST, BUFFER, CLOCK, COLLECTING = range(74, 84)
CHAIN, MODULE = 84, 85
COUNTER_NAME, COUNTED_KERNEL, COUNTER_VALUE, PASS_CLOCK = 86, 87, 88, 89
DEVICE_ATTRIBUTE = 90
CPU_FAULT, GPU_FAULT = 91, 92
PC_SAMPLE, PC_SAMPLING = 93, 94
PYTHON_CODE, PYTHON_CHAIN = 95, 97
CPU_SAMPLE, SCHED_EVENT = 110, 111
PYTHON_SAMPLE, GIL_SPAN = 120, 121
OS_CALL_NAME, OS_CALL = 130, 131
LIBRARY_CALL = 140
NCCL_OPERATION = 150
NOTE = 19
NOTE_USING, NOTE_UNAVAILABLE, NOTE_OTHER_PROFILER, NOTE_DOUBT, NOTE_KIND_FAILED = range(64, 69)
NOTE_SHARED, NOTE_COUNTERS, NOTE_NO_COUNTERS, NOTE_COUNTERS_DOUBT = range(69, 73)
NOTE_NOT_CHOSEN, NOTE_CLOCKS_LOCKED, NOTE_CLOCKS_UNLOCKED = range(73, 76)
NOTE_SAMPLING, NOTE_NO_SAMPLING, NOTE_SAMPLING_DOUBT = range(76, 79)
NOTE_NO_PYTHON_STACKS = 79
NOTE_NO_LIBRARY_CALLS = 91
NONE = 0xFFFFFFFF

HEADER_BYTES = 4096
COUNTED_KINDS = (
    8,
    10,
    12,
    CALL,
    KERNEL,
    COPY,
    FILL,
    GRAPH,
    COUNTED_KERNEL,
    PC_SAMPLE,
    CPU_SAMPLE,
    OS_CALL,
    LIBRARY_CALL,
    NCCL_OPERATION,
)  # with pushes, starts and marks

HAS_NODE, HAS_CLUSTER, HAS_PEER, HAS_COUNT, IS_MIGRATION = 1, 2, 2, 4, 8
HAS_CHAIN, HAS_PLACE, HAS_EVENT, HAS_PYTHON_CHAIN = 8, 16, 32, 64
NULL_STREAM = 0xFFFFFFFE
IS_RANGE, IS_FAILED, IS_CLOCK_ASKED, HAS_FIXED_CLOCKS = 1, 2, 4, 8


@dataclass(frozen=True)
class Found:
    """One CUDA record: its kind's number, the thread that wrote it and its fields by name."""

    kind: int
    tid: int
    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Return a field."""
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass
class CudaLog:
    """The CUDA records of one log."""

    pid: int
    counted: int = 0
    closed_ns: int = 0
    found: list[Found] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)


def _pair(word: int) -> tuple[int, int]:
    return word & NONE, word >> 32


def _four(word: int) -> tuple[int, int, int, int]:
    a, b, c, d = (word >> shift & 0xFFFF for shift in (0, 16, 32, 48))
    return a, b, c, d


class _Reader:
    def __init__(self, log: CudaLog) -> None:
        self.log = log
        self.names: dict[int, str | None] = {0: None}
        self.call_names: dict[int, str] = {}
        self.chains: dict[int, tuple[int, ...]] = {}
        self.python_chains: dict[int, tuple[int, ...]] = {}
        self.tid = 0

    def read(self, kind: int, flags: int, aux: int, words: list[int], body: bytes) -> None:
        if kind == 2:
            self.tid = words[1]
        elif kind == NOTE:
            self.log.notes.append((aux, _text(body, 8)))
        elif kind == CALL_NAME:
            self.call_names[aux] = _text(body, 8)
        elif kind == NAME:
            self.names[aux] = _text(body, 8)
        elif kind >= 64:
            method = getattr(self, f"_{_METHODS[kind]}")
            rest = list(words)
            fields = method(flags, aux, rest, body)
            assert not rest, f"words that no flag explains, in a record of kind {kind}"
            self.log.found.append(Found(kind, self.tid, fields))

    def _work(self, words: list[int]) -> dict[str, Any]:
        start, end = words.pop(0), words.pop(0)
        device, context = _pair(words.pop(0))
        stream, correlation = _pair(words.pop(0))
        return {
            "start": start,
            "end": end,
            "device": device,
            "context": context,
            "stream": stream,
            "correlation": correlation,
        }

    def _node(self, flags: int, words: list[int]) -> dict[str, Any]:
        node = (words.pop(0), words.pop(0)) if flags & HAS_NODE else None
        return {"node": node}

    def _call(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        start, end = words.pop(0), words.pop(0)
        correlation, status = _pair(words.pop(0))
        chain = words.pop(0) if flags & HAS_CHAIN else None
        place = _pair(words.pop(0)) if flags & HAS_PLACE else None
        event = words.pop(0) if flags & HAS_EVENT else None
        python_chain = words.pop(0) if flags & HAS_PYTHON_CHAIN else None
        assert python_chain is None or python_chain in self.python_chains
        assert chain is None or chain in self.chains, "a chain that is not defined in this log"
        return {
            "domain": aux >> 16,
            "chain": chain,
            "python_chain": python_chain,
            "name": self.call_names[aux],
            "start": start,
            "end": end,
            "correlation": correlation,
            "status": status,
            "flags": flags & ~(HAS_PLACE | HAS_EVENT),
            "place": place,
            "event": event,
        }

    def _chain(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        number, frames = words.pop(0), tuple(words)
        words.clear()
        assert aux == 0
        assert 1 <= len(frames) <= 64
        assert self.chains.setdefault(number, frames) == frames
        return {"number": number, "frames": frames}

    def _python_chain(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        number, frames = words.pop(0), tuple(words)
        words.clear()
        assert aux == 0
        assert 2 <= len(frames) <= 256
        assert self.python_chains.setdefault(number, frames) == frames
        return {"number": number, "frames": frames}

    def _python_code(self, _: int, __: int, words: list[int], body: bytes) -> dict[str, Any]:
        number = words[0]
        words.clear()
        line, form, file, name = struct.unpack_from("4I", body, 16)
        text = body[32 : 16 + int.from_bytes(body[8:16], "little")]
        return {
            "number": number,
            "first_line": line,
            "format": form,
            "file": text[:file].decode(),
            "name": text[file : file + name].decode(),
            "lines": text[file + name :],
        }

    def _module(self, _: int, __: int, words: list[int], body: bytes) -> dict[str, Any]:
        bias, begin, end = words[0], words[2], words[3]
        words.clear()
        build_id, path = body[32:56], body[56 : 16 + int.from_bytes(body[8:16], "little")]
        return {"bias": bias, "begin": begin, "end": end, "build": build_id, "path": path.decode()}

    def _kernel(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        fields = self._work(words)
        grid = words.pop(0)
        *block, registers = _four(words.pop(0))
        static, dynamic = _pair(words.pop(0))
        executed, local = _pair(words.pop(0))
        fields |= {
            "name": self.names[aux],
            "grid": (grid & NONE, grid >> 32 & 0xFFFF, grid >> 48),
            "block": tuple(block),
            "registers": registers,
            "shared": (static, dynamic, executed),
            "local": (local, words.pop(0)),
        }
        fields |= self._node(flags, words)
        fields["cluster"] = _four(words.pop(0)) if flags & HAS_CLUSTER else None
        fields["flags"] = flags & ~(HAS_NODE | HAS_CLUSTER)
        return fields

    def _copy(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        fields = self._work(words)
        fields |= {
            "copy_kind": aux & 0xFF,
            "memories": (aux >> 8 & 0xFF, aux >> 16 & 0xFF),
            "is_async": aux >> 24,
            "bytes": words.pop(0),
        }
        fields |= self._node(flags, words)
        peer = (_pair(words.pop(0)), _pair(words.pop(0))) if flags & HAS_PEER else None
        fields |= {"peer": peer, "count": words.pop(0) if flags & HAS_COUNT else None}
        moved = (words.pop(0), words.pop(0)) if flags & IS_MIGRATION else None
        return fields | {"migration": moved}

    def _fill(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        fields = self._work(words) | {"value": aux, "bytes": words.pop(0)}
        memory, is_async = _pair(words.pop(0))
        return fields | {"memory": memory, "is_async": is_async} | self._node(flags, words)

    def _graph(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        fields = self._work(words) | {"graph": aux}
        return fields | {"last": (words.pop(0), words.pop(0)) if flags & HAS_PEER else None}

    def _wait(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        start, end = words.pop(0), words.pop(0)
        context, stream = _pair(words.pop(0))
        correlation, event = _pair(words.pop(0))
        return {
            "type": aux,
            "start": start,
            "end": end,
            "context": context,
            "stream": stream,
            "correlation": correlation,
            "event": event,
            "sync": words.pop(0),
            "status": words.pop(0),
        }

    def _event(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        context, stream = _pair(words.pop(0))
        correlation, device = _pair(words.pop(0))
        return {
            "event": aux,
            "context": context,
            "stream": stream,
            "correlation": correlation,
            "device": device,
            "sync": words.pop(0),
            "time": words.pop(0) if flags & 1 else None,
        }

    def _memory(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        time = words.pop(0)
        device, context = _pair(words.pop(0))
        stream, correlation = _pair(words.pop(0))
        fields: dict[str, Any] = {
            "operation": aux & 0xFF,
            "memory": aux >> 8 & 0xFF,
            "is_async": aux >> 16 & 0xFF,
            "pool_type": aux >> 24,
            "time": time,
            "device": device,
            "context": context,
            "stream": stream,
            "correlation": correlation,
            "address": words.pop(0),
            "bytes": words.pop(0),
        }
        fields["pool"] = tuple(words.pop(0) for _ in range(4)) if flags & 1 else None
        fields["name"] = self.names[words.pop(0)] if flags & 2 else None
        return fields

    def _pool(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        time = words.pop(0)
        device, correlation = _pair(words.pop(0))
        address, size, used, threshold, keeps = (words.pop(0) for _ in range(5))
        return {
            "operation": aux & 0xFF,
            "type": aux >> 8,
            "time": time,
            "device": device,
            "correlation": correlation,
            "address": address,
            "sizes": (size, used, threshold, keeps),
        }

    def _cpu_fault(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        assert aux == 0
        return {"time": words.pop(0), "address": words.pop(0), "pc": words.pop(0)}

    def _gpu_fault(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        names = ("start", "end", "device", "address", "faults")
        return {"access": aux} | {name: words.pop(0) for name in names}

    def _pc_sample(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        checksum = words.pop(0)
        offset, stall = _pair(words.pop(0))
        return {
            "function": self.names[aux],
            "checksum": checksum,
            "offset": offset,
            "stall": self.names[stall],
            "samples": words.pop(0),
            "not_issued": words.pop(0),
            "device": words.pop(0),
        }

    def _pc_sampling(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        period, left_out = _pair(words.pop(0))
        names = ("total", "dropped", "non_user", "is_full")
        counts = {name: words.pop(0) for name in names}
        return {"device": aux, "period": period, "left_out": left_out, **counts}

    def _overhead(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        start, end = words.pop(0), words.pop(0)
        return {
            "overhead": aux,
            "start": start,
            "end": end,
            "object": _pair(words.pop(0)),
            "correlation": words.pop(0),
        }

    def _device(self, _: int, aux: int, words: list[int], body: bytes) -> dict[str, Any]:
        taken, words[:] = list(words), []
        pci = taken[8]
        return {
            "id": aux,
            "name": self.names[taken[0] & NONE],
            "multiprocessors": taken[0] >> 32,
            "uuid": body[8:24],
            "memory": (taken[3], taken[4]),
            "clock": taken[5],
            "l2_and_warp": _pair(taken[6]),
            "compute": _pair(taken[7]),
            "pci": (pci & NONE, pci >> 32 & 0xFFFF, pci >> 48) if pci != 2**64 - 1 else None,
            "limits": (*_pair(taken[9]), taken[10] & NONE, taken[10] >> 32 & 0xFF),
            "number": (taken[10] >> 40) - 1 if taken[10] >> 40 else None,
        }

    def _context(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        device, null_stream = _pair(words.pop(0))
        parent, is_green = _pair(words.pop(0))
        return {
            "id": aux,
            "device": device,
            "null_stream": null_stream,
            "parent": parent,
            "is_green": is_green,
        }

    def _stream(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        context, priority = _pair(words.pop(0))
        signed = struct.unpack("<i", struct.pack("<I", priority))[0]
        return {"id": aux, "context": context, "priority": signed, "type": words.pop(0)}

    def _graph_node(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        time, node, original, graph = (words.pop(0) for _ in range(4))
        return {"type": aux, "time": time, "node": node, "original": original, "graph": graph}

    def _lost(self, _: int, __: int, words: list[int], ___: bytes) -> dict[str, Any]:
        return {"time": words.pop(0), "records": words.pop(0)}

    def _buffer(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        return {"time": words.pop(0), "records": words.pop(0), "not_taken": aux}

    def _clock(self, _: int, __: int, words: list[int], ___: bytes) -> dict[str, Any]:
        return {"theirs": words.pop(0), "monotonic": words.pop(0)}

    def _collecting(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        return {"time": words.pop(0), "collects": aux}

    def _counter_name(self, _: int, aux: int, words: list[int], body: bytes) -> dict[str, Any]:
        words.clear()
        metric, _space, unit = _text(body, 8).partition(" ")
        return {"metric": aux, "name": metric, "unit": unit}

    def _device_attribute(self, _: int, aux: int, words: list[int], body: bytes) -> dict[str, Any]:
        (value,) = struct.unpack("<q", struct.pack("<Q", words[0]))
        words.clear()
        return {"device": aux, "name": _text(body, 8), "value": value}

    def _counted(self, flags: int, aux: int, words: list[int], _: bytes) -> dict[str, Any]:
        fields = self._work(words)
        launch, seen = _pair(words.pop(0))
        grid = words.pop(0)
        *block, registers = _four(words.pop(0))
        static, dynamic = _pair(words.pop(0))
        local, passes = _pair(words.pop(0))
        return fields | {
            "name": self.names[aux],
            "launch": launch,
            "seen": seen,
            "grid": (grid & NONE, grid >> 32 & 0xFFFF, grid >> 48),
            "block": tuple(block),
            "registers": registers,
            "shared": (static, dynamic),
            "local": local,
            "passes": passes,
            "kernels": words.pop(0) if flags & IS_RANGE else None,
            "is_failed": flags & IS_FAILED != 0,
            "fixed_clocks": flags & HAS_FIXED_CLOCKS != 0 if flags & IS_CLOCK_ASKED else None,
        }

    def _counter_value(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        launch, value = words.pop(0), words.pop(0)
        (real,) = struct.unpack("<d", struct.pack("<Q", value))
        return {"metric": aux, "launch": launch, "value": real}

    def _pass_clock(self, _: int, aux: int, words: list[int], __: bytes) -> dict[str, Any]:
        return {"launch": aux, "mhz": _pair(words.pop(0))}


_METHODS = {
    COUNTER_NAME: "counter_name",
    COUNTED_KERNEL: "counted",
    DEVICE_ATTRIBUTE: "device_attribute",
    COUNTER_VALUE: "counter_value",
    PASS_CLOCK: "pass_clock",
    CHAIN: "chain",
    PYTHON_CHAIN: "python_chain",
    PYTHON_CODE: "python_code",
    MODULE: "module",
    CALL: "call",
    KERNEL: "kernel",
    COPY: "copy",
    FILL: "fill",
    GRAPH: "graph",
    WAIT: "wait",
    EVENT: "event",
    MEMORY: "memory",
    POOL: "pool",
    CPU_FAULT: "cpu_fault",
    GPU_FAULT: "gpu_fault",
    PC_SAMPLE: "pc_sample",
    PC_SAMPLING: "pc_sampling",
    OVERHEAD: "overhead",
    DEVICE: "device",
    CONTEXT: "context",
    STREAM: "stream",
    GRAPH_NODE: "graph_node",
    LOST: "lost",
    BUFFER: "buffer",
    CLOCK: "clock",
    COLLECTING: "collecting",
}


def _text(body: bytes, at: int) -> str:
    (size,) = struct.unpack_from("<Q", body, at)
    assert 0 <= len(body) - at - 8 - size < 8
    return body[at + 8 : at + 8 + size].decode()


def _records(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    at = HEADER_BYTES
    while at + 8 <= len(data):
        (header,) = struct.unpack_from("<Q", data, at)
        size = header >> 48
        if header >> 32 & 0xFF == 0:
            return
        assert size > 0
        yield (
            header >> 32 & 0xFF,
            header >> 40 & 0xFF,
            header & NONE,
            data[at + 8 : at + size * 8],
        )
        at += size * 8


def read_log(path: Path) -> CudaLog:
    """Read the CUDA records of one log; its count of records must be right."""
    data = path.read_bytes()
    (pid,) = struct.unpack_from("<I", data, 16)
    (counted,) = struct.unpack_from("<Q", data, 64)
    (closed_ns,) = struct.unpack_from("<q", data, 88)
    log = CudaLog(pid, counted=counted, closed_ns=closed_ns)
    reader = _Reader(log)
    events = 0
    for kind, flags, aux, body in _records(data):
        events += kind in COUNTED_KINDS
        words = list(struct.unpack(f"<{len(body) // 8}Q", body))
        reader.read(kind, flags, aux, words, body)
    assert counted == events
    return log


def read(folder: Path) -> list[CudaLog]:
    """Read the logs of a session."""
    return [read_log(path) for path in sorted(folder.glob("*.wlraw"))]


def found(folder: Path, kind: int) -> list[Found]:
    """Return the records of one kind, of all logs."""
    return [one for log in read(folder) for one in log.found if one.kind == kind]


def notes(folder: Path) -> list[tuple[int, str]]:
    """Return the notes about CUDA, of all logs."""
    return [note for log in read(folder) for note in log.notes if note[0] >= NOTE_USING]


def calls(folder: Path) -> Counter[str]:
    """Return how often each call was recorded."""
    return Counter(one.name for one in found(folder, CALL))
