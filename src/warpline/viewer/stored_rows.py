"""The rows of a timeline in a file that nobody else sees, mapped into memory.

A recording may have more events than memory has room for, and the system drops and reads again
what lies in a file. The file has no name: it is gone when this process is, however it ends.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpline.errors import InputError
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.units import format_bytes
from warpline.viewer.range_max import RangeMax
from warpline.viewer.name_sums import NameSums, name_sums
from warpline.viewer.rows import Events, Link, Row

_PIECE = 2**20
_NO_END = -1

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True)
class StoredRow:
    """The events of a row, in time; arrays are mapped and of shape (n,) if nothing else is said.

    Attributes:
        row: What it is; its own events are empty.
        start_ns: When each began.
        before_ns: Time that the events before each take, shape (n + 1,).
        busy_ns: The same of busy ones: of a row of states only, otherwise `before_ns`.
        name: Places in the names.
        number: Rows of the tables that the events are of; None for events that are rows of none.
        table: Places in `EVENT_TABLES` where a row mixes tables, else None.
        links: By name: row of the table at the other end, -1 for none.
        value: Of a counter.
        area: Of a counter: value times ns before each sample, shape (n,).
        names: How many names there are.
        origin_ns: Where the bins of all rows begin.
    """

    row: Row
    start_ns: I64
    before_ns: I64
    busy_ns: I64
    name: AnyArray
    number: AnyArray | None = None
    table: AnyArray | None = None
    links: Mapping[str, AnyArray] = field(default_factory=dict)
    value: F64 | None = None
    area: F64 | None = None
    names: int = 0
    origin_ns: int = 0

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_counter(self) -> bool:
        """Whether the row holds samples of a value."""
        return self.value is not None

    def end_ns(self, event: int) -> int:
        """Return when an event ended."""
        return int(self.start_ns[event] + self.before_ns[event + 1] - self.before_ns[event])

    def touching(self, start_ns: float, end_ns: float) -> tuple[int, int]:
        """Return the events ``[first, last)`` that reach into a span or begin in it."""
        first = self.begun_before(start_ns)
        if first > 0 and self.end_ns(first - 1) > start_ns:
            first -= 1
        return first, max(first, self.begun_before(end_ns))

    def begun_before(self, time_ns: float) -> int:
        """Return how many events began before a time, which may lie between two nanoseconds."""
        return int(np.searchsorted(self.start_ns, np.int64(-(-time_ns // 1))))

    def begun_by(self, time_ns: float) -> int:
        """Return how many events began by a time."""
        return int(np.searchsorted(self.start_ns, np.int64(time_ns // 1), side="right"))

    def busy_before(self, time_ns: float) -> float:
        """Return the busy time before a time."""
        event = self.begun_before(time_ns) - 1
        if event < 0:
            return 0
        low, high = int(self.busy_ns[event]), int(self.busy_ns[event + 1])
        return low + min(high - low, time_ns - int(self.start_ns[event]))

    def events(self, first: int, last: int) -> Events:
        """Return some of the events, read into memory."""
        own = slice(first, last)
        start = np.array(self.start_ns[own])
        links = {
            name: Link(np.maximum(ends[own], 0).astype(np.int64), ends[own] >= 0)
            for name, ends in self.links.items()
        }
        return Events(
            start,
            start + np.diff(self.before_ns[first : last + 1]),
            self.name[own].astype(np.int64),
            None if self.number is None else self.number[own].astype(np.int64),
            None if self.table is None else self.table[own].astype(np.int64),
            links,
            None if self.value is None else np.array(self.value[own]),
        )

    @cached_property
    def longest(self) -> RangeMax:
        """The longest busy event of each bin; of a counter, the highest value."""
        if self.value is not None:
            value = self.value
            # Values may be negative, and less than nothing means not to be found.
            lowest = float(np.min(value, initial=0.0))
            return RangeMax(self.start_ns, self.origin_ns, lambda rows: value[rows] - lowest)
        return RangeMax(self.start_ns, self.origin_ns, self._busy_lengths)

    @cached_property
    def longest_idle(self) -> RangeMax | None:
        """The longest idle event of each bin; None where no event is idle."""
        if self.busy_ns is self.before_ns:
            return None
        return RangeMax(self.start_ns, self.origin_ns, self._idle_lengths)

    def lengths(self, events: I64) -> I64:
        """Return how long some events took."""
        found: I64 = self.before_ns[events + 1] - self.before_ns[events]
        return found

    def idle(self, events: I64) -> BoolArray:
        """Return which of some events are idle time: those that have a length, none of it busy."""
        if self.busy_ns is self.before_ns:
            return np.zeros(len(events), np.bool_)
        is_busy = self.busy_ns[events + 1] > self.busy_ns[events]
        found: BoolArray = ~is_busy & (self.lengths(events) > 0)
        return found

    def _busy_lengths(self, events: I64) -> I64:
        return np.where(self.idle(events), -1, self.lengths(events))

    def _idle_lengths(self, events: I64) -> I64:
        return np.where(self.idle(events), self.lengths(events), -1)

    @cached_property
    def sums(self) -> NameSums | None:
        """Sums by name."""
        return name_sums(self.name, np.diff(self.before_ns), self.names)

    def find(self, table: int, number: int) -> int | None:
        """Return the first event that is this row of a table."""
        own = self.row_table if self.table is None else None
        if self.number is None or (own is not None and own != table):
            return None
        events, ascending = self._by_number(table)
        place = int(np.searchsorted(ascending, number)) if len(ascending) else 0
        if place == len(ascending) or ascending[place] != number:
            return None
        return place if events is None else int(events[place])

    @cached_property
    def row_table(self) -> int | None:
        """The place in `EVENT_TABLES` of the one table that all events are of."""
        from warpline.viewer.attributes import EVENT_TABLES  # noqa: PLC0415 - a circle otherwise

        return None if self.row.table is None else EVENT_TABLES.index(self.row.table)

    def _by_number(self, table: int) -> tuple[I64 | None, AnyArray]:
        """Return the events of a table by their rows in it, and these rows; None for all."""
        known = self._orders.get(table)
        if known is None:
            assert self.number is not None
            events = None if self.table is None else np.flatnonzero(self.table == table)
            numbers = self.number if events is None else self.number[events]
            known = _ascending(events, numbers)
            self._orders[table] = known
        return known

    def pointing_at(self, link: str, number: int, most: int) -> list[int]:
        """Return the events whose link leads to a row, at most so many, in time."""
        ends = self.links.get(link)
        if ends is None:
            return []
        known = self._orders.get(link)
        if known is None:
            events = np.flatnonzero(ends >= 0)
            known = _ascending(events, ends[events])
            self._orders[link] = known
        events, ascending = known
        assert events is not None
        low, high = np.searchsorted(ascending, [number, number + 1]).tolist()
        return sorted(int(event) for event in events[low : min(high, low + most)])

    @cached_property
    def _orders(self) -> dict[int | str, tuple[I64 | None, AnyArray]]:
        return {}


def _ascending(events: I64 | None, numbers: AnyArray) -> tuple[I64 | None, AnyArray]:
    """Return events and numbers by number, then by event."""
    if bool(np.all(numbers[1:] >= numbers[:-1])):
        return events, numbers
    order = np.argsort(numbers, kind="stable")
    return (order if events is None else events[order]), numbers[order]


class RowStore:
    """Takes rows one by one and gives them back mapped."""

    def __init__(self) -> None:
        """Open the file; InputError if there is no place for it."""
        self._rows: list[tuple[Row, dict[str, tuple[str, int, int]]]] = []
        self._size = 0
        self._file: IO[bytes] = _private_file()

    def add(self, row: Row, idle_names: BoolArray) -> None:
        """Take a row.

        Args:
            row: With its events.
            idle_names: Which names are idle time, shape (names,).

        Raises:
            InputError: There is no room for the events.
        """
        events = row.events
        columns: dict[str, AnyArray] = {}
        if len(events):
            columns = _columns(row, idle_names)
        try:
            described = {name: self._write(values) for name, values in columns.items()}
        except OSError as error:
            self._file.close()
            raise _no_room(error, self._size) from None
        self._rows.append((replace(row, events=Events()), described))

    def _write(self, values: AnyArray) -> tuple[str, int, int]:
        self._file.write(bytes(-self._size % 8))
        begin = self._size + -self._size % 8
        for piece in range(0, len(values), _PIECE):
            self._file.write(np.ascontiguousarray(values[piece : piece + _PIECE]).data)
        self._size = begin + values.nbytes
        return values.dtype.str, begin, len(values)

    def stored(self, names: int, origin_ns: int) -> tuple[StoredRow, ...]:
        """Return all rows that were taken, in order; no more can be.

        Args:
            names: How many names there are.
            origin_ns: Where the bins begin: no event begins before.
        """
        try:
            self._write(np.zeros(1, np.int64))  # nothing cannot be mapped
            self._file.flush()
            data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _no_room(error, self._size) from None
        finally:
            self._file.close()  # what is mapped stays
        return tuple(
            _mapped(row, data, described, names, origin_ns) for row, described in self._rows
        )


def _private_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="warpline-")
    except OSError as error:
        raise _no_room(error, 0) from None


def _no_room(error: Exception, size: int) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(
        f"the events cannot be laid out in {tempfile.gettempdir()}: {reason}",
        hint=f"set TMPDIR to a folder with more room than {format_bytes(size)},"
        " or choose a part with --filter-time",
    )


def _columns(row: Row, idle_names: BoolArray) -> dict[str, AnyArray]:
    """Return what is kept of a row, in as few bytes as hold it."""
    events = row.events
    length = events.end_ns - events.start_ns
    columns: dict[str, AnyArray] = {
        "start": events.start_ns,
        "before": np.append(0, np.cumsum(length)),
        "name": _small(events.name),
    }
    if row.kind == "state":
        busy = np.where(idle_names[events.name], 0, length)
        columns["busy"] = np.append(0, np.cumsum(busy))
    if events.row is not None:
        columns["number"] = _small(events.row)
    if events.table is not None:
        columns["table"] = _small(events.table)
    for name, link in events.links.items():
        if link.valid.any():
            columns[f"link {name}"] = _small(np.where(link.valid, link.row, _NO_END))
    if events.value is not None:
        columns["value"] = events.value
        held = np.append(0.0, np.cumsum(events.value * length))
        columns["area"] = held[:-1]
    return columns


def _small(values: I64) -> AnyArray:
    return values.astype(np.int32) if int(np.max(values)) < 2**31 else values


def _mapped(
    row: Row,
    data: mmap.mmap,
    described: Mapping[str, tuple[str, int, int]],
    names: int,
    origin_ns: int,
) -> StoredRow:
    columns: dict[str, AnyArray] = {
        name: np.frombuffer(data, np.dtype(dtype), count, begin)
        for name, (dtype, begin, count) in described.items()
    }
    nothing = np.zeros(0, np.int64)
    before = columns.get("before", np.zeros(1, np.int64))
    return StoredRow(
        row,
        columns.get("start", nothing),
        before,
        columns.get("busy", before),
        columns.get("name", nothing),
        columns.get("number"),
        columns.get("table"),
        {key[5:]: ends for key, ends in columns.items() if key.startswith("link ")},
        columns.get("value"),
        columns.get("area"),
        names,
        origin_ns,
    )
