"""A small program with samples of two threads, launches with backtraces and OS calls, by hand.

Stacks are paths of frames, the outermost first: ``main > train > decode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpline.trace import MemorySource, Trace, TraceMeta

MS = 1_000_000
NATIVE, PYTHON = 1, 3
RUNNING, BLOCKED = 1, 2
MAIN, WORKER = 0, 1
Rows = dict[str, list[Any]]

# name -> symbol, module, line, kind, whether it has no symbol
FRAMES: dict[str, tuple[str, str, int | None, int, bool]] = {
    "start": ("_start", "/usr/bin/python3", None, NATIVE, False),
    "train": ("train", "/app/train.py", 9, PYTHON, False),
    "train:12": ("train", "/app/train.py", 12, PYTHON, False),
    "decode": ("decode", "/app/data;set.py", 41, PYTHON, False),
    "jpeg": ("jpeg_read", "/usr/lib/libjpeg.so.8", None, NATIVE, False),
    "fib": ("fib", "/app/fib.py", 3, PYTHON, False),
    "unknown": ("0x7f00", "/usr/lib/libc.so.6", None, NATIVE, True),
    "unknown2": ("0x7f10", "/usr/lib/libc.so.6", None, NATIVE, True),
}
TRAIN, DECODE = ("start", "train"), ("start", "train", "decode", "jpeg")
LAUNCH = ("start", "train:12", "unknown")
FIB = ("fib", "fib", "fib")
# thread, time in ms, weight in ms, stack
CPU_SAMPLES = (
    (MAIN, 1, 1, DECODE),
    (WORKER, 1, 2, FIB),
    (MAIN, 2, 1, DECODE),
    (MAIN, 3, 1, (*TRAIN, "unknown")),
    (MAIN, 4, 1, (*TRAIN, "unknown2")),
    (WORKER, 4, 2, ("fib", "fib")),
    (MAIN, 5, 1, None),
)
PYTHON_SAMPLES = ((MAIN, 1, 4, TRAIN), (WORKER, 2, 6, FIB))
# start and end in ms, name, thread, stack; the second is inside of the first
OS_CALLS = (
    (10, 14, "fread", MAIN, DECODE),
    (11, 13, "read", MAIN, DECODE),
    (12, 19, "poll", WORKER, FIB),
)
# start and end of the kernel in ms, its name, stack of the launch
KERNELS = ((20, 26, "gemm", LAUNCH), (26, 27, "relu", LAUNCH), (27, 30, "copy", None))


def trace() -> Trace:
    """Return the whole recording."""
    return Trace(MemorySource(tables(), TraceMeta((Path("run.warpline"),), "hand-made")))


def tables() -> dict[str, Rows]:
    """Return its tables."""
    stacks = _Stacks()
    parts: dict[str, Rows] = {
        "process": {"pid": [7], "name": ["python3"]},
        "thread": {"process_id": [0, 0], "tid": [7, 8], "name": ["python3", "pt_data;worker"]},
        "device": {"gpu_index": [0], "name": ["H200"]},
        "context": {"process_id": [0], "device_id": [0], "native_id": [1]},
        "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
        "cpu_sample": _samples(stacks, CPU_SAMPLES)
        | {"cycles": [1] * len(CPU_SAMPLES), "state": [RUNNING] * len(CPU_SAMPLES)},
        "python_sample": _samples(stacks, PYTHON_SAMPLES),
        "os_call": {
            "start_ns": [MS * row[0] for row in OS_CALLS],
            "end_ns": [MS * row[1] for row in OS_CALLS],
            "process_id": [0] * len(OS_CALLS),
            "thread_id": [row[3] for row in OS_CALLS],
            "name": [row[2] for row in OS_CALLS],
            "return_value": [0] * len(OS_CALLS),
            "stack_id": [stacks.row(row[4]) for row in OS_CALLS],
        },
        "kernel": {
            "start_ns": [MS * row[0] for row in KERNELS],
            "end_ns": [MS * row[1] for row in KERNELS],
            **dict.fromkeys(("device_id", "context_id", "stream_id"), [0] * len(KERNELS)),
            "process_id": [0] * len(KERNELS),
            "correlation_id": list(range(len(KERNELS))),
            **{key: [row[2] for row in KERNELS] for key in ("name", "short_name")},
        },
        "api_call": {
            "start_ns": [MS * row[0] - 9 for row in KERNELS],
            "end_ns": [MS * row[0] - 5 for row in KERNELS],
            "process_id": [0] * len(KERNELS),
            "thread_id": [MAIN] * len(KERNELS),
            "correlation_id": list(range(len(KERNELS))),
            "name": ["cudaLaunchKernel"] * len(KERNELS),
            "return_value": [0] * len(KERNELS),
            "stack_id": [stacks.row(row[3]) for row in KERNELS],
        },
        # The main thread stops while it decodes, for 3 ms.
        "sched_event": {
            "time_ns": [0, 5 * MS, 8 * MS, 9 * MS],
            "thread_id": [MAIN] * 4,
            "cpu": [0] * 4,
            "is_sched_in": [True, False, True, False],
            "state": [RUNNING, BLOCKED, RUNNING, BLOCKED],
            "stack_id": [None, stacks.row(DECODE), None, stacks.row(TRAIN)],
        },
        "range": {
            "start_ns": [MS],
            "end_ns": [6 * MS],
            "process_id": [0],
            "thread_id": [MAIN],
            "name": ["step"],
        },
    }
    return parts | stacks.tables()


def _samples(stacks: _Stacks, samples: Sequence[Any]) -> Rows:
    return {
        "time_ns": [MS * time for _, time, _, _ in samples],
        "thread_id": [thread for thread, *_ in samples],
        "period_ns": [MS * weight for _, _, weight, _ in samples],
        "stack_id": [stacks.row(stack) for *_, stack in samples],
    }


class _Stacks:
    """The tables stack and frame."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], int] = {}

    def row(self, path: tuple[str, ...] | None) -> int | None:
        if path is None:
            return None
        for length in range(1, len(path) + 1):
            self._rows.setdefault(path[:length], len(self._rows))
        return self._rows[path]

    def tables(self) -> dict[str, Rows]:
        names = [*FRAMES]
        columns = zip(*FRAMES.values(), strict=True)
        fields = ("symbol", "module", "line", "kind", "is_unresolved")
        return {
            "frame": dict(zip(fields, map(list, columns), strict=True)),
            "stack": {
                "parent_id": [self._rows.get(path[:-1]) for path in self._rows],
                "frame_id": [names.index(path[-1]) for path in self._rows],
                "depth": [len(path) - 1 for path in self._rows],
            },
        }
