"""Calls that block launching threads: synchronization, copies, allocation, loading, the profiler.

The kind of a call follows from its function (see `kinds`) and from the recording:

- Synchronizing with a device, a stream or an event blocks the thread.
- A pageable copy blocks the thread, because the driver moves the data through a staging buffer.
  For at most 64 KiB, the size does not matter: device-to-host, the copy is a synchronization, as is
  a synchronous copy of pinned memory. Host-to-device, it returns once the data is staged.
- A launch that takes longer than 100 us and is the first of its kernel in the recording loads code,
  as the driver loads modules on first use. The same applies to driver functions on modules and
  kernels that take as long.
- A launch that returns after all its work is complete, including kernels of at least 50 us,
  synchronizes with the device, as every launch does with CUDA_LAUNCH_BLOCKING=1.
- From the start to the end of a capture, the thread builds a graph. In the first launch of a graph
  that takes longer than 100 us, it uploads the graph.
- A thread that is preempted waits for a CPU core, whatever it was doing (see `preemption`).

Sources: CUDA Runtime API, sections "API synchronization behavior" and "Lazy loading". 64 KiB is the
documented limit up to which pageable copies are staged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.data_waits import data_waits
from warpline.derived.idle.host_calls import (
    HostCalls,
    WorkingCalls,
    host_calls,
    numbers_of_texts,
    working_calls,
    working_threads,
)
from warpline.derived.idle.kinds import CallKind, call_kind, overhead_cause
from warpline.derived.idle.os_waits import os_waits
from warpline.derived.idle.preemption import preempted
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.group import factorize, group_stats
from warpline.ops.interval import Intervals, covered_until, subtract, union
from warpline.ops.tiling import Grouped, by_group, cut, tile
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Trace

# A synchronization with no pending work takes 3 to 6 us on the machines measured.
OWN_COST_NS = 5_000
LONG_CALL_NS = 100_000
LONG_KERNEL_NS = 50_000
SMALL_COPY_BYTES = 64 * 1024

_PAGEABLE = next(kind for kind, label in MEMORY_KINDS.items() if label == "Pageable")
_TO_HOST = [kind for kind, label in COPY_KINDS.items() if label == "Device-to-Host"]
_TO_DEVICE = [kind for kind, label in COPY_KINDS.items() if label == "Host-to-Device"]
_ON_DEVICE = [kind for kind, label in COPY_KINDS.items() if label == "Device-to-Device"]
_INSTANTIATING = TimePart.GRAPH_INSTANTIATION
_NO_CAUSE = -1
# Of times that overlap on a thread, the lowest counts.
_BY_PROFILER, _PREEMPTED, _IN_CALL, _FOR_INPUT, _FOR_OS = range(5)
# Kinds of calls of which each one blocks its thread.
_ALWAYS = {
    CallKind.HOST_SYNC: TimePart.HOST_SYNC,
    CallKind.ALLOCATOR: TimePart.ALLOCATOR,
    CallKind.GRAPH_INSTANTIATION: TimePart.GRAPH_INSTANTIATION,
}


class Blocking(NamedTuple):
    """Times during which a launching thread was blocked, by thread and start, not overlapping.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
        cause: Shape (n,), int8, idle members of `TimePart`.
        lost_ns: Shape (n,), int64, the time that the thread would save without it.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    cause: I8
    lost_ns: I64


@derived
def core_waits(trace: Trace) -> ThreadTimes:
    """Return when launching threads were late because they were preempted, by thread and start."""
    times = preempted(trace, _waiting(_in_calls(trace)))
    return times.taken(np.lexsort((times.start_ns, times.thread)))


@derived
def blocking(trace: Trace) -> Blocking:
    """Return when launching threads were blocked, counting each moment of a thread once."""
    # Calls keep their own cause inside of waits. What a thread without a core does not do, nothing
    # else delays.
    ranked = [
        (_PREEMPTED, _thread_times(trace, core_waits(trace), TimePart.OS_WAIT)),
        (_IN_CALL, _in_calls(trace)),
        (_IN_CALL, _captures(working_calls(trace))),
        (_IN_CALL, _overheads(trace)),
        (_FOR_INPUT, _thread_times(trace, data_waits(trace), TimePart.INPUT)),
        (_FOR_OS, _thread_times(trace, ThreadTimes(*os_waits(trace)[:3]), TimePart.OS_WAIT)),
    ]
    every = _joined([part for _, part in ranked])
    level = np.concatenate([np.full(len(part.cause), each) for each, part in ranked])
    level[every.cause == TimePart.PROFILER_OVERHEAD] = _BY_PROFILER
    return _without_concurrency(trace, _once_per_thread(every, level))


