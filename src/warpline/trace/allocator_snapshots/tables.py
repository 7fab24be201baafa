"""The tables of a snapshot.

A snapshot has the segments and blocks at its time, and the events before it, if they were recorded.
Blocks and segments that were there before the history began follow from both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import I64, BoolArray
from warpline.schema import TABLES
from warpline.schema.labels import (
    ALLOCATOR_DEVICES,
    BLOCK_STATES,
    MEMORY_OPERATIONS,
    SEGMENT_OPERATIONS,
)
from warpline.trace.allocator_snapshots.annotations import read_annotations
from warpline.trace.allocator_snapshots.earlier import Ranges, first_events, ranges_before
from warpline.trace.allocator_snapshots.records import (
    Action,
    Records,
    Rows,
    together,
)
from warpline.trace.column import ColumnData, make_column, null_column
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool

Values = npt.ArrayLike | tuple[npt.ArrayLike, BoolArray]  # of a column, and where they are valid

_ON_DEVICE = next(value for value, label in ALLOCATOR_DEVICES.items() if label == "Device")
_LABELS = {
    label: value for value, label in (*MEMORY_OPERATIONS.items(), *SEGMENT_OPERATIONS.items())
}
_STATE = {label: value for value, label in BLOCK_STATES.items()}
_OPERATIONS: Mapping[Action, str] = {
    Action.ALLOCATION: "Allocation",
    Action.FREE: "Deallocation",
    Action.SEGMENT_ALLOCATION: "Segment allocation",
    Action.SEGMENT_RELEASE: "Segment release",
    Action.SEGMENT_MAP: "Segment map",
    Action.SEGMENT_UNMAP: "Segment unmap",
    Action.FREE_COMPLETED: "Free completed",
    Action.OUT_OF_MEMORY: "Out of memory",
    Action.SNAPSHOT: "Snapshot",
}
_OPERATION = np.array([_LABELS[_OPERATIONS[action]] for action in Action])
_ALLOCATION, _DEALLOCATION = (_LABELS[label] for label in ("Allocation", "Deallocation"))
_ALLOCATED, _AWAITING, _INACTIVE = (
    _STATE[label] for label in ("Allocated", "Awaiting free", "Inactive")
)
_NONE = -1
_BLOCKS = (Action.ALLOCATION, Action.FREE)
_TAKES = (Action.SEGMENT_ALLOCATION, Action.SEGMENT_MAP)
_RETURNS = (Action.SEGMENT_RELEASE, Action.SEGMENT_UNMAP)
_GROWS = (Action.SEGMENT_MAP, Action.SEGMENT_UNMAP)

_UTC_NS = range(1_420_000_000 * 10**9, 4_102_000_000 * 10**9)  # other times are of other clocks
_CONFIGURATION = "PYTORCH_CUDA_ALLOC_CONF"
_NO_HISTORY = (
    "no memory history: shown is what was in use when the snapshot was taken; call"
    " torch.cuda.memory._record_memory_history() first"
)
_NO_TIMES = "the memory history has no times: events are 1 ns apart"
_NOT_READ = ("host_segments", "host_traces")


def read_snapshot(
    snapshot: Any, meta: TraceMeta, *, pid: int = 0, to_ns: Callable[[I64], I64] | None = None
) -> SnapshotTables:
    """Return the tables of a snapshot of one process.

    Args:
        snapshot: What torch.cuda.memory._snapshot returned, or its list of segments alone. Frames
            and their lists may be shared. It is not changed.
        meta: Facts about the recording. Added are the allocator's settings, the time of the
            recording, and what is not read.
        pid: Id of the process.
        to_ns: Turns times of the snapshot in us, shape (n,), into times of the trace in ns. None:
            the first event is the origin.

    Raises:
        CorruptTraceError: It is something else, or a field has a wrong type or size.
    """
    top = {"segments": snapshot} if isinstance(snapshot, (list, tuple)) else snapshot
    if not isinstance(top, dict) or not ("segments" in top or "device_traces" in top):
        raise CorruptTraceError(
            "not a memory snapshot of PyTorch",
            hint="write it with torch.cuda.memory._dump_snapshot",
        )
    return _Conversion(top, meta, pid, to_ns).source()


class SnapshotTables:
    """A source with columns in memory.

    Args:
        tables: The tables, each with all columns.
        meta: Facts about the recording.
        strings: The texts.
    """

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, ColumnData]],
        meta: TraceMeta,
        strings: StringPool,
    ) -> None:
        self.meta = meta
        self.strings = strings
        self._tables = tables

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return [name for name in TABLES if name in self._tables]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return len(next(iter(self._tables[table].values())))

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a table."""
        return {name: self._tables[table][name] for name in columns}


