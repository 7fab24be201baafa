"""What held the host threads that launch work: waits, copies, allocations, loading, the profiler.

Which call is what follows from the interface's functions (see `idle_kinds`) and from what the
recording shows of the call:

- A wait for a device, a stream or an event holds its thread.
- A copy from or to pageable memory holds its thread: the driver moves the bytes through memory of
  its own. A device-to-host copy of at most 64 KiB is not about bytes: the host waits for a
  result, as it does in a synchronous copy of pinned memory.
- A launch that takes longer than 100 us, and is the first of its kernel in the recording, loads
  code: the driver loads modules when they are first used. The same holds of the driver's
  functions about modules and kernels when they take as long.
- From the beginning of a capture to its end, the thread builds a graph.

Sources: CUDA Runtime API, sections "API synchronization behavior" and "Lazy loading"; the 64 KiB
are the size up to which CUDA documents that pageable copies are staged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle_kinds import CALL_KINDS, IDLE_CAUSES, call_kind, overhead_cause
from warpline.derived.operations import operations
from warpline.derived.texts import number_texts
from warpline.derived.tiling import tile
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.schema.tables import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Trace

# What a wait costs that finds nothing to wait for: 3 to 6 us on the machines measured.
OWN_COST_NS = 5_000
LONG_CALL_NS = 100_000
SMALL_COPY_BYTES = 64 * 1024

_PAGEABLE = next(kind for kind, label in MEMORY_KINDS.items() if label == "Pageable")
_TO_HOST = [kind for kind, label in COPY_KINDS.items() if label == "Device-to-Host"]
_ON_DEVICE = [kind for kind, label in COPY_KINDS.items() if label == "Device-to-Device"]
_NO_CAUSE = -1


class HostCalls(NamedTuple):
    """The outermost calls of threads that launched device work, by thread and start.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64; calls of one thread do not overlap.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64


