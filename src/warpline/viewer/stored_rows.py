"""The rows of a timeline in an unnamed file, mapped into memory.

A recording may have more events than fit into memory; the operating system can evict and reload
the pages of a file. The file has no name: it disappears with this process, even after a crash.
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
from warpline.viewer.rows import Events, Row, narrow

_PIECE = 2**20
_NO_END = -1
TABLE_PLACES = {name: place for place, name in enumerate(EVENT_TABLES)}

AnyArray = npt.NDArray[Any]


class OfCategory(NamedTuple):
    """The m events of one category in a row of n.

    Attributes:
        key: Twice the category, plus 1 for idle time.
        events: Their numbers, ascending, shape (m,); None for all.
        before_ns: Time of the preceding ones, shape (m + 1,).
        longest: Finds the longest in bins, by index among the m.
    """

    key: int
    events: AnyArray | None
    before_ns: I64
    longest: RangeMax

    @property
    def is_idle(self) -> bool:
        """Whether the events are idle time."""
        return self.key % 2 == 1

    def places(self, events: I64) -> I64:
        """Return how many of them precede each of some events of the row."""
        if self.events is None:
            return events
        return _places(self.events, events)

    def numbers(self, places: I64) -> I64:
        """Return the numbers of some of them in the row."""
        return places if self.events is None else self.events[places].astype(np.int64)


@dataclass(frozen=True)
class StoredRow:
    """A row with mapped events; arrays have shape (n,) unless noted.

    Attributes:
        row: The row; its events have no links.
        busy_ns: Busy time before each event, shape (n + 1,).
        links: By name: linked table row, -1 for none.
        area: For counters: value times ns before each sample, without missing values.
        categories: Category of each name, shape (names,).
        origin_ns: Start of the bins of all rows.
    """

    row: Row
    busy_ns: I64
    links: Mapping[str, AnyArray]
    area: F64 | None
    categories: I64
    origin_ns: int

    @property
    def start_ns(self) -> I64:
        """Start of each event."""
        return self.row.events.start_ns

    @property
    def name(self) -> I64:
        """Indices of names."""
        return self.row.events.name

    @property
    def value(self) -> F64 | None:
        """Counter values."""
        return self.row.events.value

    @property
    def has_idle(self) -> bool:
        """Whether some events are idle time."""
        return self.row.kind == "state"

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_counter(self) -> bool:
        """Whether the row is a counter."""
        return self.row.kind == "counter"

    def end_ns(self, event: int) -> int:
        """Return the end of an event."""
        return int(self.row.events.end_ns[event])

    def touching(self, start_ns: float, end_ns: float) -> tuple[int, int]:
        """Return the events ``[first, last)`` that overlap a span.

        A sample of a counter is valid until the next.
        """
        first = self.begun_before(start_ns)
        if first > 0 and (self.is_counter or self.end_ns(first - 1) > start_ns):
            first -= 1
        return first, max(first, self.begun_before(end_ns))

    def begun_before(self, time_ns: float) -> int:
        """Return how many events start before a time, which may be fractional."""
        return int(np.searchsorted(self.start_ns, np.int64(-(-time_ns // 1))))

    def begun_by(self, time_ns: float) -> int:
        """Return how many events start at or before a time."""
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
        """The maximum of a counter per bin."""
        assert self.value is not None
        value = self.value
        lowest = float(np.nanmin(value, initial=0.0))
        return RangeMax(self.start_ns, self.origin_ns, lambda rows: _weight(value[rows] - lowest))

    @cached_property
    def lowest(self) -> RangeMax:
        """The minimum of a counter per bin."""
        assert self.value is not None
        value = self.value
        highest = float(np.nanmax(value, initial=0.0))
        return RangeMax(self.start_ns, self.origin_ns, lambda rows: _weight(highest - value[rows]))

    @cached_property
    def _missing(self) -> tuple[I64, I64, I64]:
        """The samples without a value, and their time before each of them: (k,), (k,), (k + 1,)."""
        assert self.value is not None
        rows = np.flatnonzero(np.isnan(self.value))
        start, end = self.start_ns[rows], self.row.events.end_ns[rows]
        if len(rows) and rows[-1] == len(self) - 1:
            end[-1] = np.iinfo(np.int64).max  # nothing follows
        return start, end, np.append(0, np.cumsum(end[:-1] - start[:-1]))

    def curve_until(self, time_ns: F64 | I64) -> tuple[F64, F64]:
        """Return the integral of a counter up to some times, and the time that has values, ns."""
        assert self.value is not None
        assert self.area is not None
        held = np.searchsorted(self.start_ns, time_ns) - 1  # the valid sample just before
        row = np.maximum(held, 0)
        value = np.nan_to_num(self.value[row])
        area = self.area[row] + value * (time_ns - self.start_ns[row])
        start, end, before = self._missing
        known = (time_ns - self.start_ns[0]).astype(np.float64)
        if len(start):
            gap = np.searchsorted(start, time_ns) - 1
            own = np.maximum(gap, 0)
            inside = np.minimum(time_ns, end[own]) - start[own]
            known -= np.where(gap >= 0, before[own] + inside, 0)
        return np.where(held >= 0, area, 0.0), np.where(held >= 0, known, 0.0)

    @cached_property
    def by_category(self) -> tuple[OfCategory, ...]:
        """The events of each category, with busy and idle time separate."""
        keys = self._keys()
        present = np.unique(keys).tolist()
        if len(present) <= 1 and not any(key % 2 for key in present):
            every = RangeMax(self.start_ns, self.origin_ns, self.lengths)
            return tuple(OfCategory(key, None, self.busy_ns, every) for key in present)
        columns: list[AnyArray] = []
        for key in present:
            events = np.flatnonzero(keys == key)
            columns += [narrow(events), np.append(0, np.cumsum(self.lengths(events)))]
        columns = _in_file(columns)
        return tuple(
            self._of_category(key, *columns[2 * place : 2 * place + 2])
            for place, key in enumerate(present)
        )

    def _keys(self) -> AnyArray:
        """Return twice the category of each event, plus 1 for idle time, computed in pieces."""
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
        """Return the durations of some events."""
        length_ns: I64 = self.row.events.end_ns[events] - self.start_ns[events]
        return length_ns

    def idle(self, events: I64) -> BoolArray:
        """Return which of some events are idle time: positive duration, no busy time."""
        is_busy = self.busy_ns[events + 1] > self.busy_ns[events]
        is_idle: BoolArray = ~is_busy & (self.lengths(events) > 0)
        return is_idle

    @cached_property
    def sums(self) -> NameSums | None:
        """Sums by name."""
        events = self.row.events
        return name_sums(events.name, events.start_ns, events.end_ns, len(self.categories))

    def find(self, table: str, number: int) -> int | None:
        """Return the first event of a table row."""
        events = self.row.events
        if events.row is None or (events.table is None and self.row.table != table):
            return None
        places, ascending = self._by_number(table)
        place = int(_places(ascending, np.array([number]))[0])
        if place == len(ascending) or ascending[place] != number:
            return None
        return place if places is None else int(places[place])

    def _by_number(self, table: str) -> tuple[I64 | None, AnyArray]:
        """Return the events of a table sorted by table row, and these rows; None for all events."""
        known = self._orders.get(table)
        if known is None:
            numbers, tables = self.row.events.row, self.row.events.table
            assert numbers is not None
            events = None if tables is None else np.flatnonzero(tables == TABLE_PLACES[table])
            known = _ascending(events, numbers if events is None else numbers[events])
            self._orders[table] = known
        return known

    def pointing_at(self, link: str, number: int, most: int) -> list[int]:
        """Return the events linked to a row, at most `most`, in time order."""
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


def _weight(values: F64) -> F64:
    """Return weights that are not negative; events to ignore, without a value, get -1."""
    return np.where(np.isnan(values), -1.0, values)


def _places(ascending: AnyArray, wanted: I64) -> I64:
    """Return, for each of some nonnegative integers, how many of the others are smaller.

    They are compared in their own type: for another type, numpy would first copy all of them.
    """
    largest = np.iinfo(ascending.dtype).max
    place: I64 = np.searchsorted(ascending, np.minimum(wanted, largest).astype(ascending.dtype))
    return np.where(wanted > largest, len(ascending), place)


def _ascending(events: I64 | None, numbers: AnyArray) -> tuple[I64 | None, AnyArray]:
    """Return events and numbers, sorted by number, then by event."""
    if bool(np.all(numbers[1:] >= numbers[:-1])):
        return events, numbers
    order = np.argsort(numbers, kind="stable")
    return (order if events is None else events[order]), numbers[order]


def _in_file(columns: Sequence[AnyArray]) -> list[AnyArray]:
    """Return the arrays mapped from an unnamed file; InputError if there is no space."""
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
    """Stores rows one by one and returns them mapped."""

    def __init__(self) -> None:
        """Open the file; InputError if it cannot be created."""
        self._rows: list[tuple[Row, dict[str, tuple[str, int, int]]]] = []
        self._size = 0
        self._file: IO[bytes] = _private_file()
        self._written: dict[str, tuple[AnyArray, tuple[str, int, int]]] = {}

    def add(self, row: Row, idle_names: BoolArray) -> None:
        """Store a row.

        Args:
            row: The row with its events.
            idle_names: Whether each name is idle time, shape (names,).

        Raises:
            InputError: There is no space for the events.
        """
        events = row.events
        columns: dict[str, AnyArray] = {}
        if len(events):
            columns = _columns(row, idle_names)
        try:
            described = {name: self._placed(name, values) for name, values in columns.items()}
        except OSError as error:
            self._file.close()
            raise _no_room(error, self._size) from None
        self._rows.append((replace(row, events=Events()), described))

    def _placed(self, name: str, values: AnyArray) -> tuple[str, int, int]:
        """Write a column, unless the row before has the same, as metrics have the same times."""
        known = self._written.get(name)
        if known is None or known[0] is not values:
            self._written[name] = known = (values, self._write(values))
        return known[1]

    def _write(self, values: AnyArray) -> tuple[str, int, int]:
        self._file.write(bytes(-self._size % 8))
        begin = self._size + -self._size % 8
        for piece in range(0, len(values), _PIECE):
            self._file.write(np.ascontiguousarray(values[piece : piece + _PIECE]).data)
        self._size = begin + values.nbytes
        return values.dtype.str, begin, len(values)

    def stored(self, categories: I64, origin_ns: int) -> tuple[StoredRow, ...]:
        """Return all stored rows in order; no more rows can be stored.

        Args:
            categories: Category of each name, shape (names,).
            origin_ns: Start of the bins: no event starts earlier.
        """
        try:
            self._write(np.zeros(1, np.int64))  # an empty file cannot be mapped
            self._file.flush()
            data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _no_room(error, self._size) from None
        finally:
            self._file.close()  # the mapping remains valid
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
        f"cannot store the events in {tempfile.gettempdir()}: {reason}",
        hint=f"set TMPDIR to a directory with more than {format_bytes(size)} free,"
        " or select a time range with --filter-time",
    )


def _columns(row: Row, idle_names: BoolArray) -> dict[str, AnyArray]:
    """Return the stored arrays of a row in their smallest types."""
    events = row.events.loaded()
    if events.value is not None:
        return _columns_of_counter(events)
    length = events.end_ns - events.start_ns
    busy = np.where(idle_names[events.name], 0, length) if row.kind == "state" else length
    columns: dict[str, AnyArray] = {
        "start": events.start_ns,
        "end": events.end_ns,
        "busy": np.append(0, np.cumsum(busy)),
        "name": narrow(events.name),
    }
    if events.row is not None:
        columns["number"] = narrow(events.row)
    if events.table is not None:
        columns["table"] = narrow(events.table)
    for name, link in events.links.items():
        if link.valid.any():
            columns[f"link {name}"] = narrow(np.where(link.valid, link.row, _NO_END))
    return columns


def _columns_of_counter(events: Events) -> dict[str, AnyArray]:
    """Return the stored arrays of a counter, whose samples have one name and are not busy time."""
    assert events.value is not None
    area = np.nan_to_num(events.value) * (events.end_ns - events.start_ns)
    return {
        "start": events.start_ns,
        "end": events.end_ns,
        "name": narrow(events.name[:1]),
        "value": events.value,
        "area": np.append(0.0, np.cumsum(area))[:-1],
    }


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
    start, name = columns.get("start", nothing), columns.get("name", nothing)
    if len(name) < len(start):
        name = np.broadcast_to(name, len(start))
    events = Events(
        start,
        columns.get("end", nothing),
        name,
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
