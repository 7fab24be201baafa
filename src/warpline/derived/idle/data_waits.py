"""When launching threads waited for input data or prepared it, before they copied it to a device.

Any of these on a thread that launches work indicates it:

- PyTorch's range around fetching a batch from a DataLoader, ``enumerate(DataLoader)#...``.
- A wait in the operating system (read, poll, condition variable, semaphore), or time off the CPU,
  of at least 50 us, while no launching thread of the process makes a CUDA call, and the next
  operation launched by the process is a host-to-device copy. After a wait of at least 0.5 ms, it is
  enough that one of the next 16 operations copies 4 KiB or more: programs clear gradients first.
- At least 0.5 ms without CUDA calls of launching threads, followed by the launch of a
  host-to-device copy of 4 KiB or more. Whether the thread waited for the data or prepared it is
  unknown, but the copied data is the likely reason. Sleeping, and waiting for a lock or for output,
  is something else and does not count.

Otherwise a thread without CUDA calls may do anything, and the time is not counted as input.
"""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.os_waits import Waits, named, thread_waits
from warpline.derived.idle.silences import (
    SHORTEST_WAIT_NS,
    ThreadTimes,
    joined,
    process_of_threads,
    silences,
)
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.ops.tiling import Grouped, by_group, cut, rest
from warpline.trace import Trace

SHORTEST_SILENCE_NS = 500_000  # Python takes less between two launches
SMALLEST_BATCH_BYTES = 4096
_SOON = 16  # operations
_LOADER = b"enumerate(DataLoader)#"


@derived
def data_waits(trace: Trace) -> ThreadTimes:
    """Return when launching threads waited for input data; intervals may overlap."""
    waits, silence = thread_waits(trace), silences(trace).times
    could_be = waits.could_be_input(trace)
    of_system = _within(trace, waits.taken(could_be), silence).lasting(SHORTEST_WAIT_NS)
    at_once = of_system.taken(_before_copies(trace, of_system, 0))
    long = of_system.lasting(SHORTEST_SILENCE_NS)
    soon = long.taken(_before_copies(trace, long, SMALLEST_BATCH_BYTES, _SOON))
    silence = silence.lasting(SHORTEST_SILENCE_NS)
    silence = silence.taken(_before_copies(trace, silence, SMALLEST_BATCH_BYTES))
    silence = _without(silence, waits.taken(~could_be))
    return joined([_loader_ranges(trace), at_once, soon, silence])


def _within(trace: Trace, waits: Waits, silence: ThreadTimes) -> ThreadTimes:
    """Return the parts of waits during which the thread's process made no calls."""
    if not len(waits.thread) or not len(silence.thread):
        return joined([])
    process_of = process_of_threads(trace)
    parts = cut(
        Grouped(waits.start_ns, waits.end_ns, process_of[waits.thread]),
        Grouped(silence.start_ns, silence.end_ns, process_of[silence.thread]),
    )
    return ThreadTimes(parts.start_ns, parts.end_ns, waits.thread[parts.span])


def _without(times: ThreadTimes, waits: Waits) -> ThreadTimes:
    """Return the parts of intervals outside of their thread's waits."""
    spans = Grouped(*times)
    left = rest(spans, cut(spans, Grouped(waits.start_ns, waits.end_ns, waits.thread)))
    return ThreadTimes(left.start_ns, left.end_ns, times.thread[left.span])


def _loader_ranges(trace: Trace) -> ThreadTimes:
    """Return the ranges in which PyTorch fetched a batch."""
    tables = ("range", "op")
    return joined([named(trace, each, lambda name: name.startswith(_LOADER))[0] for each in tables])


def _before_copies(
    trace: Trace, times: ThreadTimes, least_bytes: int, within: int = 1
) -> BoolArray:
    """Return after which intervals the process launched a host-to-device copy.

    Args:
        trace: The trace.
        times: The intervals.
        least_bytes: The size from which a copy counts.
        within: It is one of that many operations launched next.
    """
    is_copied = np.zeros(len(times.thread), np.bool_)
    if not len(is_copied):
        return is_copied
    launches = launch_order(trace)
    is_copy = operation_categories(trace) == TimePart.COPY_H2D
    copies = operations(trace).of_table("memcpy")
    if len(copies):
        size = trace.columns("memcpy", "bytes")["bytes"].values[operations(trace).row[copies]]
        is_copy = is_copy.copy()
        is_copy[copies] &= size >= least_bytes
    order = launches.order
    if not launches.is_known.all():
        order = order[launches.is_known[order]]
    process = operations(trace).process[order]
    of_times = process_of_threads(trace)[times.thread]
    for rows in by_group(of_times):
        low, high = np.searchsorted(process, of_times[rows[0]] + np.array([0, 1]))
        launched = order[low:high]
        place = np.searchsorted(launches.time_ns[launched], times.end_ns[rows], side="left")
        copies_before = np.append(0, np.cumsum(is_copy[launched]))
        last = np.minimum(place + within, len(launched))
        is_copied[rows] = copies_before[last] > copies_before[place]
    return is_copied