class Blocking(NamedTuple):
    """Times in which a thread that launches work was held, by thread and start, not overlapping.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
        cause: Shape (n,), int8, places in `IDLE_CAUSES`.
        lost_ns: Shape (n,), int64, what the thread would have gained without it.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    cause: I8
    lost_ns: I64


class _Calls(NamedTuple):
    """Rows of api_call by working threads, in the total order."""

    row: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    kind: I8


@derived
def working_threads(trace: Trace) -> BoolArray:
    """Return which threads launched device work that is in the trace, shape (threads,).

    A thread that only polls or waits, such as the watchdog of a communication library, does not
    hold the device up.
    """
    is_working = np.zeros(trace.row_count("thread") if trace.has("thread") else 0, np.bool_)
    calls = operations(trace).call
    calls = calls[calls >= 0]
    if len(calls):
        is_working[trace.columns("api_call", "thread_id")["thread_id"].values[calls]] = True
    return is_working


@derived
def host_calls(trace: Trace) -> HostCalls:
    """Return the outermost calls of threads that launched device work; none without calls."""
    calls = _calls(trace)
    kept = [_outermost(calls, rows) for rows in _by_thread(calls.thread)]
    rows = np.concatenate([np.zeros(0, np.int64), *kept])
    return HostCalls(
        calls.start_ns[rows], calls.end_ns[rows], calls.thread[rows], calls.process[rows]
    )


@derived
def blocking(trace: Trace) -> Blocking:
    """Return what held the threads that launch work, in time that counts once for each."""
    calls = _calls(trace)
    cause = _causes(trace, calls)
    held = np.flatnonzero(cause != _NO_CAUSE)
    own = np.where(_is_wait(cause[held]), OWN_COST_NS, 0)
    found = Blocking(
        calls.start_ns[held],
        calls.end_ns[held],
        calls.thread[held],
        calls.process[held],
        cause[held],
        np.maximum(calls.end_ns[held] - calls.start_ns[held] - own, 0),
    )
    return _once_per_thread(_joined([found, _captures(calls), _overheads(trace)]))


def _joined(parts: list[Blocking]) -> Blocking:
    return Blocking(
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
        np.concatenate([part.thread for part in parts]),
        np.concatenate([part.process for part in parts]),
        np.concatenate([part.cause for part in parts]),
        np.concatenate([part.lost_ns for part in parts]),
    )


def _once_per_thread(found: Blocking) -> Blocking:
    """Return each thread's time once: the profiler's first, then what began first."""
    level = np.where(found.cause == IDLE_CAUSES.index("profiler-overhead"), 0, 1)
    order = np.argsort(found.start_ns, kind="stable")
    starts, ends, owners = [], [], []
    for rows in _by_thread(found.thread[order]):
        of_thread = order[rows]
        tiles = tile(found.start_ns[of_thread], found.end_ns[of_thread], level[of_thread])
        starts.append(tiles.start_ns)
        ends.append(tiles.end_ns)
        owners.append(of_thread[tiles.owner])
    nothing = np.zeros(0, np.int64)
    start, end, owner = (np.concatenate([nothing, *part]) for part in (starts, ends, owners))
    lost = np.minimum(found.lost_ns[owner], end - start)
    return Blocking(start, end, found.thread[owner], found.process[owner], found.cause[owner], lost)


def _calls(trace: Trace) -> _Calls:
    """Return the calls of working threads."""
    nothing = np.zeros(0, np.int64)
    if not trace.has("api_call") or not working_threads(trace).any():
        return _Calls(nothing, nothing, nothing, nothing, nothing, nothing.astype(np.int8))
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id", "process_id", "name_id")
    start, end, thread, process, name = (column.values for column in columns.values())
    rows = np.flatnonzero(working_threads(trace)[thread])
    start, thread, process = start[rows], thread[rows], process[rows]
    return _Calls(
        rows,
        start,
        np.maximum(start, end[rows]),
        thread.astype(np.int64),
        process.astype(np.int64),
        _of_texts(trace, name[rows], call_kind),
    )


def _by_thread(thread: I64) -> list[I64]:
    """Return the rows of each thread, in the order in which they stand."""
    if not len(thread):
        return []
    # Sorting numbers of 16 bits takes linear time.
    narrow = thread.astype(np.int16) if int(thread.max()) < 1 << 15 else thread
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(thread[order])) + 1)


def _outermost(calls: _Calls, rows: I64) -> I64:
    """Return the calls of one thread that are not inside another one; rows ascend in start."""
    start, end = calls.start_ns[rows], calls.end_ns[rows]
    reach = np.maximum.accumulate(end)
    opens = np.append(True, start[1:] >= reach[:-1])
    # Of calls that start together the longest holds the others, and stands last.
    same = np.append(start[1:] == start[:-1], False)
    if same.any():
        order = np.lexsort((-end, start))
        rows = rows[order]
        opens = np.append(True, calls.start_ns[rows][1:] >= np.maximum.accumulate(end[order])[:-1])
    outermost: I64 = rows[opens]
    return outermost


def _causes(trace: Trace, calls: _Calls) -> I8:
    """Return the cause that each call may be, _NO_CAUSE for calls that only issue work."""
    cause = np.full(len(calls.row), _NO_CAUSE, np.int8)
    for name in ("host-sync", "allocator", "graph-instantiation"):
        cause[calls.kind == CALL_KINDS.index(name)] = IDLE_CAUSES.index(name)
    long = calls.end_ns - calls.start_ns >= LONG_CALL_NS
    loading = calls.kind == CALL_KINDS.index("module-load-or-JIT")
    launching = calls.kind == CALL_KINDS.index("launch")
    code = IDLE_CAUSES.index("module-load-or-JIT")
    cause[long & loading] = code
    slow = np.flatnonzero(long & launching)
    if len(slow):
        cause[slow[np.isin(calls.row[slow], _first_launches(trace))]] = code
    copies = _copy_causes(trace)
    place = np.searchsorted(calls.row, copies[0])
    cause[place] = copies[1]
    return cause


def _first_launches(trace: Trace) -> I64:
    """Return the calls that launched a kernel for the first time in the recording."""
    work = operations(trace)
    kernels = work.of_table("kernel")
    kernels = kernels[work.call[kernels] >= 0]
    if not len(kernels):
        return kernels
    names = trace.columns("kernel", "name_id")["name_id"].values[work.row[kernels]]
    order = np.lexsort((work.call[kernels], names))
    first = np.append(True, np.diff(names[order]) != 0)
    calls: I64 = work.call[kernels[order[first]]]
    return calls


def _copy_causes(trace: Trace) -> tuple[I64, I8]:
    """Return the calls that held the host for a copy, and what each of them is."""
    work = operations(trace)
    copies = work.of_table("memcpy")
    copies = copies[work.call[copies] >= 0]
    if not len(copies):
        return copies, copies.astype(np.int8)
    columns = trace.columns("memcpy", "kind", "bytes", "src_memory", "dst_memory")
    row = work.row[copies]
    source, target = (columns[name].filled(_NO_CAUSE)[row] for name in ("src_memory", "dst_memory"))
    is_pageable = (source == _PAGEABLE) | (target == _PAGEABLE)
    is_small = columns["bytes"].values[row] <= SMALL_COPY_BYTES
    is_result = np.isin(columns["kind"].values[row], _TO_HOST) & is_small
    names = trace.columns("api_call", "name_id")["name_id"].values[work.call[copies]]
    is_synchronous = _of_texts(trace, names, call_kind) == CALL_KINDS.index("copy")
    is_held = is_pageable | (is_synchronous & ~np.isin(columns["kind"].values[row], _ON_DEVICE))
    is_wait = is_result | ~is_pageable
    cause = np.where(
        is_wait, IDLE_CAUSES.index("host-sync"), IDLE_CAUSES.index("pageable-copy")
    ).astype(np.int8)
    return work.call[copies[is_held]], cause[is_held]


def _captures(calls: _Calls) -> Blocking:
    """Return the time from the beginning of each capture to its end on the same thread."""
    begins, ends = (CALL_KINDS.index(kind) for kind in ("begin-capture", "end-capture"))
    rows = np.flatnonzero((calls.kind == begins) | (calls.kind == ends))
    rows = rows[np.argsort(calls.thread[rows], kind="stable")]
    first = np.flatnonzero(
        (calls.kind[rows][:-1] == begins)
        & (calls.kind[rows][1:] == ends)
        & (np.diff(calls.thread[rows]) == 0)
    )
    begin, end = rows[first], rows[first + 1] if len(first) else rows[first]
    # A lone half holds its thread for no longer than the call.
    alone = np.setdiff1d(rows, np.append(begin, end))
    begin, end = np.append(begin, alone), np.append(end, alone)
    return Blocking(
        calls.start_ns[begin],
        calls.end_ns[end],
        calls.thread[begin],
        calls.process[begin],
        np.full(len(begin), IDLE_CAUSES.index("graph-instantiation"), np.int8),
        calls.end_ns[end] - calls.start_ns[begin],
    )


def _overheads(trace: Trace) -> Blocking:
    """Return what the producer recorded of its own work on threads that launch."""
    nothing = np.zeros(0, np.int64)
    if not trace.has("overhead") or not trace.row_count("overhead"):
        return Blocking(nothing, nothing, nothing, nothing, nothing.astype(np.int8), nothing)
    columns = trace.columns("overhead", "start_ns", "end_ns", "thread_id", "name_id")
    cause = _of_texts(trace, columns["name_id"].values, _overhead_code)
    thread = columns["thread_id"].filled(0).astype(np.int64)
    known = columns["thread_id"].is_valid() & (cause != _NO_CAUSE)
    rows = np.flatnonzero(known)
    rows = rows[working_threads(trace)[thread[rows]]]
    start = columns["start_ns"].values[rows]
    end = np.maximum(start, columns["end_ns"].values[rows])
    process = trace.columns("thread", "process_id")["process_id"].values[thread[rows]]
    return Blocking(start, end, thread[rows], process.astype(np.int64), cause[rows], end - start)


def _overhead_code(name: str) -> int:
    cause = overhead_cause(name)
    return _NO_CAUSE if cause is None else IDLE_CAUSES.index(cause)


def _of_texts(trace: Trace, ids: I64, meaning: Callable[[str], int]) -> I8:
    """Return a number for each text, computed once per distinct text."""
    codes, distinct = number_texts(ids, len(trace.strings))
    numbers = [meaning(text) for text in trace.strings.texts(distinct.tolist())]
    return np.array(numbers, np.int8)[codes]


def _is_wait(cause: I8) -> BoolArray:
    """Return which causes are waits, which cost something even without anything to wait for."""
    return np.isin(cause, [IDLE_CAUSES.index("host-sync"), IDLE_CAUSES.index("pageable-copy")])
