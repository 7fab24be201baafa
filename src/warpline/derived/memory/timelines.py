"""Names of the allocators of GPUs in tables, and what is incomplete in their timelines."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.blocks import replayed
from warpline.ops.arrays import I64
from warpline.trace import Trace
from warpline.units import format_bytes, plural


def timeline_places(trace: Trace) -> list[str]:
    """Return the GPU of each of `Replayed.timelines`, such as ``GPU 0``."""
    numbers = trace.columns("device", "gpu_index")["gpu_index"].values
    return [f"GPU {int(numbers[timeline.device])}" for timeline in replayed(trace).timelines]


def pids_of_timelines(trace: Trace) -> I64:
    """Return the process id of each of `Replayed.timelines`."""
    pids: I64 = trace.columns("process", "pid")["pid"].values
    return pids[np.array([each.process for each in replayed(trace).timelines], np.int64)]


def device_bytes(trace: Trace, number: int) -> int:
    """Return the memory of the GPU of a timeline in bytes; 0 if unknown."""
    sizes = trace.columns("device", "memory_bytes")["memory_bytes"].filled(0)
    return int(sizes[replayed(trace).timelines[number].device])


def history_notes(trace: Trace) -> tuple[str, ...]:
    """Return what was not recorded of the allocators, and where a replay differs from snapshots."""
    found = replayed(trace)
    notes = []
    for number, place in enumerate(timeline_places(trace)):
        if found.is_history[number] and found.unknown[number]:
            many = plural(int(found.unknown[number]), "event")
            notes.append(f"{place}: {many} of the allocator do not fit, so others were dropped")
        differs = _difference(trace, number)
        if differs:
            notes.append(
                f"{place}: replayed memory in use differs by {format_bytes(differs)} from the"
                " snapshot's, as with roundup_power2_divisions or max_split_size_mb"
            )
    return tuple(notes)


def _difference(trace: Trace, number: int) -> int:
    """Return by how many allocated bytes the replay differs from the last snapshot."""
    found, timeline = replayed(trace), replayed(trace).timelines[number]
    if not found.is_history[number] or not trace.has("allocator_block"):
        return 0
    names = ("process_id", "device_id", "time_ns", "bytes", "state")
    columns = trace.columns("allocator_block", *names)
    own = columns["process_id"].values == timeline.process
    own &= columns["device_id"].filled(-1) == timeline.device
    if not own.any():
        return 0
    time = columns["time_ns"].values
    last = int(time[own].max())
    own &= (time == last) & (columns["state"].values == 0)
    event = int(np.searchsorted(timeline.time_ns, last, side="right")) - 1
    known = int(columns["bytes"].values[own].sum())
    return abs(known - int(timeline.allocated_bytes[event])) if event >= 0 else 0
