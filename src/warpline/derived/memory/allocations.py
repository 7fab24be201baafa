"""Memory in use over time, and the blocks in use at its peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.blocks import MOST_BYTES, replayed
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.schema.labels import ALLOCATOR_DEVICES, MEMORY_KINDS, MEMORY_OPERATIONS
from warpline.trace import Trace

FRAMEWORK, DRIVER = 0, 1
ALLOCATORS = ("Framework", "Driver")

_ALLOCATION = next(v for v, label in MEMORY_OPERATIONS.items() if label == "Allocation")
_ON_DEVICE = next(v for v, label in ALLOCATOR_DEVICES.items() if label == "Device")
_NOTHING = -1
_TIME = 3  # position of time_ns in Allocations


@dataclass(frozen=True)
class Allocations:
    """Allocations and frees, by time; ties keep the order of their table.

    Attributes:
        allocator: Shape (n,), int64, positions in `ALLOCATORS`: Framework for rows of
            `allocator_event`, Driver for rows of `memory_event`.
        row: Shape (n,), int64, rows of that table.
        pool: Shape (n,), int64, positions in `pools`.
        time_ns: Shape (n,), int64.
        change_bytes: Shape (n,), int64, negative for frees.
        address: Shape (n,), int64.
        has_address: Shape (n,), bool.
        allocated_bytes: Shape (n,), int64, bytes in use afterwards: as recorded, otherwise summed
            from the start of the recording.
        reserved_bytes: Shape (n,), int64, bytes reserved from the driver.
        has_reserved: Shape (n,), bool, whether the reserved bytes were recorded.
        is_counted: Shape (n,), bool, whether the bytes in use were summed.
        pools: The memory pools.
    """

    allocator: I64
    row: I64
    pool: I64
    time_ns: I64
    change_bytes: I64
    address: I64
    has_address: BoolArray
    allocated_bytes: I64
    reserved_bytes: I64
    has_reserved: BoolArray
    is_counted: BoolArray
    pools: tuple[Pool, ...]

    def __len__(self) -> int:
        return len(self.row)


class Pool(NamedTuple):
    """Memory of one process in one place.

    Attributes:
        allocator: Position in `ALLOCATORS`.
        process: Row of the process table.
        device: Row of the device table; -1 for host memory and if unknown.
        memory: Memory kind, as named in `memory_event` or `allocator_event`.
    """

    allocator: int
    process: int
    device: int
    memory: str


class Peak(NamedTuple):
    """The peak of a pool, and the blocks in use at that time.

    Attributes:
        pool: The memory pool.
        time_ns: First time at which the peak is reached.
        allocated_bytes: Bytes in use.
        reserved_bytes: Bytes reserved from the driver; -1 if not recorded.
        blocks: Shape (k,), int64, positions in `allocations` of the blocks in use, oldest first.
    """

    pool: Pool
    time_ns: int
    allocated_bytes: int
    reserved_bytes: int
    blocks: I64


class _Events(NamedTuple):
    """The rows of one table, in its order."""

    pool_keys: tuple[I64, I64, I64]  # process, device, memory
    time: I64
    change: I64
    address: I64
    has_address: BoolArray
    total: I64
    has_total: BoolArray
    reserved: I64
    has_reserved: BoolArray


@derived
def allocations(trace: Trace) -> Allocations:
    """Return the allocations and frees of the framework's allocator and of the driver."""
    parts: list[tuple[np.ndarray, ...]] = []
    pools: tuple[Pool, ...] = ()
    for allocator, events in enumerate((_of_framework(trace), _of_driver(trace))):
        columns, own_pools = _in_pools(events, allocator, len(pools))
        parts.append(columns)
        pools += own_pools
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(joined[_TIME], kind="stable")
    columns_and_pools: list[Any] = [*(column[order] for column in joined), pools]
    return Allocations(*columns_and_pools)


@derived
def place_of_rows(trace: Trace) -> I64:
    """Return the place in `allocations` of each row of `allocator_event`."""
    events = allocations(trace)
    own = np.flatnonzero(events.allocator == FRAMEWORK)
    place = np.empty(len(own), np.int64)
    place[events.row[own]] = own
    return place


@derived
def memory_peaks(trace: Trace) -> tuple[Peak, ...]:
    """Return the peak of each pool in `Allocations.pools`, in that order."""
    events = allocations(trace)
    until = until_next(trace)
    return tuple(_peak(events, until, number) for number in range(len(events.pools)))


def _peak(events: Allocations, until: I64, number: int) -> Peak:
    members = np.flatnonzero(events.pool == number)
    top = int(members[np.argmax(events.allocated_bytes[members])])
    before = members[members <= top]
    alive = before[(events.change_bytes[before] > 0) & (until[before] > top)]
    reserved = int(events.reserved_bytes[top]) if events.has_reserved[top] else _NOTHING
    return Peak(
        pool=events.pools[number],
        time_ns=int(events.time_ns[top]),
        allocated_bytes=int(events.allocated_bytes[top]),
        reserved_bytes=reserved,
        blocks=alive,
    )


@derived
def until_next(trace: Trace) -> I64:
    """Return for each allocation the position of the event that ends it, len(events) if none.

    The next event at the same address ends it: a free, or an allocation if the free was dropped.
    """
    events = allocations(trace)
    until = np.full(len(events), len(events))
    known = np.flatnonzero(events.has_address)
    if not len(known):
        return until
    group = factorize_rows(events.pool[known], events.address[known]).codes
    order = known[np.argsort(group, kind="stable")]
    sorted_group = np.sort(group, kind="stable")
    same = sorted_group[1:] == sorted_group[:-1]
    until[order[:-1][same]] = order[1:][same]
    return until


