"""What a program takes of each GPU's memory at its peak, and what was free for it.

Allocations are exact, but contexts and code take memory, too, that only the driver's readings
(NVML) have: what is in use, less what was in use before, less what is allocated at that moment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import DRIVER, FRAMEWORK, Allocations, allocations
from warpline.frozen import frozen
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace

_ON_DEVICE = frozenset({"Device", "Array", "Device Static"})  # of schema.labels.MEMORY_KINDS
_AROUND_NS = 10_000_000  # a reading and an allocation this near may be in either order


@frozen
class DevicePeak:
    """The memory of one GPU that a program takes at its peak, in bytes.

    Attributes:
        device: Row of the device table.
        peak_bytes: Memory at the peak.
        source: Where that is from: ``CUDA allocations``, ``the framework's allocator``, or
            ``readings``, which may miss a short peak.
        has_readings: Whether memory of contexts and code is in it: there are readings.
        limit_bytes: What was free for the program: memory of the GPU less that of others; None if
            unknown.
        allocated_bytes: What the framework had allocated at most; None if that was not recorded.
    """

    device: int
    peak_bytes: int
    source: str
    has_readings: bool
    limit_bytes: int | None
    allocated_bytes: int | None


class _Readings(NamedTuple):
    """Readings of one GPU, in order: their times and the memory of all processes in use."""

    start_ns: I64
    end_ns: I64
    used_bytes: I64
    base_bytes: int  # of other processes


class _Curve(NamedTuple):
    """Bytes after each of some times, in order; 0 before."""

    time_ns: I64
    bytes: I64

    def most_around(self, start_ns: int, end_ns: int) -> int:
        """Return the most bytes about a span."""
        first = int(np.searchsorted(self.time_ns, start_ns - _AROUND_NS, "right")) - 1
        last = int(np.searchsorted(self.time_ns, end_ns + _AROUND_NS, "right"))
        return int(self.bytes[max(first, 0) : last].max(initial=0)) if last else 0


@derived
def device_peaks(trace: Trace) -> tuple[DevicePeak, ...]:
    """Return the peaks of the GPUs of which anything is known, in the order of their table."""
    count = trace.row_count("device") if trace.has("device") else 0
    events = allocations(trace)
    sizes = trace.columns("device", "memory_bytes")["memory_bytes"].to_list() if count else []
    found = (_peak(trace, events, device, sizes[device]) for device in range(count))
    return tuple(peak for peak in found if peak is not None)


def _peak(trace: Trace, events: Allocations, device: int, size: int | None) -> DevicePeak | None:
    readings = _readings(trace, device)
    driver = _summed(events, device, DRIVER, events.allocated_bytes)
    allocated = _summed(events, device, FRAMEWORK, events.allocated_bytes)
    reserved = _summed(events, device, FRAMEWORK, events.reserved_bytes, events.has_reserved)
    curve, source = driver, "CUDA allocations"
    if not len(curve.time_ns):
        curve, source = reserved, "the framework's allocator"
    base = readings.base_bytes if readings is not None else 0
    if len(curve.time_ns):
        peak = int(curve.bytes.max(initial=0))
        peak += _beside(curve, readings) if readings is not None else 0
    elif readings is not None:
        peak, source = int(readings.used_bytes.max()) - base, "readings"
    else:
        return None
    return DevicePeak(
        device=device,
        peak_bytes=peak,
        source=source,
        has_readings=readings is not None,
        limit_bytes=size - base if size else None,
        allocated_bytes=int(allocated.bytes.max()) if len(allocated.time_ns) else None,
    )


def _beside(curve: _Curve, readings: _Readings) -> int:
    """Return the program's memory that is not among its allocations: of contexts and code."""
    spans = zip(readings.start_ns.tolist(), readings.end_ns.tolist(), strict=True)
    allocated = np.array([curve.most_around(*span) for span in spans])
    return max(int((readings.used_bytes - readings.base_bytes - allocated).max()), 0)


def _readings(trace: Trace, device: int) -> _Readings | None:
    if not trace.has("gpu_health"):
        return None
    names = ("start_ns", "end_ns", "device_id", "used_memory_bytes", "other_memory_bytes")
    columns = trace.columns("gpu_health", *names)
    used, others = columns["used_memory_bytes"], columns["other_memory_bytes"]
    rows = np.flatnonzero((columns["device_id"].values == device) & used.is_valid())
    if not len(rows):
        return None
    values = used.values[rows]
    known = rows[others.is_valid()[rows]]
    # The least is that of the first or the last reading, before or after the program's own.
    base = int(others.values[known].max()) if len(known) else int(values.min())
    start, end = columns["start_ns"].values[rows], columns["end_ns"].values[rows]
    return _Readings(start, end, values, base)


def _summed(
    events: Allocations, device: int, allocator: int, values: I64, valid: BoolArray | None = None
) -> _Curve:
    """Return the bytes on a GPU over time: of all pools that are in its memory."""
    numbers = [
        number
        for number, pool in enumerate(events.pools)
        if pool.allocator == allocator and pool.device == device and pool.memory in _ON_DEVICE
    ]
    chosen = np.isin(events.pool, numbers)
    if valid is not None:
        chosen &= valid
    rows = np.flatnonzero(chosen)
    changes = np.zeros(len(rows), np.int64)
    for number in numbers:
        own = events.pool[rows] == number
        changes[own] = np.diff(values[rows[own]], prepend=0)
    return _Curve(events.time_ns[rows], np.cumsum(changes))