class _Conversion:
    """The way from a snapshot to tables."""

    def __init__(
        self,
        top: Mapping[str, Any],
        meta: TraceMeta,
        pid: int,
        to_ns: Callable[[I64], I64] | None,
    ) -> None:
        records = Records()
        self._state = records.state(top.get("segments", ()))
        self._history = history = records.history(top.get("device_traces", ()))
        self._pid = pid
        self._strings = StringPool()
        self._pools = np.array(
            [self._strings.intern_text(name) for name in records.pools], np.int32
        )
        self._stacks, self._stack_rows = records.stacks.tables(self._strings)
        self._annotations = read_annotations(top.get("external_annotations"))
        self._to_ns = to_ns or (lambda time_us: time_us * 1000)
        self._time_ns = _in_order(self._to_ns(history.time_us), history.rows.device)
        self._origin_ns = 0 if to_ns else min(self._time_ns.tolist(), default=0)
        self._time_ns -= self._origin_ns
        self._start_ns = min(self._time_ns.tolist(), default=0)
        self._end_ns = max(self._time_ns.tolist(), default=0)
        self._devices = np.unique(
            np.concatenate([self._state.segments.device, history.rows.device])
        )
        self._earlier, self._earlier_grows = self._earlier_segments()
        self._meta = self._with_facts(meta, top, records, None if to_ns else self._origin_ns)

    def source(self) -> SnapshotTables:
        """Return the tables."""
        tables = {
            "process": _table("process", 1, {"pid": [self._pid]}),
            "thread": _table("thread", 1, {}),
            "device": _table("device", len(self._devices), {"gpu_index": self._devices}),
            "allocator_event": self._allocator_events(),
            "segment_event": self._segment_events(),
            "allocator_segment": self._snapshot_segments(),
            "allocator_block": self._snapshot_blocks(),
            **self._stacks,
        }
        if self._annotations.names:
            tables["range"] = self._ranges()
        return SnapshotTables(tables, self._meta, self._strings)

    def _allocator_events(self) -> dict[str, ColumnData]:
        live, awaiting = self._earlier_blocks()
        chosen = np.flatnonzero(_is_any(self._history.action, _BLOCKS))
        rows = together([live, awaiting, awaiting, self._history.rows.take(chosen)])
        is_free = self._history.action[chosen] == Action.FREE.value
        n_before = rows.length - len(chosen)
        operation = np.concatenate(
            [
                np.full(live.length + awaiting.length, _ALLOCATION),
                np.full(awaiting.length, _DEALLOCATION),
                np.where(is_free, _DEALLOCATION, _ALLOCATION),
            ]
        )
        before_ns = np.full(n_before, self._start_ns - 1)
        reserved = self._reserved_bytes()
        return _table(
            "allocator_event",
            rows.length,
            {
                **self._shared(rows),
                "time_ns": np.concatenate([before_ns, self._time_ns[chosen]]),
                "memory": np.full(rows.length, _ON_DEVICE),
                "operation": operation,
                "total_reserved_bytes": np.concatenate(
                    [
                        self._reserved_before()[self._place_of(rows.device[:n_before])],
                        reserved[chosen],
                    ]
                ),
                "is_existing": np.arange(rows.length) < n_before,
            },
        )

    def _segment_events(self) -> dict[str, ColumnData]:
        earlier, action = self._earlier, self._history.action
        chosen = np.flatnonzero(~_is_any(action, _BLOCKS))
        rows = together([earlier, self._history.rows.take(chosen)])
        action = np.concatenate(
            [
                np.where(
                    self._earlier_grows,
                    Action.SEGMENT_MAP.value,
                    Action.SEGMENT_ALLOCATION.value,
                ),
                action[chosen],
            ]
        )
        is_failure = action == Action.OUT_OF_MEMORY.value
        has_place = ~is_failure & (action != Action.SNAPSHOT.value)
        free = np.concatenate(
            [np.zeros(earlier.length, np.int64), self._history.free_bytes[chosen]]
        )
        before_ns = np.full(earlier.length, self._start_ns - 1)
        return _table(
            "segment_event",
            rows.length,
            {
                **self._shared(rows),
                "time_ns": np.concatenate([before_ns, self._time_ns[chosen]]),
                "operation": _OPERATION[action],
                "address": (rows.address, has_place),
                "free_bytes": (free, is_failure),
                "is_existing": np.arange(rows.length) < earlier.length,
            },
        )

    def _snapshot_segments(self) -> dict[str, ColumnData]:
        state = self._state
        return _table(
            "allocator_segment",
            state.segments.length,
            {
                **self._shared(state.segments),
                "time_ns": np.full(state.segments.length, self._end_ns),
                "is_large": (state.kind == 1, state.kind >= 0),
                "is_expandable": state.is_expandable,
            },
        )

    def _snapshot_blocks(self) -> dict[str, ColumnData]:
        state = self._state
        return _table(
            "allocator_block",
            state.blocks.length,
            {
                **self._shared(state.blocks),
                "time_ns": np.full(state.blocks.length, self._end_ns),
                "segment_address": state.segments.address[state.segment],
                "requested_bytes": (state.requested_bytes, state.state != _INACTIVE),
                "state": state.state,
            },
        )

    def _ranges(self) -> dict[str, ColumnData]:
        found = self._annotations
        start_ns, end_ns = (
            self._to_ns(times) - self._origin_ns for times in (found.start_us, found.end_us)
        )
        end_ns = np.where(found.is_open, np.maximum(start_ns, self._end_ns), end_ns)
        return _table(
            "range",
            len(start_ns),
            {
                "start_ns": start_ns,
                "end_ns": end_ns,
                "name_id": [self._strings.intern_text(name) for name in found.names],
                "is_truncated": found.is_open,
                "source_id": np.arange(len(start_ns)),
            },
        )

    def _shared(self, rows: Rows) -> dict[str, Values]:
        """Return the columns that several tables have."""
        stacks = self._stack_rows[rows.stack]
        pools = self._pools[rows.pool] if len(self._pools) else rows.pool
        return {
            "device_id": self._place_of(rows.device),
            "address": rows.address,
            "bytes": rows.bytes,
            "stream": (rows.stream, rows.has_stream),
            "pool_id": (pools, rows.pool >= 0),
            "stack_id": (stacks, stacks >= 0),
        }

    def _place_of(self, devices: I64) -> I64:
        """Return the row of each device."""
        return np.searchsorted(self._devices, devices)

    def _earlier_blocks(self) -> tuple[Rows, Rows]:
        """Return the blocks before the first event: those in use, and those awaiting their free.

        A block was there if the first event at its address is its free, or the end of that, or if
        it is in use in the end and there is no event.
        """
        history, state = self._history, self._state
        of_blocks = np.flatnonzero(_is_any(history.action, (*_BLOCKS, Action.FREE_COMPLETED)))
        events = history.rows.take(of_blocks)
        first = first_events(
            (events.device, events.address), (state.blocks.device, state.blocks.address)
        )
        # The stacks of events are of frees, which say nothing about the allocation.
        events = events._replace(stack=np.full(events.length, _NONE, np.int32))
        blocks = state.blocks._replace(bytes=state.requested_bytes)
        action = history.action[of_blocks]
        live = [
            events.take(first.of_event & (action == Action.FREE.value)),
            blocks.take(~first.of_block & (state.state == _ALLOCATED)),
        ]
        awaiting = [
            events.take(first.of_event & (action == Action.FREE_COMPLETED.value)),
            blocks.take(~first.of_block & (state.state == _AWAITING)),
        ]
        return together(live), together(awaiting)

    def _earlier_segments(self) -> tuple[Rows, BoolArray]:
        """Return the segments before the first event, and whether they grow in pieces."""
        history, state = self._history, self._state
        of_segments = np.flatnonzero(_is_any(history.action, (*_TAKES, *_RETURNS)))
        events = history.rows.take(of_segments)
        every = together([events, state.segments])
        is_end = _is_any(history.action[of_segments], _RETURNS)
        grows = np.concatenate([_is_any(history.action[of_segments], _GROWS), state.is_expandable])
        # As above: stacks of events are of the release.
        every.stack[: events.length] = _NONE
        parts = [every.take(np.zeros(0, np.int64))]
        causes = [np.zeros(0, np.int64)]
        for device in self._devices.tolist():
            members = np.flatnonzero(every.device == device)
            n_events = int(np.count_nonzero(members < events.length))
            ranges = Ranges(every.address[members], every.bytes[members])
            earlier, cause = ranges_before(
                Ranges(*(column[:n_events] for column in ranges)),
                is_end[members[:n_events]],
                Ranges(*(column[n_events:] for column in ranges)),
            )
            found = every.take(members[cause])
            parts.append(found._replace(address=earlier.address, bytes=earlier.bytes))
            causes.append(members[cause])
        return together(parts), grows[np.concatenate(causes)]

    def _reserved_before(self) -> I64:
        """Return the bytes of earlier segments of each device."""
        sums = np.zeros(max(len(self._devices), 1), np.int64)
        np.add.at(sums, self._place_of(self._earlier.device), self._earlier.bytes)
        return sums

    def _reserved_bytes(self) -> I64:
        """Return the reserved bytes of its device after each event."""
        history = self._history
        sign = _is_any(history.action, _TAKES) * 1 - _is_any(history.action, _RETURNS) * 1
        change, found = sign * history.rows.bytes, np.zeros(len(sign), np.int64)
        for place, before in enumerate(self._reserved_before()[: len(self._devices)].tolist()):
            members = np.flatnonzero(history.rows.device == self._devices[place])
            found[members] = before + np.cumsum(change[members])
        return found

    def _with_facts(
        self, meta: TraceMeta, top: Mapping[str, Any], records: Records, origin_ns: int | None
    ) -> TraceMeta:
        """Return the facts about the recording with those of the snapshot."""
        settings = top.get("allocator_settings")
        configuration = settings.get(_CONFIGURATION) if isinstance(settings, dict) else None
        environment = {_CONFIGURATION: configuration} if isinstance(configuration, str) else {}
        n_events = len(self._time_ns)
        unread = {
            name: len(value)
            for name, value in ((name, top.get(name)) for name in _NOT_READ)
            if isinstance(value, (list, tuple)) and value
        }
        warnings = () if n_events else (_NO_HISTORY,)
        if n_events and not self._history.has_time.all():
            warnings = (*warnings, _NO_TIMES)
        meta = replace(
            meta,
            environment={**meta.environment, **{k: v for k, v in environment.items() if v}},
            unread={**meta.unread, **unread, **records.unread},
            warnings=(*meta.warnings, *warnings),
        )
        if origin_ns is None:
            return meta
        return replace(
            meta,
            origin_utc_ns=origin_ns if origin_ns in _UTC_NS else None,
            span_ns=(self._start_ns, self._end_ns),
        )


def _in_order(times_ns: I64, device: I64) -> I64:
    """Return times of which those of a device ascend, 1 ns apart at least.

    The history has them in us, from clocks of several CPUs; its order is the allocator's.
    """
    found = times_ns.copy()
    for each in np.unique(device).tolist():
        members = np.flatnonzero(device == each)
        place = np.arange(len(members))
        found[members] = np.maximum.accumulate(times_ns[members] - place) + place
    return found


def _is_any(action: I64, chosen: Sequence[Action]) -> BoolArray:
    return np.isin(action, [each.value for each in chosen])


def _table(name: str, count: int, values: Mapping[str, Values]) -> dict[str, ColumnData]:
    """Return a table with the given columns; others are null, or 0 where that is not allowed."""
    table = {}
    for column in TABLES[name].columns:
        given = values.get(column.name)
        if isinstance(given, tuple):
            table[column.name] = make_column(column, *given)
        elif given is not None:
            table[column.name] = make_column(column, given)
        elif column.nullable:
            table[column.name] = null_column(column, count)
        else:
            table[column.name] = make_column(column, np.zeros(count, np.int64))
    return table
