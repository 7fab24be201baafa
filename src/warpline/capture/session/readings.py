"""Files of readings in a session: the state of GPUs and of the machine over time.

A file has one table: a line of JSON, then rows of 8 bytes per value. A row is appended by one
write, so a process that is killed loses at most the row that it was writing. The line has a
multiple of 8 bytes, so that columns can be taken from the mapped rows.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.session.holes import data_from, give_back

ENDING = ".readings"
UNKNOWN = -(2**63)  # a value that could not be read

_VERSION = 1
_WORD = 8
_MOST_HEAD = 1 << 20
_MARGIN = 2  # periods: readings before the kept time are used, to know what changed since then

# Table -> columns of its file. What is a real number in the recording is whole here, in the smaller
# unit that the name says. Rows of GPUs begin with a number in the line's list of them, those of
# processes with a pid, 0 for the machine.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gpu_health": (
        "gpu",
        "start_ns",
        "end_ns",
        "is_recording",
        "sm_clock_hz",
        "memory_clock_hz",
        "clock_limits",
        "power_limited_ns",
        "thermal_limited_ns",
        "power_mw",
        "energy_mj",
        "temperature_c",
        "memory_temperature_c",
        "used_memory_bytes",
        "other_memory_bytes",
        "other_processes",
        "busy_percent",
        "pcie_generation",
        "pcie_width",
        "nvlinks",
        "nvlink_sent_bytes",
        "nvlink_received_bytes",
        "ecc_corrected",
        "ecc_uncorrected",
    ),
    "gpu_error": ("gpu", "time_ns", "xid"),
    "host_health": (
        "pid",
        "start_ns",
        "end_ns",
        "is_recording",
        "cpu_ns",
        "cpu_clock_hz",
        "cores",
        "usable_millicores",
        "throttled_ns",
        "memory_bytes",
        "free_memory_bytes",
        "minor_faults",
        "major_faults",
        "read_bytes",
        "written_bytes",
        "received_bytes",
        "sent_bytes",
        "rdma_received_bytes",
        "rdma_sent_bytes",
    ),
}


class IsRecording(enum.IntEnum):
    """Whether agents recorded at the time of a reading: the column ``is_recording``."""

    NO = 0
    YES = 1
    WAS = 2  # not now, but at some time since the reading before


class ReadingsError(Exception):
    """A file of readings is damaged."""


class ReadingsWriter:
    """Appends rows to a file; it stops at the first error, such as a full disk.

    Args:
        descriptor: The file, empty and open for appending.
        table: Its table.
        facts: Further facts for its first line.
    """

    def __init__(self, descriptor: int, table: str, facts: Mapping[str, Any]) -> None:
        self._descriptor = descriptor
        self._columns = COLUMNS[table]
        self._size = 0
        self._is_open = True
        head = {"version": _VERSION, "columns": self._columns, **facts}
        text = json.dumps(head).encode("ascii")
        self._write(text + b" " * (-(len(text) + 1) % _WORD) + b"\n")

    def write(self, rows: Iterable[Mapping[str, int | None]]) -> None:
        """Append rows: values by column; those that are missing or None are unknown."""
        words = [UNKNOWN if row.get(n) is None else row[n] for row in rows for n in self._columns]
        self._write(struct.pack(f"={len(words)}q", *words))

    def _write(self, data: bytes) -> None:
        if not self._is_open or not data:
            return
        try:
            written = os.write(self._descriptor, data)
        except OSError:
            written = 0
        self._is_open = written == len(data)
        self._size += written


@dataclass(frozen=True)
class Readings:
    """The rows of a file.

    Attributes:
        facts: Its first line.
        rows: Their number.
        columns: Values by column; `UNKNOWN` for those that could not be read.
        is_cut: Whether the last row is incomplete.
    """

    facts: Mapping[str, Any]
    rows: int
    columns: Mapping[str, Sequence[int]]
    is_cut: bool


def path_of(folder: Path, table: str) -> Path:
    """Return the file of a table in a session's directory."""
    return folder / f"{table}{ENDING}"


def trim_readings(folder: Path, from_ns: int) -> None:
    """Remove rows that were read long before a time, and give their space back.

    Rows that are needed to know what was used within the kept time stay; see `_MARGIN`.

    Args:
        folder: The session's directory.
        from_ns: The time, monotonic.
    """
    for table in COLUMNS:
        with contextlib.suppress(OSError):  # it is gone, or was never made
            _trim(folder, table, from_ns)


def _trim(folder: Path, table: str, from_ns: int) -> None:
    with path_of(folder, table).open("r+b", buffering=0) as file:
        layout = _layout_of(os.pread(file.fileno(), _MOST_HEAD, 0), table)
        if layout is None:
            return
        facts, names, start = layout
        width = _WORD * len(names)
        time = names.index("time_ns" if "time_ns" in COLUMNS[table] else "start_ns")
        oldest_ns = from_ns - _margin_ns(facts)
        first = _first_row(file.fileno(), start, width)
        for row in range(first, (os.fstat(file.fileno()).st_size - start) // width):
            read = os.pread(file.fileno(), _WORD, start + row * width + time * _WORD)
            if int.from_bytes(read, sys.byteorder, signed=True) >= oldest_ns:
                give_back(file.fileno(), start, start + row * width)
                return


def _margin_ns(facts: Mapping[str, Any]) -> int:
    periods = [facts.get(name) for name in ("period_ns", "meters_period_ns")]
    return _MARGIN * max((each for each in periods if type(each) is int), default=0)


def _first_row(descriptor: int, start: int, width: int) -> int:
    """Return the first row that is whole behind the hole of a trimmed file; 0 without one."""
    return -(-(data_from(descriptor, start) - start) // width)


def _layout_of(data: bytes, table: str) -> tuple[dict[str, Any], list[str], int] | None:
    """Return the facts of a file, its columns, and where its rows begin; None if it is damaged."""
    head, line_end, _ = data[:_MOST_HEAD].partition(b"\n")
    try:
        facts = json.loads(head)
        names = facts["columns"]
        is_right = facts["version"] == _VERSION and isinstance(names, list) and bool(line_end)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    columns = [str(name) for name in names] if is_right else []
    return (facts, columns, len(head) + 1) if {*COLUMNS[table]} <= {*columns} else None


def read_readings(folder: Path, table: str) -> Readings | None:
    """Return the rows of a file; None if there is no file, or nothing was written.

    Raises:
        ReadingsError: The file cannot be read, or is not of this table.
    """
    path = path_of(folder, table)
    if not path.is_file():
        return None
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size  # first: the file may be written just now
            if not size:
                return None
            layout = _layout_of(os.pread(file.fileno(), _MOST_HEAD, 0), table)
            if layout is None:
                raise ReadingsError("its first line is damaged")
            facts, names, start = layout
            width = _WORD * len(names)
            file.seek(start + _first_row(file.fileno(), start, width) * width)
            data = file.read()
    except OSError as error:
        raise ReadingsError(error.strerror) from error
    rows = len(data) // width
    words = memoryview(data)[: rows * width].cast("q")
    columns = {name: words[place :: len(names)] for place, name in enumerate(names)}
    return Readings(facts, rows, columns, is_cut=rows * width != len(data))