@derived
def _in_calls(trace: Trace) -> Blocking:
    """Return the calls that block their thread."""
    calls = working_calls(trace)
    cause = _causes(trace, calls)
    held = np.flatnonzero(cause != _NO_CAUSE)
    own = np.where(_is_wait(cause[held]), OWN_COST_NS, 0)
    return Blocking(
        start_ns=calls.start_ns[held],
        end_ns=calls.end_ns[held],
        thread=calls.thread[held],
        process=calls.process[held],
        cause=cause[held],
        lost_ns=np.maximum(calls.end_ns[held] - calls.start_ns[held] - own, 0),
    )


def _joined(parts: list[Blocking]) -> Blocking:
    return Blocking(
        start_ns=np.concatenate([part.start_ns for part in parts]),
        end_ns=np.concatenate([part.end_ns for part in parts]),
        thread=np.concatenate([part.thread for part in parts]),
        process=np.concatenate([part.process for part in parts]),
        cause=np.concatenate([part.cause for part in parts]),
        lost_ns=np.concatenate([part.lost_ns for part in parts]),
    )


def _waiting(holds: Blocking) -> ThreadTimes:
    """Return the calls that wait for the GPU."""
    rows = np.flatnonzero(_is_wait(holds.cause))
    return ThreadTimes(holds.start_ns[rows], holds.end_ns[rows], holds.thread[rows])


def _once_per_thread(holds: Blocking, level: I64) -> Blocking:
    """Return each thread's time once: of the lowest level, then of the first to start."""
    order = np.argsort(holds.start_ns, kind="stable")
    starts, ends, owners = [], [], []
    for rows in by_group(holds.thread[order]):
        of_thread = order[rows]
        tiles = tile(holds.start_ns[of_thread], holds.end_ns[of_thread], level[of_thread])
        starts.append(tiles.start_ns)
        ends.append(tiles.end_ns)
        owners.append(of_thread[tiles.owner])
    nothing = np.zeros(0, np.int64)
    start, end, owner = (np.concatenate([nothing, *part]) for part in (starts, ends, owners))
    lost = np.minimum(holds.lost_ns[owner], end - start)
    return Blocking(
        start_ns=start,
        end_ns=end,
        thread=holds.thread[owner],
        process=holds.process[owner],
        cause=holds.cause[owner],
        lost_ns=lost,
    )


def _causes(trace: Trace, calls: WorkingCalls) -> I8:
    """Return the possible cause of each call, _NO_CAUSE for calls that only launch work."""
    cause = np.full(len(calls.row), _NO_CAUSE, np.int8)
    for kind, part in _ALWAYS.items():
        cause[calls.kind == kind] = part
    long = calls.end_ns - calls.start_ns >= LONG_CALL_NS
    loading = TimePart.MODULE_LOAD
    cause[long & (calls.kind == CallKind.MODULE_LOAD)] = loading
    for kind, first_of in ((CallKind.LAUNCH, loading), (CallKind.GRAPH_LAUNCH, _INSTANTIATING)):
        slow = np.flatnonzero(long & (calls.kind == kind))
        if len(slow):
            cause[slow[np.isin(calls.row[slow], _first_launches(trace))]] = first_of
    cause[np.isin(calls.row, _blocking_launches(trace))] = TimePart.HOST_SYNC
    copies = blocking_copies(trace)
    place = np.searchsorted(calls.row, operations(trace).call[copies.operation])
    cause[place] = copies.cause
    return cause


