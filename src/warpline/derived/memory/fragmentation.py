"""Free memory that the caching allocator could not use, and caches that it gave back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.blocks import Timeline, replayed
from warpline.derived.memory.caching_allocator import SMALL_SEGMENT
from warpline.ops.arrays import I64
from warpline.schema.labels import SEGMENT_OPERATIONS
from warpline.trace import Trace

_CODES = {label: value for value, label in SEGMENT_OPERATIONS.items()}
_GROWS = ("Segment allocation", "Segment map")
_SHRINKS = ("Segment release", "Segment unmap")


class Growth(NamedTuple):
    """Memory got from the driver while free memory could not be used.

    Attributes:
        event: Place in the timeline.
        bytes: Bytes got from the driver.
        unused_bytes: Free bytes in partly used segments for blocks above 1 MiB, at that time.
        reserved_bytes: Bytes reserved afterwards.
    """

    event: int
    bytes: int
    unused_bytes: int
    reserved_bytes: int


class Flush(NamedTuple):
    """Cached memory that was returned to the driver at once.

    Attributes:
        time_ns: When it began.
        bytes: Bytes returned.
        again_bytes: Bytes got from the driver again before the next flush.
        rows: Rows of segment_event.
    """

    time_ns: int
    bytes: int
    again_bytes: int
    rows: I64


class Failure(NamedTuple):
    """An allocation that failed.

    Attributes:
        time_ns: When.
        row: Row of segment_event.
        bytes: Bytes that were requested.
        unused_bytes: Free bytes in segments that are partly in use, at that time.
    """

    time_ns: int
    row: int
    bytes: int
    unused_bytes: int


class _Rows(NamedTuple):
    """Rows of segment_event of one allocator, in order of time."""

    row: I64
    time: I64
    operation: I64
    bytes: I64


@derived
def wasteful_growth(trace: Trace, number: int) -> Growth | None:
    """Return when most free memory could not be used although less was needed.

    Segments for blocks of at most 1 MiB do not count: they are 2 MiB each.

    Args:
        trace: The trace.
        number: Place in `Replayed.timelines`.
    """
    timeline = replayed(trace).timelines[number]
    if timeline.reserved_bytes is None or timeline.large_split_bytes is None:
        return None
    got = np.diff(timeline.reserved_bytes, prepend=timeline.reserved_bytes[:1])
    unused = np.concatenate((timeline.large_split_bytes[:1], timeline.large_split_bytes[:-1]))
    grows = np.flatnonzero((got > SMALL_SEGMENT) & (unused >= got))
    if not len(grows):
        return None
    event = int(grows[np.argmax(unused[grows])])
    return Growth(event, int(got[event]), int(unused[event]), int(timeline.reserved_bytes[event]))


@derived
def flushes(trace: Trace, number: int) -> tuple[Flush, ...]:
    """Return when cached memory was returned to the driver, of one of `Replayed.timelines`.

    Segments that are released in a row are one flush.
    """
    rows = _rows_of(trace, replayed(trace).timelines[number])
    codes = [_CODES[label] for label in (*_GROWS, *_SHRINKS)]
    kept = np.flatnonzero(np.isin(rows.operation, codes))
    shrinks = np.isin(rows.operation[kept], [_CODES[label] for label in _SHRINKS])
    first = np.flatnonzero(shrinks & ~np.append(False, shrinks[:-1]))
    ends = np.append(first[1:], len(kept))[: len(first)]
    size = rows.bytes[kept]
    found = []
    for begin, end in zip(first.tolist(), ends.tolist(), strict=True):
        own = np.arange(begin, end)
        gone = own[shrinks[own]]
        again = int(size[own[~shrinks[own]]].sum())
        time = int(rows.time[kept[begin]])
        found.append(Flush(time, int(size[gone].sum()), again, rows.row[kept[gone]]))
    return tuple(found)


@derived
def failures(trace: Trace, number: int) -> tuple[Failure, ...]:
    """Return the allocations that failed, of one of `Replayed.timelines`."""
    timeline = replayed(trace).timelines[number]
    rows = _rows_of(trace, timeline)
    failed = np.flatnonzero(rows.operation == _CODES["Out of memory"])
    unused = timeline.inactive_split_bytes
    before = np.maximum(np.searchsorted(timeline.time_ns, rows.time[failed]) - 1, 0)
    free = np.zeros(len(failed), np.int64) if unused is None else unused[before]
    columns = (rows.time[failed], rows.row[failed], rows.bytes[failed], free)
    return tuple(Failure(*each) for each in zip(*(c.tolist() for c in columns), strict=True))


def _rows_of(trace: Trace, timeline: Timeline) -> _Rows:
    none = np.zeros(0, np.int64)
    if not trace.has("segment_event") or not trace.row_count("segment_event"):
        return _Rows(none, none, none, none)
    names = ("process_id", "device_id", "time_ns", "operation", "bytes", "is_existing")
    columns = trace.columns("segment_event", *names)
    is_own = columns["process_id"].values == timeline.process
    is_own &= columns["device_id"].filled(-1) == timeline.device
    rows = np.flatnonzero(is_own & ~(columns["is_existing"].filled(0) > 0))
    rows = rows[np.argsort(columns["time_ns"].values[rows], kind="stable")]
    return _Rows(
        rows,
        columns["time_ns"].values[rows],
        columns["operation"].values[rows].astype(np.int64),
        columns["bytes"].filled(0)[rows],
    )
