"""The rows of the timeline and their events, in display order.

The events of a row do not overlap: nested or overlapping events are split into lanes. Times are
those of the trace, ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.interval import union
from warpline.units import plural
from warpline.viewer.lanes import MAX_LANES, TOO_DEEP

_NOTHING = np.zeros(0, np.int64)


class Link(NamedTuple):
    """The linked row of each event in a table, where `valid`."""

    row: I64
    valid: BoolArray


@dataclass(frozen=True)
class Events:
    """Events of one row, or of several before they are split; all arrays have shape (n,).

    Attributes:
        start_ns: Start times.
        end_ns: End times, never before the start.
        name: Indices of names.
        row: Table rows of the events; None for events without table rows.
        table: Indices in `EVENT_TABLES` if a row mixes tables; None for a single table.
        links: Links by name.
        value: Counter values, each valid from `start_ns`.
    """

    start_ns: I64 = field(default_factory=lambda: _NOTHING)
    end_ns: I64 = field(default_factory=lambda: _NOTHING)
    name: I64 = field(default_factory=lambda: _NOTHING)
    row: I64 | None = None
    table: I64 | None = None
    links: Mapping[str, Link] = field(default_factory=dict)
    value: F64 | None = None

    def __len__(self) -> int:
        return len(self.start_ns)

    def taken(self, chosen: I64 | slice) -> Events:
        """Return some of the events."""
        return Events(
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.name[chosen],
            None if self.row is None else self.row[chosen],
            None if self.table is None else self.table[chosen],
            {key: Link(link.row[chosen], link.valid[chosen]) for key, link in self.links.items()},
            None if self.value is None else self.value[chosen],
        )


@dataclass(frozen=True)
class Row:
    """One row of the timeline.

    Attributes:
        id: Unique in the container.
        parent: Id of its group; None for a top-level row.
        label: The displayed label.
        kind: group, state, stream, phase, range, op, api, os, mark, or counter.
        table: The table of its events; None for several tables or none.
        device: Row of the device table, or None.
        process: Row of the process table, or None.
        thread: Row of the thread table, or None.
        stream: Row of the stream table, or None.
        depth: Its lane among the lanes of the same source.
        is_collapsed: Whether its children are initially hidden.
        unit: Unit of a counter.
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
    order = np.lexsort((events.end_ns, events.start_ns, wanted, group))
    first = np.flatnonzero(
        (np.diff(group[order], prepend=-2) != 0) | (np.diff(wanted[order], prepend=-1) != 0)
    )
    for rows in np.split(order, first[1:]) if len(order) else ():
        one, depth, own = int(group[rows[0]]), int(wanted[rows[0]]), events.taken(rows)
        if depth < MAX_LANES:
            yield Lane(one, depth, own)
        else:
            start, end = union(own.start_ns, own.end_ns)
            name = np.full(len(start), merged_name())
            yield Lane(one, depth, Events(start, end, name), len(rows))


def lane_label(label: str, lane: Lane) -> str:
    """Return the label of a lane."""
    return f"{label}: {plural(lane.merged, 'deeper event')}, merged" if lane.merged else label