def _first_launches(trace: Trace) -> I64:
    """Return the calls that launched a kernel or a graph for the first time in the recording."""
    work = operations(trace)
    firsts = []
    for table, key in (("kernel", "name_id"), ("graph_launch", "graph_exec_id")):
        launched = work.of_table(table)
        launched = launched[work.call[launched] >= 0]
        if not len(launched):
            continue
        which = trace.columns(table, key)[key].filled(-1)[work.row[launched]]
        order = np.lexsort((work.call[launched], which))
        first = np.append(True, np.diff(which[order]) != 0)
        firsts.append(work.call[launched[order[first]]])
    return np.concatenate([np.zeros(0, np.int64), *firsts])


def _blocking_launches(trace: Trace) -> I64:
    """Return the launch calls that returned after their work, if that includes a long kernel."""
    work = operations(trace)
    rows = np.append(work.of_table("kernel"), work.of_table("graph_launch"))
    rows = rows[work.call[rows] >= 0]
    is_long = work.end_ns[rows] - work.start_ns[rows] >= LONG_KERNEL_NS
    if not is_long.any():
        return rows[:0]
    launches_long = np.zeros(trace.row_count("api_call"), np.bool_)
    launches_long[work.call[rows[is_long]]] = True
    rows = rows[launches_long[work.call[rows]]]
    calls = factorize(work.call[rows])
    returned = trace.columns("api_call", "end_ns")["end_ns"].values[calls.uniques]
    last_end = group_stats(calls.codes, work.end_ns[rows], calls.n_groups).max
    return calls.uniques[last_end <= returned]


class BlockingCopies(NamedTuple):
    """Copies whose calls block the CPU until they are complete or staged.

    Attributes:
        operation: Shape (n,), int64, indices into `operations`, ascending.
        cause: Shape (n,), int8: host-sync or pageable-copy.
    """

    operation: I64
    cause: I8


@derived
def blocking_copies(trace: Trace) -> BlockingCopies:
    """Return the copies that block the CPU, and the cause of each."""
    work = operations(trace)
    copies = work.of_table("memcpy")
    copies = copies[work.call[copies] >= 0]
    if not len(copies):
        return BlockingCopies(copies, copies.astype(np.int8))
    columns = trace.columns("memcpy", "kind", "bytes", "src_memory", "dst_memory")
    row = work.row[copies]
    source, target = (columns[name].filled(_NO_CAUSE)[row] for name in ("src_memory", "dst_memory"))
    is_pageable = (source == _PAGEABLE) | (target == _PAGEABLE)
    is_small = columns["bytes"].values[row] <= SMALL_COPY_BYTES
    is_result = np.isin(columns["kind"].values[row], _TO_HOST) & is_small
    names = trace.columns("api_call", "name_id")["name_id"].values[work.call[copies]]
    is_synchronous = numbers_of_texts(trace, names, call_kind) == CallKind.COPY
    kind = columns["kind"].values[row]
    # A small host-to-device copy is staged, and the call returns.
    is_staged = is_small & np.isin(kind, _TO_DEVICE) & ~is_synchronous
    is_held = (is_pageable & ~is_staged) | (is_synchronous & ~np.isin(kind, _ON_DEVICE))
    is_wait = is_result | ~is_pageable
    cause = np.where(is_wait, TimePart.HOST_SYNC, TimePart.PAGEABLE_COPY).astype(np.int8)
    return BlockingCopies(copies[is_held], cause[is_held])


def _captures(calls: WorkingCalls) -> Blocking:
    """Return the time from the start of each capture to its end on the same thread."""
    begins, ends = CallKind.BEGIN_CAPTURE, CallKind.END_CAPTURE
    rows = np.flatnonzero((calls.kind == begins) | (calls.kind == ends))
    rows = rows[np.argsort(calls.thread[rows], kind="stable")]
    first = np.flatnonzero(
        (calls.kind[rows][:-1] == begins)
        & (calls.kind[rows][1:] == ends)
        & (np.diff(calls.thread[rows]) == 0)
    )
    begin, end = rows[first], rows[first + 1] if len(first) else rows[first]
    # An unpaired call blocks its thread only for its own duration.
    alone = rows[~np.isin(rows, np.append(begin, end))]
    begin, end = np.append(begin, alone), np.append(end, alone)
    return Blocking(
        start_ns=calls.start_ns[begin],
        end_ns=calls.end_ns[end],
        thread=calls.thread[begin],
        process=calls.process[begin],
        cause=np.full(len(begin), _INSTANTIATING, np.int8),
        lost_ns=calls.end_ns[end] - calls.start_ns[begin],
    )


