"""What a program needs of each GPU's memory at its peak, and what was free for it.

PyTorch keeps freed memory for later, and returns or uses it before it gives up: its memory history
says how much of what it took was in use. Free parts of segments, which it cannot return, do not
count either: how many there are differs from size to size, and near the border they are used.
Allocations are exact, but contexts and code take memory, too, that only the driver's readings
(NVML) have: what is in use, less what was in use before, less what is allocated at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import DRIVER, allocations
from warpline.derived.memory.blocks import Timeline, replayed
from warpline.frozen import frozen
from warpline.ops.arrays import I64
from warpline.trace import Trace

_ON_DEVICE = frozenset({"Device", "Array", "Device Static"})  # of schema.labels.MEMORY_KINDS
READINGS = "readings"
_AROUND_NS = 10_000_000  # a reading and an allocation this near may be in either order


@frozen
class DevicePeak:
    """The memory of one GPU that a program needs at its peak, in bytes.

    Attributes:
        device: Row of the device table.
        peak_bytes: Memory at the peak: what was taken, or with PyTorch's memory history, what was
            in use of that.
        source: Where that is from, in a few words.
        has_readings: Whether memory of contexts and code is in it: there are readings.
        limit_bytes: What was free for the program: memory of the GPU less that of others; None if
            unknown.
        taken_bytes: Memory that was taken from the driver at most, caches included.
        allocated_bytes: What the framework had allocated at most; None if that was not recorded.
    """

    device: int
    peak_bytes: int
    source: str
    has_readings: bool
    limit_bytes: int | None
    taken_bytes: int
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

    @property
    def peak(self) -> int:
        """The most bytes."""
        return int(self.bytes.max(initial=0))

    def most_around(self, start_ns: int, end_ns: int) -> int:
        """Return the most bytes about a span."""
        first = int(np.searchsorted(self.time_ns, start_ns - _AROUND_NS, "right")) - 1
        last = int(np.searchsorted(self.time_ns, end_ns + _AROUND_NS, "right"))
        return int(self.bytes[max(first, 0) : last].max(initial=0)) if last else 0


@derived
def device_peaks(trace: Trace) -> tuple[DevicePeak, ...]:
    """Return the peaks of the GPUs of which anything is known, in the order of their table."""
    count = trace.row_count("device") if trace.has("device") else 0
    sizes = trace.columns("device", "memory_bytes")["memory_bytes"].to_list() if count else []
    found = (_peak(trace, device, sizes[device]) for device in range(count))
    return tuple(peak for peak in found if peak is not None)


def _peak(trace: Trace, device: int, size: int | None) -> DevicePeak | None:
    readings = _readings(trace, device)
    driver = _of_driver(trace, device)
    timelines = [of for of in replayed(trace).timelines if of.device == device]
    reserved = _of_framework(timelines, lambda of: of.reserved_bytes)
    # Segments that grow are mapped by calls that are no allocations of the driver's records.
    curve, source = driver, "CUDA allocations"
    if reserved.peak > driver.peak:
        curve, source = reserved, "the framework's allocator"
    base = readings.base_bytes if readings is not None else 0
    if curve.peak:
        taken = curve.peak + (_beside(curve, readings) if readings is not None else 0)
    elif readings is not None:
        taken, source = int(readings.used_bytes.max()) - base, READINGS
    else:
        return None
    active = _of_framework(timelines, lambda of: of.active_bytes)
    unused = reserved.peak - active.peak if len(active.time_ns) else 0
    return DevicePeak(
        device=device,
        peak_bytes=taken - unused,
        source=f"{source}, without PyTorch's free memory" if len(active.time_ns) else source,
        has_readings=readings is not None,
        limit_bytes=size - base if size else None,
        taken_bytes=taken,
        allocated_bytes=_of_framework(timelines, lambda of: of.allocated_bytes).peak or None,
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


def _of_driver(trace: Trace, device: int) -> _Curve:
    """Return what the driver's allocations on a GPU have over time."""
    events = allocations(trace)
    pools = [
        number
        for number, pool in enumerate(events.pools)
        if pool.allocator == DRIVER and pool.device == device and pool.memory in _ON_DEVICE
    ]
    rows = np.flatnonzero(np.isin(events.pool, pools))
    return _Curve(events.time_ns[rows], np.cumsum(events.change_bytes[rows]))


def _of_framework(
    timelines: Sequence[Timeline], bytes_of: Callable[[Timeline], I64 | None]
) -> _Curve:
    """Return the sum of what the allocators of all processes have on a GPU over time."""
    known = [(of.time_ns, sizes) for of in timelines if (sizes := bytes_of(of)) is not None]
    if not known or len(known) < len(timelines):
        return _Curve(np.zeros(0, np.int64), np.zeros(0, np.int64))
    times = np.concatenate([times for times, _ in known])
    changes = np.concatenate([np.diff(sizes, prepend=0) for _, sizes in known])
    order = np.argsort(times, kind="stable")
    return _Curve(times[order], np.cumsum(changes[order]))
