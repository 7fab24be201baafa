"""What the page says in numbers, computed from exports of Nsight Systems by plain SQL and loops.

Nothing here uses Warpline. A recording has one GPU and the ranges ``step_0``, ``step_1``...
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

COLLECTIVE = "ncclDevKernel"
_DIRECTIONS = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device"}
_UNITS = {
    "": 1,
    "%": 0.01,
    "ns": 1,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}

_OPERATIONS = """
    SELECT k.start, k.end, s.value, 'kernel', k.correlationId, 0, 0
    FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName
    UNION ALL SELECT start, end, '', 'memcpy', correlationId, bytes, copyKind
    FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL SELECT start, end, '', 'memset', correlationId, 0, 0
    FROM CUPTI_ACTIVITY_KIND_MEMSET ORDER BY 1, 2"""
_TABLES = {  # of which some recordings have none
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, correlationId, bytes, copyKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, correlationId",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start, memKind, memoryOperationType, bytes",
    "ENUM_CUDA_MEM_KIND": "id, label",
}
_STEPS = """
    SELECT coalesce(n.text, s.value), n.start, n.end FROM NVTX_EVENTS n
    LEFT JOIN StringIds s ON s.id = n.textId
    WHERE coalesce(n.text, s.value) GLOB 'step_[0-9]*' ORDER BY n.start"""

Span = tuple[int, int]


class Operation(NamedTuple):
    """An operation of the GPU."""

    start: int
    end: int
    name: str
    kind: str
    correlation: int
    size: int
    copy_kind: int

    @property
    def direction(self) -> str:
        """Direction of a copy."""
        return _DIRECTIONS[self.copy_kind]


class Step(NamedTuple):
    """A step on the GPU: from its first kernel to the first of the next step.

    A copy before that can be for a later step.
    """

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Plain:
    """A recording.

    Attributes:
        operations: Of the GPU.
        launches: Start of the launching call by correlation id.
        calls: Start and end of each CUDA API call.
        steps: All but the last, which has no end.
        memory_peaks: Most bytes in use by kind of memory.
    """

    operations: list[Operation]
    launches: dict[int, int]
    calls: list[Span]
    steps: list[Step]
    memory_peaks: dict[str, int]

    @property
    def analyzed(self) -> Span:
        """The time of the steps."""
        return self.steps[0].start, self.steps[-1].end

    @property
    def step_ns(self) -> list[int]:
        """Length of each step."""
        return [step.end - step.start for step in self.steps]

    @property
    def median_ns(self) -> float:
        """The median step."""
        return median(self.step_ns)

    def inside(self, span: Span) -> list[Operation]:
        """Return the operations that run in a time."""
        return [one for one in self.operations if one.start < span[1] and one.end > span[0]]

    def busy_ns(self, span: Span) -> int:
        """Return the time in which operations run."""
        return covered(self.operations, span)

    def exposed_ns(self, span: Span, kind: str) -> int:
        """Return the time of copies or collectives in which nothing is computed."""
        compute = [one for one in self.operations if kind_of(one) == "compute"]
        own = [one for one in self.operations if kind_of(one) == kind]
        return covered([*own, *compute], span) - covered(compute, span)

    def in_kind_ns(self, span: Span, kind: str) -> int:
        """Return the time in which copies or collectives run."""
        return covered([one for one in self.operations if kind_of(one) == kind], span)


def kind_of(operation: Operation) -> str:
    """Return "collective", "compute", "copy", or "memset"."""
    if operation.kind != "kernel":
        return "copy" if operation.kind == "memcpy" else "memset"
    return "collective" if operation.name.startswith(COLLECTIVE) else "compute"


def covered(operations: Iterable[Operation], span: Span) -> int:
    """Return the length of the union of operations in a time."""
    total, until = 0, span[0]
    for one in sorted(operations):
        total += max(0, min(one.end, span[1]) - max(one.start, until))
        until = max(until, min(one.end, span[1]))
    return total


def read(path: Path) -> Plain:
    """Return a recording."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("ATTACH ? AS file", (f"{path}",))
        present = {name for (name,) in database.execute("SELECT name FROM file.sqlite_master")}
        for table, columns in _TABLES.items():
            if table not in present:
                database.execute(f"CREATE TABLE {table} ({columns})")
        operations = [Operation(*row) for row in database.execute(_OPERATIONS)]
        calls = database.execute(
            "SELECT start, end, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ).fetchall()
        ranges = database.execute(_STEPS).fetchall()
        peaks = _memory_peaks(database)
    launches: dict[int, int] = {}
    for start, _, correlation in calls:  # calls of the runtime contain those of the driver
        launches[correlation] = min(start, launches.get(correlation, start))
    first = [
        min(
            one.start
            for one in operations
            if one.kind == "kernel" and low <= launches.get(one.correlation, low - 1) <= high
        )
        for _, low, high in ranges
    ]
    names = [name for name, _, _ in ranges]
    steps = [Step(*one) for one in zip(names, first, first[1:], strict=False)]
    return Plain(operations, launches, [(low, high) for low, high, _ in calls], steps, peaks)


def _memory_peaks(database: sqlite3.Connection) -> dict[str, int]:
    now: dict[str, int] = {}
    peaks: dict[str, int] = {}
    for kind, operation, size in database.execute(
        "SELECT label, memoryOperationType, bytes FROM CUDA_GPU_MEMORY_USAGE_EVENTS e"
        " JOIN ENUM_CUDA_MEM_KIND k ON k.id = e.memKind ORDER BY start, e.rowid"
    ):
        now[kind] = now.get(kind, 0) + (size if operation == 0 else -size)
        peaks[kind] = max(peaks.get(kind, 0), now[kind])
    return peaks


def nanoseconds(text: str) -> float:
    """Return a time on the screen in ns; 0 for a dash."""
    number, _, unit = text.partition(" ")
    return float(number) * _UNITS[unit] if unit else 0


def says(text: str, value: float) -> bool:
    """Return whether a number on the screen is the value, rounded to its last digit.

    Args:
        text: A number with its unit, such as "41.3 us", "1,788", or "45.7%".
        value: In ns, bytes, or as a ratio.
    """
    found = re.fullmatch(r"(-?[\d,]+)(?:\.(\d+))? ?([a-zA-Z%]*)", text.strip())
    assert found, text
    whole, fraction, unit = found.groups()
    shown = float(f"{whole.replace(',', '')}.{fraction or 0}")
    digit = 10.0 ** -len(fraction or "")
    return abs(shown - value / _UNITS[unit]) <= 0.5001 * digit