def _overheads(trace: Trace) -> Blocking:
    """Return the recorded profiler overhead on launching threads."""
    nothing = np.zeros(0, np.int64)
    if not trace.has("overhead") or not trace.row_count("overhead"):
        return Blocking(
            start_ns=nothing,
            end_ns=nothing,
            thread=nothing,
            process=nothing,
            cause=nothing.astype(np.int8),
            lost_ns=nothing,
        )
    columns = trace.columns("overhead", "start_ns", "end_ns", "thread_id", "name_id")
    cause = numbers_of_texts(trace, columns["name_id"].values, _overhead_code)
    thread = columns["thread_id"].filled(0).astype(np.int64)
    known = columns["thread_id"].is_valid() & (cause != _NO_CAUSE)
    rows = np.flatnonzero(known)
    rows = rows[working_threads(trace)[thread[rows]]]
    start = columns["start_ns"].values[rows]
    end = np.maximum(start, columns["end_ns"].values[rows])
    process = trace.columns("thread", "process_id")["process_id"].values[thread[rows]]
    return Blocking(
        start_ns=start,
        end_ns=end,
        thread=thread[rows],
        process=process.astype(np.int64),
        cause=cause[rows],
        lost_ns=end - start,
    )


def _thread_times(trace: Trace, times: ThreadTimes, part: TimePart) -> Blocking:
    """Return times during which threads were blocked for one cause, whatever call they are in."""
    cause = np.full(len(times.thread), part, np.int8)
    if not len(cause):
        return Blocking(*times, times.thread, cause, times.thread)
    process = trace.columns("thread", "process_id")["process_id"].values[times.thread]
    length = times.end_ns - times.start_ns
    return Blocking(*times, process.astype(np.int64), cause, length)


def _without_concurrency(trace: Trace, holds: Blocking) -> Blocking:
    """Reduce lost time by the time during which another thread of the process launches work."""
    calls, lost = host_calls(trace), holds.lost_ns.copy()
    calls_of = {int(calls.thread[rows[0]]): rows for rows in by_group(calls.thread)}
    holds_of = {int(holds.thread[rows[0]]): rows for rows in by_group(holds.thread)}
    for rows in by_group(holds.process):
        process = holds.process[rows[0]]
        threads = [each for each, of in calls_of.items() if calls.process[of[0]] == process]
        if len(threads) < 2:
            continue
        # A blocked thread launches nothing, so work launched meanwhile comes from other threads.
        blocked = union(holds.start_ns[rows], holds.end_ns[rows])
        issuing = [
            _issuing(calls, calls_of[each], blocked, holds, holds_of.get(each)) for each in threads
        ]
        busy = union(*(np.concatenate(side) for side in zip(*issuing, strict=True)))
        before = covered_until(busy, holds.start_ns[rows])
        lost[rows] -= covered_until(busy, holds.end_ns[rows]) - before
    return holds._replace(lost_ns=np.maximum(lost, 0))


def _issuing(
    calls: HostCalls, rows: I64, within: Intervals, holds: Blocking, held: I64 | None
) -> Intervals:
    """Return when a thread was in calls that did not block it, within given times."""
    one = np.zeros(len(within.start), np.int64)
    inside = cut(
        Grouped(within.start, within.end, one),
        Grouped(calls.start_ns[rows], calls.end_ns[rows], np.zeros(len(rows), np.int64)),
    )
    if held is None:
        return union(inside.start_ns, inside.end_ns)
    held_times = holds.start_ns[held], holds.end_ns[held]
    return subtract((inside.start_ns, inside.end_ns), held_times)


def _overhead_code(name: str) -> int:
    cause = overhead_cause(name)
    return _NO_CAUSE if cause is None else int(cause)


def _is_wait(cause: I8) -> BoolArray:
    """Return which causes are synchronizations, which take time even without pending work."""
    return np.isin(cause, [TimePart.HOST_SYNC, TimePart.PAGEABLE_COPY])
