"""Small programs of calls and device work, and their idle time. Times are in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpline.derived.breakdown.segments import device_segments
from warpline.derived.time_parts import BUSY, TimePart
from warpline.trace import MemorySource, Trace, TraceMeta

US = 1_000
Row = Mapping[str, Any]
Idle = list[tuple[float, float, str]]
PAGEABLE, PINNED, DEVICE = 0, 1, 2
TO_DEVICE, TO_HOST = 1, 2

# Thread 0 and 1 belong to the first process, thread 2 to the second.
PROCESS_OF = [0, 0, 1]

DIMENSIONS = {
    "process": {"pid": [1, 2]},
    "thread": {"process_id": PROCESS_OF, "tid": [10, 11, 20]},
    "device": {"gpu_index": [0, 1]},
    "context": {"process_id": [0, 1], "device_id": [0, 0], "native_id": [1, 1]},
    "stream": {"process_id": [0, 0, 1], "context_id": [0, 0, 1], "native_id": [7, 8, 7]},
}

DEFAULT_STREAM: Row = {"device_id": 0, "stream_id": 0, "process_id": 0, "context_id": 0}


class Program:
    """What some threads called and a device ran, from which a trace is made."""

    def __init__(self, **meta: Any) -> None:
        self.tables: dict[str, list[Row]] = {}
        self.meta = meta
        self.calls = 0

    def add(self, table: str, start: float, end: float, **more: Any) -> None:
        """Add a row with its times."""
        row = {"start_ns": int(start * US), "end_ns": int(end * US), **more}
        self.tables.setdefault(table, []).append(row)

    def call(self, start: float, end: float, name: str, thread: int = 0) -> int:
        """Add a call, and return its correlation."""
        self.calls += 1
        whose = {"thread_id": thread, "process_id": PROCESS_OF[thread]}
        self.add("api_call", start, end, name=name, correlation_id=self.calls, **whose)
        return self.calls

    def kernel(self, start: float, end: float, call: int | None, **more: Any) -> None:
        """Add a kernel that a call launched."""
        name = {"name": "k", "short_name": "k"}
        self.add("kernel", start, end, correlation_id=call, **{**DEFAULT_STREAM, **name, **more})

    def launch(self, at: float, start: float, end: float, thread: int = 0, **more: Any) -> None:
        """Add a kernel and its launch of 4 us."""
        call = self.call(at, at + 4, "cudaLaunchKernel_v7000", thread)
        self.kernel(start, end, call, process_id=PROCESS_OF[thread], **more)

    def copy(self, start: float, end: float, call: int, **more: Any) -> None:
        """Add a copy that a call made."""
        self.add("memcpy", start, end, correlation_id=call, **{**DEFAULT_STREAM, **more})

    def trace(self) -> Trace:
        """Return the trace; its columns are those of the first row of each table."""
        tables: dict[str, Any] = dict(DIMENSIONS)
        for name, rows in self.tables.items():
            tables[name] = {key: [row[key] for row in rows] for key in rows[0]}
        return Trace(MemorySource(tables, TraceMeta((), "test", **self.meta)))

    def idle(self, device: int = 0) -> Idle:
        """Return the idle time between the first operation and the last one."""
        found = device_segments(self.trace())
        rows = zip(found.start_ns.tolist(), found.end_ns.tolist(), found.part.tolist(), strict=True)
        of_device = [row for row, each in zip(rows, found.device, strict=True) if each == device]
        return [
            (start / US, end / US, TimePart.at(part).label)
            for start, end, part in of_device
            if part >= len(BUSY) and TimePart.at(part).label != "tail"
        ]


def started(**meta: Any) -> Program:
    """Return a program whose first kernel runs until 100."""
    program = Program(**meta)
    program.launch(0, 7, 100)
    return program
