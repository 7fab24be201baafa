"""Rows of device memory over time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived.memory.allocations import FRAMEWORK, Pool, allocations
from warpline.ops.arrays import I64, Integers
from warpline.schema.labels import MEMORY_KINDS, MEMORY_OPERATIONS
from warpline.trace import Trace
from warpline.viewer.names import Names, category
from warpline.viewer.rows import Events, Row

_ALLOCATION = next(key for key, label in MEMORY_OPERATIONS.items() if label == "Allocation")
_DEVICE = "Device"
_DEVICE_MEMORY = {
    key for key, label in MEMORY_KINDS.items() if label in {"Device", "Device Static", "Array"}
}


def memory_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the memory rows of each device."""
    yield from _driver_memory(trace, names)
    yield from _framework_memory(trace, names)


def _driver_memory(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the device memory allocated from the driver since the start of the recording."""
    if not trace.has("memory_event") or not trace.row_count("memory_event"):
        return
    keys = ("time_ns", "device_id", "operation", "memory", "bytes")
    columns = trace.columns("memory_event", *keys)
    time, device, operation = (columns[key].values for key in keys[:3])
    memory, size = columns["memory"].filled(-1), columns["bytes"].values
    counted = np.isin(memory, [-1, *_DEVICE_MEMORY])
    change = np.where(operation == _ALLOCATION, size, -size)
    for one in np.unique(device[counted]).tolist():
        rows = np.flatnonzero(counted & (device == one))
        rows = rows[np.argsort(time[rows], kind="stable")]
        total = np.cumsum(change[rows])
        # Blocks allocated before the recording may be freed in it: the smallest sum is taken as 0.
        total = total - min(int(total.min()), 0)
        yield _row(names, one, "memory", "driver memory", "bytes", time[rows], total)


def _framework_memory(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the allocated and the reserved memory of the framework's allocator."""
    if not trace.has("allocator_event") or not trace.row_count("allocator_event"):
        return
    events = allocations(trace)
    device = np.array([_device_of(pool) for pool in events.pools], np.int64)[events.pool]
    series = (
        ("total_allocated_bytes", "allocated memory", events.allocated_bytes, device >= 0),
        ("total_reserved_bytes", "reserved memory", events.reserved_bytes, events.has_reserved),
    )
    for key, label, values, is_known in series:
        for one in np.unique(device[is_known & (device >= 0)]).tolist():
            rows = np.flatnonzero(is_known & (device == one))
            yield _row(names, one, key, label, "bytes", events.time_ns[rows], values[rows])


def _device_of(pool: Pool) -> int:
    """Return the device of a framework's pool; -1 for any other."""
    is_shown = pool.allocator == FRAMEWORK and pool.memory == _DEVICE
    return pool.device if is_shown else -1


def _row(
    names: Names, device: int, key: str, label: str, unit: str, time: I64, value: Integers
) -> Row:
    end = np.append(time[1:], time[-1:])
    name = np.full(len(time), names.add(label, category("counter")))
    events = Events(time, end, name, value=value.astype(np.float64))
    return Row(
        f"gpu{device}/{key}",
        f"gpu{device}",
        label,
        "counter",
        device=device,
        unit=unit,
        events=events,
    )
