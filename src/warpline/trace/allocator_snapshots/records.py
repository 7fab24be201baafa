"""The segments, blocks and events of a snapshot, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.trace.allocator_snapshots.fields import flags, items_of, numbers, texts
from warpline.trace.allocator_snapshots.stacks import Stacks
from warpline.vocabulary import Vocabulary

MOST_BYTES = 1 << 50  # no machine has this much memory
_MOST_US = 1 << 53
_MOST_DEVICES = 1 << 10
_NONE = -1

_KNOWN_UNREAD = ("annotate", "user_defined")
_STATES = {
    "active_allocated": 0,
    "active_pending_free": 1,
    "active_awaiting_free": 1,
    "inactive": 2,
}
_KINDS = {"small": 0, "large": 1}


class Action(Vocabulary):
    """What the allocator did, as in entries of a history."""

    ALLOCATION = "alloc"
    FREE = "free_requested"
    SEGMENT_ALLOCATION = "segment_alloc"
    SEGMENT_RELEASE = "segment_free"
    SEGMENT_MAP = "segment_map"
    SEGMENT_UNMAP = "segment_unmap"
    FREE_COMPLETED = "free_completed"
    OUT_OF_MEMORY = "oom"
    SNAPSHOT = "snapshot"


class Rows(NamedTuple):
    """What events, segments and blocks have, as columns of shape (n,).

    Attributes:
        device: int64, index of the GPU.
        address: int64.
        bytes: int64.
        stream: int64, and whether it is known.
        has_stream: bool.
        pool: int32, place in the texts of pools; -1 for the default pool.
        stack: int32, number in `Stacks`; -1 for none.
    """

    device: I64
    address: I64
    bytes: I64
    stream: I64
    has_stream: BoolArray
    pool: I32
    stack: I32

    @property
    def length(self) -> int:
        """The number of rows."""
        return len(self.device)

    def take(self, rows: I64 | BoolArray) -> Rows:
        """Return some of them."""
        columns: list[Any] = [column[rows] for column in self]
        return Rows(*columns)


def together(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, in their order."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Rows(*columns)


class History(NamedTuple):
    """Events, those of a device in their order.

    Attributes:
        rows: Shape (n,). Addresses of failures are 0.
        action: Shape (n,), int64, members of `Action`.
        time_us: Shape (n,), int64, and whether it is known.
        has_time: Shape (n,), bool.
        free_bytes: Shape (n,), int64, free memory of the device for failures, else 0.
    """

    rows: Rows
    action: I64
    time_us: I64
    has_time: BoolArray
    free_bytes: I64


class State(NamedTuple):
    """The segments when the snapshot was taken, and the blocks in them.

    Attributes:
        segments: Shape (n,).
        kind: Shape (n,), int64: 0 for small blocks, 1 for large ones, -1 if unknown.
        is_expandable: Shape (n,), bool.
        blocks: Shape (m,).
        segment: Shape (m,), int64, the segment of each block.
        requested_bytes: Shape (m,), int64.
        state: Shape (m,), int64, of `schema.labels.BLOCK_STATES`.
    """

    segments: Rows
    kind: I64
    is_expandable: BoolArray
    blocks: Rows
    segment: I64
    requested_bytes: I64
    state: I64


class Records:
    """Reads the lists of a snapshot.

    Attributes:
        stacks: The stacks that were met.
        pools: The names of private pools that were met, by their number.
        unread: The number of events of each kind that is not known.
    """

    def __init__(self) -> None:
        self.stacks = Stacks()
        self.pools: dict[str, int] = {}
        self.unread: dict[str, int] = {}

    def history(self, traces: Any) -> History:
        """Return the events of a list with a list per device.

        Raises CorruptTraceError for anything else.
        """
        if not isinstance(traces, (list, tuple)) or len(traces) > _MOST_DEVICES:
            raise CorruptTraceError("device_traces is not a list with a history per device")
        # Each entry takes space in the file, unless a history is there several times.
        if len({id(each) for each in traces if each}) < sum(1 for each in traces if each):
            raise CorruptTraceError("two devices share a history")
        parts = [self._device(items, device) for device, items in enumerate(traces)]
        if not parts:
            parts = [self._device((), 0)]
        rows = together([part.rows for part in parts])
        rest = zip(*(part[1:] for part in parts), strict=True)
        return History(rows, *(np.concatenate(columns) for columns in rest))

    def _device(self, value: Any, device: int) -> History:
        place = f"device_traces[{device}]"
        items = items_of(value, place)
        names = [str(name) for name in texts(items, "action", place)]
        known = {action.label: action.value for action in Action}
        unknown = [name for name in names if name not in known]
        if unknown:
            for name in unknown:
                shown = name if name in _KNOWN_UNREAD else "unknown memory events"
                self.unread[shown] = self.unread.get(shown, 0) + 1
            items = [item for item in items if item["action"] in known]
            names = [name for name in names if name in known]
        action = np.array([known[name] for name in names], np.int64)
        time, has_time = numbers(items, "time_us", place, below=_MOST_US)
        rows = self._rows(items, place, address="addr", size="size", pool="pool_id")
        if (rows.bytes[np.isin(action, _SUMMED)] >= MOST_BYTES).any():
            raise CorruptTraceError(f"{place}: a size is more than {MOST_BYTES} bytes")
        free, _ = numbers(items, "device_free", place)
        devices = np.full(len(items), device)
        return History(rows._replace(device=devices), action, time, has_time, free)

    def state(self, value: Any) -> State:
        """Return the segments in a list and their blocks.

        Raises CorruptTraceError for anything else.
        """
        items = items_of(value, "segments")
        segments = self._rows(
            items, "segments", address="address", size="total_size", pool="segment_pool_id"
        )
        device, _ = numbers(items, "device", "segments", below=_MOST_DEVICES)
        is_expandable, _ = flags(items, "is_expandable", "segments")
        kinds = texts(items, "segment_type", "segments")
        lists = [
            items_of(item.get("blocks", ()), f"segments[{n}].blocks")
            for n, item in enumerate(items)
        ]
        if len({id(each) for each in lists if each}) < sum(1 for each in lists if each):
            raise CorruptTraceError("two segments share their blocks")
        blocks = [block for each in lists for block in each]
        segment = np.repeat(np.arange(len(items)), [len(each) for each in lists])
        rows = self._rows(blocks, "blocks", address="", size="size", pool="")
        requested, is_known = numbers(blocks, "requested_size", "blocks", below=MOST_BYTES)
        if max(rows.bytes.max(initial=0), segments.bytes.max(initial=0)) >= MOST_BYTES:
            raise CorruptTraceError(f"segments: a size is more than {MOST_BYTES} bytes")
        of_segment = segments.take(segment)
        return State(
            segments._replace(device=device),
            np.array([_KINDS.get(kind or "", _NONE) for kind in kinds], np.int64),
            is_expandable,
            rows._replace(
                device=device[segment],
                address=of_segment.address + _offsets(rows.bytes, segment),
                stream=of_segment.stream,
                has_stream=of_segment.has_stream,
                pool=of_segment.pool,
            ),
            segment,
            np.where(is_known, requested, rows.bytes),
            _states(blocks),
        )

    def _rows(
        self, items: Sequence[Mapping[str, Any]], place: str, *, address: str, size: str, pool: str
    ) -> Rows:
        """Return the columns that all lists have, by their keys; the device is still missing."""
        stream, has_stream = numbers(items, "stream", place)
        return Rows(
            np.zeros(len(items), np.int64),
            numbers(items, address, place)[0],
            numbers(items, size, place)[0],
            stream,
            has_stream,
            self._pools(items, pool, place),
            self.stacks.of(items, place),
        )

    def _pools(self, items: Sequence[Mapping[str, Any]], key: str, place: str) -> I32:
        """Return the private pool of each item: a pair of numbers, both 0 for the default pool."""
        found: dict[tuple[int, int], int] = {}
        numbers_of = np.full(len(items), _NONE, np.int32)
        for row, item in enumerate(items):
            value = item.get(key)
            if value is None:
                continue
            pair = tuple(value) if isinstance(value, list) else value
            if type(pair) is not tuple or len(pair) != 2 or {*map(type, pair)} != {int}:
                raise CorruptTraceError(f"{place}[{row}]: {key} is not a pair of numbers")
            number = found.get(pair)
            if number is None:
                number = found[pair] = self._pool(pair)
            numbers_of[row] = number
        return numbers_of

    def _pool(self, pair: tuple[int, int]) -> int:
        if pair == (0, 0):
            return _NONE
        return self.pools.setdefault(f"{pair[0]}.{pair[1]}", len(self.pools))


_SUMMED = [
    Action.ALLOCATION.value,
    Action.FREE.value,
    Action.SEGMENT_ALLOCATION.value,
    Action.SEGMENT_RELEASE.value,
    Action.SEGMENT_MAP.value,
    Action.SEGMENT_UNMAP.value,
    Action.FREE_COMPLETED.value,
]


def _states(blocks: Sequence[Mapping[str, Any]]) -> I64:
    names = texts(blocks, "state", "blocks")
    for row, name in enumerate(names):
        if name not in _STATES:
            raise CorruptTraceError(f"blocks[{row}]: state {str(name)[:40]!r} is unknown")
    return np.array([_STATES[name] for name in names if name is not None], np.int64)


def _offsets(sizes: I64, segment: I64) -> I64:
    """Return the sum of the sizes before each block in its segment."""
    before = np.cumsum(sizes) - sizes
    first = np.searchsorted(segment, segment)
    return before - before[first]
