"""Where the CPU reads results from the device and waits for them, and the work launched for it.

A read is a small device-to-host copy with the call that waits for it: the copy itself or the
synchronization that follows it on its thread. A few short kernels between two nearby reads, such as
sums and comparisons, belong to the second read. For the first of several such reads, as many
operations count as before the others. If such work were most of the device's time, it is the
program's main work and does not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, is_repeated, taken
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.trace import Trace

# `.item()` and similar calls launch these before a read: absolute value, sum, cast, comparison.
MOST_FEEDING = 6
_FEEDING = (
    *(
        TimePart.ELEMENTWISE,
        TimePart.REDUCTION,
        TimePart.CAST_COPY,
        TimePart.LAYOUT_COPY,
        TimePart.OTHER,
    ),
    *(TimePart.MEMSET, TimePart.COPY_D2D),
)
_MOST_OF_WORK = 0.5  # of the device's time
_NONE = -1


class Reads(NamedTuple):
    """Reads of results, by thread and time.

    Attributes:
        copy: Shape (n,), int64, indices into `operations`.
        call: Shape (n,), int64, rows of api_call: the copy call.
        wait: Shape (n,), int64, rows of api_call: the call that waits for the copy, -1 for none.
        feeding: Indices into `operations` of work launched only for reads, ascending.
        is_fed: Shape (n,), bool, which reads have such work.
    """

    copy: I64
    call: I64
    wait: I64
    feeding: I64
    is_fed: BoolArray


@derived
def result_reads(trace: Trace) -> Reads:
    """Return where the CPU reads results from the device."""
    none = np.zeros(0, np.int64)
    calls, work = working_calls(trace), operations(trace)
    is_read, parts = _is_read(trace), list[Reads]()
    launched = np.flatnonzero(work.call >= 0)
    if not (is_read[launched].any() and len(calls.row)):
        return Reads(copy=none, call=none, wait=none, feeding=none, is_fed=none.astype(np.bool_))
    launched = launched[np.argsort(work.call[launched], kind="stable")]
    threads = trace.columns("api_call", "thread_id")["thread_id"].values
    thread = taken(threads, work.call[launched])
    for rows in by_group(calls.thread):
        own = launched
        if not is_repeated(thread):
            own = launched[thread == calls.thread[rows[0]]]
        if is_read[own].any():
            is_wait = calls.kind[rows] == CallKind.HOST_SYNC
            parts.append(_of_thread(trace, taken(calls.row, rows), is_wait, own))
    columns = [[part[place] for part in parts] for place in range(4)]
    joined = [np.concatenate([none, *column]) for column in columns]
    is_fed = np.concatenate([none.astype(np.bool_), *(part.is_fed for part in parts)])
    feeding, length = np.sort(joined[3]), work.end_ns - work.start_ns
    if length[feeding].sum() > _MOST_OF_WORK * length.sum():
        feeding, is_fed = none, np.zeros_like(is_fed)
    return Reads(copy=joined[0], call=joined[1], wait=joined[2], feeding=feeding, is_fed=is_fed)


def waits_behind(trace: Trace, rows: I64) -> I64:
    """Return the synchronizing calls directly after given calls on their thread, ascending.

    Args:
        trace: The trace.
        rows: Rows of api_call.
    """
    calls = working_calls(trace)
    rows = distinct_values(rows)
    if not len(rows):
        return rows
    waits = []
    for of_thread in by_group(calls.thread):
        row = taken(calls.row, of_thread)
        place = np.searchsorted(row[:-1], rows)
        place = place[row[np.minimum(place, len(row) - 1)] == rows]
        after = of_thread[place[place < len(row) - 1] + 1]
        waits.append(calls.row[after[calls.kind[after] == CallKind.HOST_SYNC]])
    return np.sort(np.concatenate(waits)) if waits else rows[:0]


def _is_read(trace: Trace) -> BoolArray:
    """Return which operations are small device-to-host copies."""
    work = operations(trace)
    is_read: BoolArray = operation_categories(trace) == TimePart.COPY_D2H
    copies = work.of_table("memcpy")
    if len(copies):
        size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]]
        is_read = is_read.copy()
        is_read[copies] &= size <= SMALL_COPY_BYTES
    return is_read


def _of_thread(trace: Trace, row: I64, is_wait: BoolArray, own: I64) -> Reads:
    """Return the reads of one thread, given its calls, which of them wait, and its operations."""
    work = operations(trace)
    places = np.flatnonzero(_is_read(trace)[own])
    copy = own[places]
    after = np.searchsorted(row, work.call[copy]) + 1
    follows = (after < len(row)) & np.append(is_wait, np.zeros(1, np.bool_))[
        np.minimum(after, len(row))
    ]
    wait = np.where(follows, row[np.minimum(after, len(row) - 1)], _NONE)
    # The number of operations between each read and the previous one.
    since = np.diff(places, prepend=-(MOST_FEEDING + 2)) - 1
    feeds = np.isin(operation_categories(trace)[own], _FEEDING)
    unfit = np.append(0, np.cumsum(~feeds))
    count = np.where((since >= 1) & (since <= MOST_FEEDING), since, 0)
    count = np.where(unfit[places] == unfit[places - count], count, 0)
    opens = np.flatnonzero((count[:-1] == 0) & (since[:-1] > 0) & (count[1:] > 0))
    count[opens] = np.minimum(count[opens + 1], since[opens])
    count = np.minimum(count, places)
    count = np.where(unfit[places] == unfit[places - count], count, 0)
    feeding = [
        own[place - n : place] for place, n in zip(places.tolist(), count.tolist(), strict=True)
    ]
    return Reads(
        copy=copy,
        call=work.call[copy],
        wait=wait,
        feeding=np.concatenate([np.zeros(0, np.int64), *feeding]),
        is_fed=count > 0,
    )
