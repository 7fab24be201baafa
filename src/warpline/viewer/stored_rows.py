"""The rows of a timeline in a file that nobody else sees, mapped into memory.

A recording may have more events than memory has room for, and the system drops and reads again
what lies in a file. The file has no name: it is gone when this process is, however it ends.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpline.errors import InputError
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.units import format_bytes
from warpline.viewer.attributes import EVENT_TABLES
from warpline.viewer.name_sums import NameSums, name_sums
from warpline.viewer.range_max import RangeMax
from warpline.viewer.rows import Events, Row

_PIECE = 2**20
_NO_END = -1
TABLE_PLACES = {name: place for place, name in enumerate(EVENT_TABLES)}

AnyArray = npt.NDArray[Any]


class OfCategory(NamedTuple):
    """The events of a row that are of one category, m of n.

    Attributes:
        key: Twice the category, plus 1 if they are idle time.
        events: Their numbers, ascending, shape (m,); None for all.
        before_ns: Time of those before each, shape (m + 1,).
        longest: Finds the longest in bins; by their places among the m.
    """

    key: int
    events: AnyArray | None
    before_ns: I64
    longest: RangeMax

    @property
    def is_idle(self) -> bool:
        """Whether they are idle time."""
        return self.key % 2 == 1

    def places(self, events: I64) -> I64:
        """Return how many of them are before each of some events of the row."""
        if self.events is None:
            return events
        return _places(self.events, events)

    def numbers(self, places: I64) -> I64:
        """Return the numbers in the row of some of them."""
        return places if self.events is None else self.events[places].astype(np.int64)


@dataclass(frozen=True)
class StoredRow:
    """A row whose events are mapped; arrays are of shape (n,) if nothing else is said.

    Attributes:
        row: The row; its events have no links.
        busy_ns: Busy time of the events before each, shape (n + 1,).
        links: By name: row of the table at the other end, -1 for none.
        area: Of a counter: value times ns before each sample.
        categories: Category of each name, shape (names,).
        origin_ns: Where the bins of all rows begin.
    """

    row: Row
    busy_ns: I64
    links: Mapping[str, AnyArray]
    area: F64 | None
    categories: I64
    origin_ns: int

    @property
    def start_ns(self) -> I64:
        """When each event began."""
        return self.row.events.start_ns

    @property
    def name(self) -> I64:
        """Places in the names."""
        return self.row.events.name

    @property
    def value(self) -> F64 | None:
        """Of a counter."""
        return self.row.events.value

    @property
    def has_idle(self) -> bool:
        """Whether some of the events are idle time."""
        return self.row.kind == "state"

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_counter(self) -> bool:
        """Whether the row holds samples of a value."""
        return self.row.kind == "counter"

    def end_ns(self, event: int) -> int:
        """Return when an event ended."""
        return int(self.row.events.end_ns[event])

    def touching(self, start_ns: float, end_ns: float) -> tuple[int, int]:
        """Return the events ``[first, last)`` that reach into a span or begin in it.

        A sample of a counter holds until the next.
        """
        first = self.begun_before(start_ns)
        if first > 0 and (self.is_counter or self.end_ns(first - 1) > start_ns):
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

    @cached_property
    def highest(self) -> RangeMax:
        """The highest value of a counter in each bin."""
        assert self.value is not None
        value = self.value
        # Values may be negative, and less than nothing means not to be found.
        lowest = float(np.min(value, initial=0.0))
        return RangeMax(self.start_ns, self.origin_ns, lambda rows: value[rows] - lowest)

    @cached_property
    def by_category(self) -> tuple[OfCategory, ...]:
        """The events of each category, busy and idle ones apart."""
        keys = self._keys()
        present = np.unique(keys).tolist()
        if len(present) <= 1 and not any(key % 2 for key in present):
            every = RangeMax(self.start_ns, self.origin_ns, self.lengths)
            return tuple(OfCategory(key, None, self.busy_ns, every) for key in present)
        columns: list[AnyArray] = []
        for key in present:
            events = np.flatnonzero(keys == key)
            columns += [_small(events), np.append(0, np.cumsum(self.lengths(events)))]
        columns = _in_file(columns)
        return tuple(
            self._of_category(key, *columns[2 * place : 2 * place + 2])
            for place, key in enumerate(present)
        )

    def _keys(self) -> AnyArray:
        """Return twice the category of each event, plus 1 if it is idle; piece by piece."""
        keys = np.empty(len(self), np.int16)
        for begin in range(0, len(self), _PIECE):
            events = np.arange(begin, min(begin + _PIECE, len(self)))
            keys[events] = 2 * self.categories[self.name[events]]
            if self.has_idle:
                keys[events] += self.idle(events)
        return keys

    def _of_category(self, key: int, events: AnyArray, before_ns: I64) -> OfCategory:
        starts = self.start_ns[events]
        longest = RangeMax(
            starts, self.origin_ns, lambda rows: before_ns[rows + 1] - before_ns[rows]
        )
        return OfCategory(key, events, before_ns, longest)

    def lengths(self, events: I64) -> I64:
        """Return how long some events took."""
        found: I64 = self.row.events.end_ns[events] - self.start_ns[events]
        return found

    def idle(self, events: I64) -> BoolArray:
        """Return which of some events are idle time: those that have a length, none of it busy."""
        is_busy = self.busy_ns[events + 1] > self.busy_ns[events]
        found: BoolArray = ~is_busy & (self.lengths(events) > 0)
        return found

    @cached_property
    def sums(self) -> NameSums | None:
        """Sums by name."""
        events = self.row.events
        return name_sums(events.name, events.start_ns, events.end_ns, len(self.categories))

    def find(self, table: str, number: int) -> int | None:
        """Return the first event that is this row of a table."""
        events = self.row.events
        if events.row is None or (events.table is None and self.row.table != table):
            return None
        places, ascending = self._by_number(table)
        place = int(_places(ascending, np.array([number]))[0])
        if place == len(ascending) or ascending[place] != number:
            return None
        return place if places is None else int(places[place])

    def _by_number(self, table: str) -> tuple[I64 | None, AnyArray]:
        """Return the events of a table by their rows in it, and these rows; None for all."""
        known = self._orders.get(table)
        if known is None:
            numbers, tables = self.row.events.row, self.row.events.table
            assert numbers is not None
            events = None if tables is None else np.flatnonzero(tables == TABLE_PLACES[table])
            known = _ascending(events, numbers if events is None else numbers[events])
            self._orders[table] = known
        return known

    def pointing_at(self, link: str, number: int, most: int) -> list[int]:
        """Return the events whose link leads to a row, at most so many, in time."""
        ends = self.links.get(link)
        if ends is None:
            return []
        known = self._orders.get(f"link {link}")
        if known is None:
            with_end = np.flatnonzero(ends >= 0)
            known = _ascending(with_end, ends[with_end])
            self._orders[f"link {link}"] = known
        events, ascending = known
        assert events is not None
        low, high = _places(ascending, np.array([number, number + 1])).tolist()
        return sorted(int(event) for event in events[low : min(high, low + most)])

    @cached_property
    def _orders(self) -> dict[str, tuple[I64 | None, AnyArray]]:
        return {}


def _places(ascending: AnyArray, wanted: I64) -> I64:
    """Return how many of some integers are below each of others, which are 0 or more.

    They are compared in their own type: with another, numpy would first copy all of them.
    """
    largest = np.iinfo(ascending.dtype).max
    found: I64 = np.searchsorted(ascending, np.minimum(wanted, largest).astype(ascending.dtype))
    return np.where(wanted > largest, len(ascending), found)


def _ascending(events: I64 | None, numbers: AnyArray) -> tuple[I64 | None, AnyArray]:
    """Return events and numbers by number, then by event."""
    if bool(np.all(numbers[1:] >= numbers[:-1])):
        return events, numbers
    order = np.argsort(numbers, kind="stable")
    return (order if events is None else events[order]), numbers[order]


def _in_file(columns: Sequence[AnyArray]) -> list[AnyArray]:
    """Return the same arrays mapped from a file that nobody else sees; InputError for no room."""
    begins = np.cumsum([0, *(values.nbytes + -values.nbytes % 8 for values in columns)]).tolist()
    try:
        with _private_file() as file:
            for begin, values in zip(begins, columns, strict=False):
                file.seek(begin)
                file.write(np.ascontiguousarray(values).data)
            file.truncate(begins[-1])
            file.flush()
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise _no_room(error, begins[-1]) from None
    return [
        np.frombuffer(data, values.dtype, len(values), begin)
        for begin, values in zip(begins, columns, strict=False)
    ]


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

    def stored(self, categories: I64, origin_ns: int) -> tuple[StoredRow, ...]:
        """Return all rows that were taken, in order; no more can be.

        Args:
            categories: Category of each name, shape (names,).
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
            _mapped(row, data, described, categories, origin_ns) for row, described in self._rows
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
    busy = np.where(idle_names[events.name], 0, length) if row.kind == "state" else length
    columns: dict[str, AnyArray] = {
        "start": events.start_ns,
        "end": events.end_ns,
        "busy": np.append(0, np.cumsum(busy)),
        "name": _small(events.name),
    }
    if events.row is not None:
        columns["number"] = _small(events.row)
    if events.table is not None:
        columns["table"] = _small(events.table)
    for name, link in events.links.items():
        if link.valid.any():
            columns[f"link {name}"] = _small(np.where(link.valid, link.row, _NO_END))
    if events.value is not None:
        columns["value"] = events.value
        columns["area"] = np.append(0.0, np.cumsum(events.value * length))[:-1]
    return columns


def _small(values: I64) -> AnyArray:
    return values.astype(np.int32) if int(np.max(values)) < 2**31 else values


def _mapped(
    row: Row,
    data: mmap.mmap,
    described: Mapping[str, tuple[str, int, int]],
    categories: I64,
    origin_ns: int,
) -> StoredRow:
    columns: dict[str, AnyArray] = {
        name: np.frombuffer(data, np.dtype(dtype), count, begin)
        for name, (dtype, begin, count) in described.items()
    }
    nothing = np.zeros(0, np.int64)
    events = Events(
        columns.get("start", nothing),
        columns.get("end", nothing),
        columns.get("name", nothing),
        columns.get("number"),
        columns.get("table"),
        value=columns.get("value"),
    )
    return StoredRow(
        replace(row, events=events),
        columns.get("busy", np.zeros(1, np.int64)),
        {key[5:]: ends for key, ends in columns.items() if key.startswith("link ")},
        columns.get("area"),
        categories,
        origin_ns,
    )
