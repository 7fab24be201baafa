"""Samples of counters joined to fewer: their mean over time, with the lowest and highest value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.viewer.rows import Events, Row

JOIN_FROM = 1_000_000  # sampled values in a page: fewer are all in the file
_JOINED = 2**18  # values to keep otherwise
_LEAST_JOINED = 2**12  # per row: more than a screen has pixels
_COMPLETE_SHARE = 0.5  # of the values to keep: those in the complete time ranges


def within_limit(rows: tuple[Row, ...], complete: tuple[I64, I64]) -> tuple[Row, ...]:
    """Return the rows with samples joined if a page would have too many.

    Args:
        rows: All rows.
        complete: Time ranges whose samples are kept if they are few: starts and ends.
    """
    sampled = [row for row in rows if row.is_sampled]
    if sum(len(row.events) for row in sampled) <= JOIN_FROM:
        return rows
    most = max(_JOINED // len(sampled), _LEAST_JOINED)
    return tuple(fewer(row, most, complete) if row.is_sampled else row for row in rows)


def fewer(row: Row, most: int, complete: tuple[I64, I64]) -> Row:
    """Return a counter's row with about this number of samples.

    Args:
        row: The row.
        most: About how many samples to keep.
        complete: Time ranges whose samples are kept if they are at most half of these.
    """
    events = row.events
    if len(events) <= most:
        return row
    can_join = joinable(events, inside(events, complete))
    left = len(events) - int(np.count_nonzero(can_join))
    if left > _COMPLETE_SHARE * most:
        can_join = joinable(events, np.zeros(len(events), np.bool_))
        left = len(events) - int(np.count_nonzero(can_join))
    each = -(-len(events) // max(most - left, 1))
    begins = ~can_join | (np.cumsum(can_join) % each == 0)
    return replace(row, events=joined(events, begins), recorded=len(events))


def inside(events: Events, complete: tuple[I64, I64]) -> BoolArray:
    """Return which samples overlap some time ranges, ascending and disjoint."""
    start, end = complete
    upcoming = np.searchsorted(end, events.start_ns, side="right")
    begins = np.append(start, np.iinfo(np.int64).max)[upcoming]
    is_inside: BoolArray = begins < np.maximum(events.end_ns, events.start_ns + 1)
    return is_inside


def joinable(events: Events, is_complete: BoolArray) -> BoolArray:
    """Return which samples can be joined to the one before: both have a value and may be joined."""
    assert events.value is not None
    free = ~is_complete & ~np.isnan(events.value)
    can_join = free.copy()
    can_join[1:] &= free[:-1]
    can_join[:1] = False
    return can_join


def joined(events: Events, begins: BoolArray) -> Events:
    """Return samples joined to groups.

    Args:
        events: Samples of a counter, each valid until the next.
        begins: Shape (n,): which samples begin a group, the first among them.

    Returns:
        The mean of each group over time, with its lowest and highest value.
    """
    value = events.value
    assert value is not None
    first = np.flatnonzero(begins)
    if len(first) == len(value):
        return events
    start, end = events.start_ns, events.end_ns
    length = (end - start).astype(np.float64)
    total = np.add.reduceat(length, first)
    count = np.diff(first, append=len(value))
    even = np.add.reduceat(value, first) / count  # of samples without a length
    mean = np.divide(np.add.reduceat(value * length, first), total, out=even, where=total > 0)
    least = np.minimum.reduceat(value if events.least is None else events.least, first)
    most = np.maximum.reduceat(value if events.most is None else events.most, first)
    mean = np.where(count == 1, value[first], np.clip(mean, least, most))
    ends = np.append(start[first[1:]], end[-1:])
    return Events(start[first], ends, events.name[first], value=mean).ranged(least, most)
