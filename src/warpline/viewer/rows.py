"""The rows of the timeline and their events, in display order.

The events of a row do not overlap: nested or overlapping events are split into lanes. Times are
those of the trace, ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from warpline.ops.arrays import F64, I32, I64, BoolArray, Integers
from warpline.ops.group import factorize
from warpline.ops.interval import union
from warpline.units import plural
from warpline.viewer.lanes import MAX_LANES, TOO_DEEP

_NOTHING = np.zeros(0, np.int64)


Values = TypeVar("Values", bound=npt.NDArray[Any])


class Link(NamedTuple):
    """The linked row of each event in a table, where `valid`."""

    row: Integers
    valid: BoolArray


class _Columns(NamedTuple):
    """The arrays of events."""

    start_ns: I64
    end_ns: I64
    name: Integers
    row: Integers | None
    table: Integers | None
    links: Mapping[str, Link]
    value: F64 | None
    least: F64 | None = None
    most: F64 | None = None


class Events:
    """Events of one row, or of several before they are split; all arrays have shape (n,).

    Events chosen from others are copied when an array is asked for, each time: the lanes of a
    source take the memory of their row numbers. `loaded` copies all arrays once.

    Args:
        start_ns: Start times.
        end_ns: End times, never before the start.
        name: Indices of names.
        row: Table rows of the events; None for events without table rows.
        table: Indices in `EVENT_TABLES` if a row mixes tables; None for a single table.
        links: Links by name.
        value: Counter values, each valid from `start_ns` to the next; NaN where there is none.
    """

    def __init__(
        self,
        start_ns: I64 = _NOTHING,
        end_ns: I64 = _NOTHING,
        name: Integers = _NOTHING,
        row: Integers | None = None,
        table: Integers | None = None,
        links: Mapping[str, Link] | None = None,
        value: F64 | None = None,
    ) -> None:
        self._source = _Columns(start_ns, end_ns, name, row, table, links or {}, value)
        self._chosen: Integers | None = None

    def __len__(self) -> int:
        return len(self._source.start_ns if self._chosen is None else self._chosen)

    @property
    def start_ns(self) -> I64:
        """Start times."""
        return self._own(self._source.start_ns)

    @property
    def end_ns(self) -> I64:
        """End times, never before the start."""
        return self._own(self._source.end_ns)

    @property
    def name(self) -> Integers:
        """Indices of names."""
        return self._own(self._source.name)

    @property
    def row(self) -> Integers | None:
        """Table rows of the events; None for events without table rows."""
        return None if self._source.row is None else self._own(self._source.row)

    @property
    def table(self) -> Integers | None:
        """Indices in `EVENT_TABLES` if a row mixes tables; None for a single table."""
        return None if self._source.table is None else self._own(self._source.table)

    @property
    def links(self) -> dict[str, Link]:
        """Links by name."""
        return {
            key: Link(self._own(link.row), self._own(link.valid))
            for key, link in self._source.links.items()
        }

    @property
    def value(self) -> F64 | None:
        """Counter values, each valid from `start_ns` to the next; NaN where there is none."""
        return self._optional(self._source.value)

    @property
    def least(self) -> F64 | None:
        """Lowest value of each sample that stands for several; None if none does."""
        return self._optional(self._source.least)

    @property
    def most(self) -> F64 | None:
        """Highest value of each sample that stands for several; None if none does."""
        return self._optional(self._source.most)

    @property
    def span_ns(self) -> tuple[int, int]:
        """Start of the first event and end of the last."""
        first, last = (0, -1) if self._chosen is None else self._chosen[[0, -1]].tolist()
        return int(self._source.start_ns[first]), int(self._source.end_ns[last])

    def taken(self, chosen: I64 | slice) -> Events:
        """Return some of the events."""
        own = Events()
        own._source = self._source
        if self._chosen is not None:
            own._chosen = self._chosen[chosen]
        elif isinstance(chosen, slice):
            own._source = self._cut(chosen)
        else:
            own._chosen = narrow(chosen)
        return own

    def loaded(self) -> Events:
        """Return the events with arrays of their own."""
        return self if self._chosen is None else self._with(self._cut(slice(None)))

    def without_table(self) -> Events:
        """Return the events as those of a single table."""
        own = Events()
        own._source, own._chosen = self._source._replace(table=None), self._chosen
        return own

    def linked(self, links: Mapping[str, Link]) -> Events:
        """Return the events with these links instead of theirs."""
        return self._with(self._cut(slice(None))._replace(links=links))

    def ranged(self, least: F64, most: F64) -> Events:
        """Return samples that stand for several: their lowest and highest values, shape (n,)."""
        return self._with(self._cut(slice(None))._replace(least=least, most=most))

    @staticmethod
    def _with(columns: _Columns) -> Events:
        own = Events()
        own._source = columns
        return own

    def _cut(self, chosen: slice) -> _Columns:
        return _Columns(
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.name[chosen],
            None if self.row is None else self.row[chosen],
            None if self.table is None else self.table[chosen],
            {key: Link(link.row[chosen], link.valid[chosen]) for key, link in self.links.items()},
            None if self.value is None else self.value[chosen],
            None if self.least is None else self.least[chosen],
            None if self.most is None else self.most[chosen],
        )

    def _optional(self, values: Values | None) -> Values | None:
        return None if values is None else self._own(values)

    def _own(self, values: Values) -> Values:
        return values if self._chosen is None else cast("Values", values[self._chosen])


def narrow(rows: Integers) -> Integers:
    """Return nonnegative numbers in 32 bits if they fit."""
    return rows.astype(np.int32) if int(rows.max(initial=0)) < 2**31 else rows


@dataclass(frozen=True)
class Row:
    """One row of the timeline.

    Attributes:
        id: Unique in the container.
        parent: Id of its group; None for a top-level row.
        label: The displayed label.
        kind: group, state, step, stream, phase, thread, sample, range, op, api, os, mark, limit, or
            counter.
        table: The table of its events; None for several tables or none.
        device: Row of the device table, or None.
        process: Row of the process table, or None.
        thread: Row of the thread table, or None.
        stream: Row of the stream table, or None.
        depth: Its lane among the lanes of the same source.
        is_collapsed: Whether its children are initially hidden.
        unit: Unit of a counter.
        title: What the label stands for, such as the full name of a metric; None for the label.
        axis_max: Natural upper end of a counter's axis, such as a power limit; None for a round
            number.
        is_sampled: Whether a counter has samples at regular times, whose mean says something.
        recorded: Number of recorded samples if several are joined; None otherwise.
        clock_error_ns: Largest clock error relative to the first file, ns.
        events: Its events.
    """

    id: str
    parent: str | None
    label: str
    kind: str
    table: str | None = None
    device: int | None = None
    process: int | None = None
    thread: int | None = None
    stream: int | None = None
    depth: int = 0
    is_collapsed: bool = False
    unit: str | None = None
    title: str | None = None
    axis_max: float | None = None
    is_sampled: bool = False
    recorded: int | None = None
    clock_error_ns: int | None = None
    events: Events = field(default_factory=Events)


class Lane(NamedTuple):
    """One lane of a group of rows.

    Attributes:
        group: The group.
        depth: The lane in the group, 0 for the outermost.
        events: Sorted by start.
        merged: Number of original events if they are merged; else 0.
    """

    group: int
    depth: int
    events: Events
    merged: int = 0


def split(events: Events, group: I64, lane: I64, merged_name: Callable[[], int]) -> Iterator[Lane]:
    """Yield the lanes by group; events too deep for a lane are merged in a last lane.

    Args:
        events: In any order.
        group: Shape (n,).
        lane: Shape (n,), from `lanes`.
        merged_name: Returns the index of the name for merged events; called if needed.
    """
    wanted = np.where(lane == TOO_DEEP, MAX_LANES, lane)
    lanes = factorize(group * (MAX_LANES + 1) + wanted)
    order = _order(events, lanes.codes, lanes.n_groups)
    last = np.cumsum(np.bincount(lanes.codes, minlength=lanes.n_groups))
    for number, rows in enumerate(np.split(order, last[:-1]) if len(order) else ()):
        one, depth = divmod(int(lanes.uniques[number]), MAX_LANES + 1)
        own = events.taken(rows)
        if depth < MAX_LANES:
            yield Lane(one, depth, own)
        else:
            start, end = union(own.start_ns, own.end_ns)
            name = np.full(len(start), merged_name())
            yield Lane(one, depth, Events(start, end, name), len(rows))


def _order(events: Events, codes: I32, n_codes: int) -> Integers:
    """Return the events by code, start and end."""
    start, end = events.start_ns, events.end_ns
    rises, ties = start[1:] > start[:-1], start[1:] == start[:-1]
    by_time = None
    if not bool((rises | (ties & (end[1:] >= end[:-1]))).all()):
        by_time = narrow(np.lexsort((end, start)))
        codes = codes[by_time]
    if n_codes < 2**15:
        codes = codes.astype(np.int16)  # sorted by counting
    order = narrow(np.argsort(codes, kind="stable"))
    return order if by_time is None else by_time[order]


def lane_label(label: str, lane: Lane) -> str:
    """Return the label of a lane."""
    return f"{label}: {plural(lane.merged, 'deeper event')}, merged" if lane.merged else label