def _in_pools(
    events: _Events, allocator: int, n_before: int
) -> tuple[tuple[np.ndarray, ...], tuple[Pool, ...]]:
    """Return one table's columns of `Allocations`, and its pools, numbered from `n_before`."""
    groups = factorize_rows(*events.pool_keys)
    labels = MEMORY_KINDS if allocator == DRIVER else ALLOCATOR_DEVICES
    first = (key[groups.first].tolist() for key in events.pool_keys)
    pools = tuple(
        Pool(allocator, process, device, labels.get(memory, "Unknown"))
        for process, device, memory in zip(*first, strict=True)
    )
    pool = groups.codes.astype(np.int64)
    n = len(events.time)
    columns = (
        np.full(n, allocator),
        np.arange(n),
        pool + n_before,
        events.time,
        events.change,
        events.address,
        events.has_address,
        np.where(events.has_total, events.total, _running(pool, events.change)),
        events.reserved,
        events.has_reserved,
        ~events.has_total,
    )
    return columns, pools


def _running(group: I64, change: I64) -> I64:
    """Return the running sum of changes per group; rows are in order of time."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(change[order])
    first = np.flatnonzero(np.diff(group[order], prepend=_NOTHING))
    before = sums[first] - change[order][first]
    counts = np.diff(first, append=len(order))
    running = np.empty(len(order), np.int64)
    running[order] = sums - np.repeat(before, counts)
    return running


def _plausible(bytes_: I64) -> I64:
    """Return sizes, with 0 for invalid ones from damaged files, whose sums would overflow."""
    return np.where(np.abs(bytes_) <= MOST_BYTES, bytes_, 0)


def _no_events() -> _Events:
    nothing, none = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    keys = (nothing, nothing, nothing)
    return _Events(
        pool_keys=keys,
        time=nothing,
        change=nothing,
        address=nothing,
        has_address=none,
        total=nothing,
        has_total=none,
        reserved=nothing,
        has_reserved=none,
    )


def _of_framework(trace: Trace) -> _Events:
    if not trace.has("allocator_event"):
        return _no_events()
    columns = trace.columns(
        "allocator_event",
        "process_id",
        "device_id",
        "memory",
        "time_ns",
        "operation",
        "bytes",
        "address",
        "total_allocated_bytes",
        "total_reserved_bytes",
    )
    total, reserved = columns["total_allocated_bytes"], columns["total_reserved_bytes"]
    # Host memory has no reserved bytes, and older frameworks wrote 0 bytes in use for it.
    on_device = columns["memory"].values == _ON_DEVICE
    knows_host = bool((total.filled(0)[~on_device] > 0).any())
    size = _plausible(columns["bytes"].values)
    events = _Events(
        pool_keys=(
            columns["process_id"].values.astype(np.int64),
            columns["device_id"].filled(_NOTHING).astype(np.int64),
            columns["memory"].values.astype(np.int64),
        ),
        time=columns["time_ns"].values,
        change=np.where(columns["operation"].values == _ALLOCATION, size, -size),
        address=columns["address"].filled(0),
        has_address=columns["address"].is_valid(),
        total=_plausible(total.filled(0)),
        has_total=total.is_valid() & (on_device | knows_host),
        reserved=_plausible(reserved.filled(0)),
        has_reserved=reserved.is_valid() & on_device,
    )
    return _with_history(trace, events)


def _with_history(trace: Trace, events: _Events) -> _Events:
    """Return events with the sizes and sums of PyTorch's allocator, where these were replayed."""
    if not trace.has("segment_event") or not trace.row_count("segment_event"):
        return events
    found, blocks = replayed(trace), replayed(trace).blocks
    change, total, reserved = events.change.copy(), events.total.copy(), events.reserved.copy()
    is_replayed = np.zeros(len(change), np.bool_)
    existing = trace.columns("allocator_event", "is_existing")["is_existing"].filled(0) > 0
    for number in np.flatnonzero(found.is_history).tolist():
        timeline, own = found.timelines[number], blocks.of(number)
        known = np.flatnonzero(timeline.row >= 0)
        rows = timeline.row[known]
        is_replayed[rows] = True
        total[rows] = timeline.allocated_bytes[known]
        if timeline.reserved_bytes is not None:
            reserved[rows] = timeline.reserved_bytes[known]
        change[blocks.row[own]] = blocks.bytes[own]
        freed = own[blocks.last[own] < len(timeline.row)]
        change[timeline.row[blocks.last[freed]]] = -blocks.bytes[freed]
        before = np.sort(rows[existing[rows]])
        total[before] = np.cumsum(change[before])
    return events._replace(
        change=change,
        total=total,
        has_total=events.has_total | is_replayed,
        reserved=reserved,
        has_reserved=events.has_reserved | is_replayed,
    )


def _of_driver(trace: Trace) -> _Events:
    if not trace.has("memory_event"):
        return _no_events()
    names = ("process_id", "device_id", "memory", "time_ns", "operation", "bytes", "address")
    columns = trace.columns("memory_event", *names)
    size = _plausible(columns["bytes"].values)
    none = np.zeros(len(size), np.bool_)
    return _Events(
        pool_keys=(
            columns["process_id"].values.astype(np.int64),
            columns["device_id"].values.astype(np.int64),
            columns["memory"].filled(_NOTHING).astype(np.int64),
        ),
        time=columns["time_ns"].values,
        change=np.where(columns["operation"].values == _ALLOCATION, size, -size),
        address=columns["address"].values,
        has_address=~none,
        total=np.zeros_like(size),
        has_total=none,
        reserved=np.zeros_like(size),
        has_reserved=none,
    )
