"""Blocks of the framework's caching allocator on GPUs, and its bytes over time.

PyTorch's memory history (its snapshots) has requested bytes, segments and completed frees: the
allocator is replayed, and the bytes are those of torch.cuda.memory_stats. PyTorch's profiler has
sizes of blocks, bytes in use and bytes reserved, but no segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.caching_allocator import NEVER, CachingAllocator, Change, Event
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.schema.labels import ALLOCATOR_DEVICES, MEMORY_OPERATIONS, SEGMENT_OPERATIONS
from warpline.trace import Trace

__all__ = ["NEVER", "Blocks", "Replayed", "Timeline", "replayed"]

MOST_BYTES = 1 << 50  # larger sizes are invalid: no machine has this much memory

_NONE = -1
_ALLOCATION = next(v for v, label in MEMORY_OPERATIONS.items() if label == "Allocation")
_ON_DEVICE = next(v for v, label in ALLOCATOR_DEVICES.items() if label == "Device")
_EVENTS = {
    "Segment allocation": Event.SEGMENT_ALLOCATION,
    "Segment map": Event.SEGMENT_MAP,
    "Free completed": Event.FREE_COMPLETED,
    "Segment release": Event.SEGMENT_RELEASE,
    "Segment unmap": Event.SEGMENT_UNMAP,
}
# The order of events of one time: allocations and frees stay in the order of their table.
_RANK = np.array([0, 0, 1, 1, 2, 3, 3])


class Timeline(NamedTuple):
    """The bytes of the allocator of one GPU in one process after each of its events.

    All arrays have shape (n,) and type int64, and are in the order of the events.

    Attributes:
        process: Row of the process table.
        device: Row of the device table.
        time_ns: Time of the event.
        allocated_bytes: Of blocks in use by the program.
        reserved_bytes: Got from the driver; None if it was not recorded.
        active_bytes: Of blocks in use by the program or, after it freed them, by streams; None
            without memory history, as the following ones.
        requested_bytes: What the program requested of active blocks.
        inactive_split_bytes: Free parts of segments that have active blocks, and so cannot be
            returned to the driver. Expandable segments do not count.
        large_split_bytes: The part of these in the pool of blocks above 1 MiB.
        row: The row of allocator_event of the event, -1 for those of segment_event.
    """

    process: int
    device: int
    time_ns: I64
    allocated_bytes: I64
    reserved_bytes: I64 | None
    active_bytes: I64 | None
    requested_bytes: I64 | None
    inactive_split_bytes: I64 | None
    large_split_bytes: I64 | None
    row: I64

    @property
    def peak(self) -> int:
        """The first event after which most bytes are allocated."""
        return int(np.argmax(self.allocated_bytes))


@dataclass(frozen=True)
class Blocks:
    """The blocks of all allocators, each allocator's in the order of their allocation.

    All arrays have shape (n,) and type int64.

    Attributes:
        allocator: Place in `Replayed.timelines`.
        address: Where the block begins; unsigned 64-bit values wrap.
        bytes: Its size.
        requested_bytes: The size that was requested.
        segment: Where its segment begins; -1 if that can grow, or is unknown.
        start_ns: When it was allocated.
        freed_ns: When the program freed it; `NEVER` if it did not.
        first: The event that allocated it, a place in its timeline.
        last: The event that freed it, or the number of events.
        row: The row of allocator_event that allocated it.
    """

    allocator: I64
    address: I64
    bytes: I64
    requested_bytes: I64
    segment: I64
    start_ns: I64
    freed_ns: I64
    first: I64
    last: I64
    row: I64

    def __len__(self) -> int:
        return len(self.address)

    def of(self, allocator: int) -> I64:
        """Return the blocks of one allocator."""
        return np.flatnonzero(self.allocator == allocator)

    def alive(self, allocator: int, event: int) -> I64:
        """Return the blocks of an allocator that are in use after one of its events."""
        is_alive = (self.allocator == allocator) & (self.first <= event) & (self.last > event)
        return np.flatnonzero(is_alive)


class Replayed(NamedTuple):
    """What allocators did.

    Attributes:
        timelines: Of each GPU of each process.
        blocks: Their blocks.
        unknown: Shape (timelines,), events that do not fit, as others were not recorded.
        is_history: Shape (timelines,), bool, whether PyTorch's memory history was recorded.
    """

    timelines: tuple[Timeline, ...]
    blocks: Blocks
    unknown: I64
    is_history: BoolArray


class _Events(NamedTuple):
    """Events of all allocators, in any order. All have shape (n,)."""

    process: I64
    device: I64
    time: I64
    event: I64
    address: I64
    size: I64
    is_existing: BoolArray
    row: I64


@derived
def replayed(trace: Trace) -> Replayed:
    """Return what the allocators of GPUs did; no timelines without events of device memory."""
    parts = [part for part in (_allocations(trace), _segments(trace)) if part is not None]
    if not parts:
        return _nothing()
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    events = _Events(*columns)
    groups = factorize_rows(events.process, events.device)
    found: list[tuple[Timeline, list[I64], int, bool]] = []
    for number in range(groups.n_groups):
        own = np.flatnonzero(groups.codes == number)
        if (events.row[own] >= 0).any():
            chosen: list[Any] = [column[own] for column in events]
            found.append(_replay(trace, _Events(*chosen), len(found)))
    if not found:
        return _nothing()
    timelines, blocks, unknown, is_history = zip(*found, strict=True)
    joined = Blocks(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    return Replayed(timelines, joined, np.array(unknown), np.array(is_history))


def _nothing() -> Replayed:
    none = np.zeros(0, np.int64)
    fields = Blocks.__dataclass_fields__
    return Replayed((), Blocks(*(none for _ in fields)), none, np.zeros(0, np.bool_))


def _replay(trace: Trace, given: _Events, number: int) -> tuple[Timeline, list[I64], int, bool]:
    """Return the timeline of one allocator, the columns of its blocks, and unknown events."""
    order = _order(given)
    ordered: list[Any] = [column[order] for column in given]
    events = _Events(*ordered)
    is_history = bool((events.row < 0).any())
    completes = bool((events.event == int(Event.FREE_COMPLETED)).any())
    allocator = CachingAllocator(rounds=is_history, completes=completes)
    columns = (events.event, events.time, events.address, events.size)
    steps = zip(*(column.tolist() for column in columns), strict=True)
    changes = np.array([allocator.take(*step) for step in steps], np.int64).reshape(
        -1, len(Change._fields)
    )
    bytes_ = np.cumsum(changes[:, :-1], axis=0)
    timeline = _timeline(trace, events, bytes_, is_history=is_history)
    blocks = _blocks(allocator, events, changes[:, -1], number)
    return timeline, blocks, allocator.unknown, is_history


def _order(events: _Events) -> I64:
    """Return the events in order.

    Blocks that were there before come first, from the last one on, because a block may end where
    the next one begins.
    """
    before = events.is_existing
    time = np.where(before, 0, events.time)
    tie = np.where(before, -events.address, 0)
    return np.lexsort((np.arange(len(tie)), tie, _RANK[events.event], time, ~before))


def _timeline(trace: Trace, events: _Events, bytes_: I64, *, is_history: bool) -> Timeline:
    process, device = int(events.process[0]), int(events.device[0])
    if is_history:
        allocated, active, requested, reserved, split, large = np.ascontiguousarray(bytes_.T)
        of_history = (reserved, active, requested, split, large)
        return Timeline(process, device, events.time, allocated, *of_history, events.row)
    names = ("total_allocated_bytes", "total_reserved_bytes")
    total, reserved = (
        column.take(events.row) for column in trace.columns("allocator_event", *names).values()
    )
    allocated = _plausible(total.values) if total.is_valid().all() else bytes_[:, 0]
    known = _plausible(reserved.values) if reserved.is_valid().all() else None
    of_profiler = (known, None, None, None, None)
    return Timeline(process, device, events.time, allocated, *of_profiler, events.row)


def _blocks(allocator: CachingAllocator, events: _Events, block: I64, number: int) -> list[I64]:
    """Return the columns of `Blocks`."""
    found, n_events = allocator.blocks, len(block)
    columns = [
        np.array([getattr(each, name) for each in found], np.int64)
        for name in ("address", "bytes", "requested", "segment", "start", "freed")
    ]
    first, last = np.zeros(len(found), np.int64), np.full(len(found), n_events)
    begins = np.flatnonzero((events.event == int(Event.ALLOCATION)) & (block >= 0))
    first[block[begins]] = begins
    ends = np.flatnonzero((events.event == int(Event.FREE)) & (block >= 0))
    last[block[ends]] = ends
    # A block whose free was not recorded ends with the next one at its address.
    dropped = np.flatnonzero((columns[5] != NEVER) & (last == n_events))
    last[dropped] = np.searchsorted(events.time, columns[5][dropped], side="left")
    return [np.full(len(found), number), *columns, first, last, events.row[first]]


def _allocations(trace: Trace) -> _Events | None:
    """Return allocations and frees of device memory that have an address."""
    if not trace.has("allocator_event") or not trace.row_count("allocator_event"):
        return None
    names = ("process_id", "device_id", "time_ns", "operation", "address", "bytes", "memory")
    columns = trace.columns("allocator_event", *names, "is_existing")
    is_meant = (columns["memory"].values == _ON_DEVICE) & columns["device_id"].is_valid()
    rows = np.flatnonzero(is_meant & columns["address"].is_valid())
    process, device, time, operation, address, size = (
        columns[name].values[rows].astype(np.int64) for name in names[:-1]
    )
    event = np.where(operation == _ALLOCATION, int(Event.ALLOCATION), int(Event.FREE))
    existing = columns["is_existing"].filled(0)[rows].astype(np.bool_)
    return _Events(process, device, time, event, address, _plausible(size), existing, rows)


def _segments(trace: Trace) -> _Events | None:
    """Return what happened to segments, and completed frees."""
    if not trace.has("segment_event") or not trace.row_count("segment_event"):
        return None
    names = ("process_id", "device_id", "time_ns", "operation", "address", "bytes")
    columns = trace.columns("segment_event", *names, "is_existing")
    codes = np.full(len(SEGMENT_OPERATIONS) + 1, _NONE)
    for value, label in SEGMENT_OPERATIONS.items():
        codes[value] = int(_EVENTS[label]) if label in _EVENTS else _NONE
    event = codes[columns["operation"].values]
    is_meant = (event >= 0) & columns["device_id"].is_valid()
    rows = np.flatnonzero(is_meant & columns["address"].is_valid())
    process, device, time, _, address, size = (
        columns[name].filled(0)[rows].astype(np.int64) for name in names
    )
    existing = columns["is_existing"].filled(0)[rows].astype(np.bool_)
    none = np.full(len(rows), _NONE)
    return _Events(process, device, time, event[rows], address, _plausible(size), existing, none)


def _plausible(bytes_: I64) -> I64:
    """Return sizes, with 0 for invalid ones from damaged files, whose sums would overflow."""
    return np.where((bytes_ >= 0) & (bytes_ <= MOST_BYTES), bytes_, 0)
