"""The calls that wait for the GPU, the awaited items, and the calls' own durations.

The function determines the awaited items: everything in a stream, everything in a stream up to an
event record, everything in the process, or a copy's own end. Where the recording lacks the stream
or event, it is the operation that ended last before the call. A call that ended long before an item
did not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_blocking import OWN_COST_NS, SMALL_COPY_BYTES, core_waits
from warpline.derived.idle.host_calls import numbers_of_texts
from warpline.derived.idle.kinds import CallKind, call_kind
from warpline.derived.texts import without_version
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.group import factorize
from warpline.ops.tiling import Grouped, by_group, cut
from warpline.replay.edges import NEVER
from warpline.replay.host import NONE, HostSide, host_side
from warpline.replay.queued import EventRows, Queued, event_rows, queued, reached_ns, records_before
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Run, Trace
from warpline.vocabulary import Vocabulary

# A call may return this much before the recorded end of the awaited item: clocks differ.
_SLACK_NS = 20_000
# Behind this many pending items, a launch that takes this many times its usual time waits for a
# free queue slot. The driver queues about 1,024 launches per stream; graphs and events take slots
# too.
_QUEUE_LENGTH = 500
_SLOW = 1.5
# A thread wakes up within this time after the awaited item ends; measured: 3 to 7 us.
LONGEST_WAKE_NS = 100_000
DEFAULT_WAKE_NS = 5_000
_OWN_PERCENTILE = 5

_EVERYTHING = (
    *("DeviceSynchronize", "CtxSynchronize", "ThreadSynchronize"),
    *("Free", "FreeHost", "MemFree", "MemFreeHost", "HostUnregister", "MemHostUnregister"),
)
_PREFIX = lazy_pattern(r"\A(cuda|cu|hip)")


class WaitsFor(Vocabulary):
    """What a call waits for."""

    NOTHING = ""
    STREAM = "stream"
    EVENT = "event"
    EVERYTHING = "everything"


class Waits(NamedTuple):
    """Calls with the items that they wait for; a call may wait for several items.

    Attributes:
        call: Shape (k,), int64, places in the CPU side's calls, ascending.
        item: Shape (k,), int64, places in `queued`.
    """

    call: I64
    item: I64


class Costs(NamedTuple):
    """Durations of calls.

    Attributes:
        preempted_ns: Shape (calls,), int64, time without a CPU core. It is part of none of the
            others: without the call, the thread would have no core either.
        own_ns: Shape (calls,), int64, duration without waiting.
        wake_ns: Shape (calls,), int64, time from the end of the awaited item to the call's end.
        usual_wake_ns: Shape (calls,), int64, the median of `wake_ns` for its function.
    """

    preempted_ns: I64
    own_ns: I64
    wake_ns: I64
    usual_wake_ns: I64


@cache
def waits_for(name: str) -> WaitsFor:
    """Return what a CUDA API function waits for."""
    plain = _PREFIX.sub("", without_version(name))
    if plain == "StreamSynchronize":
        return WaitsFor.STREAM
    if plain == "EventSynchronize":
        return WaitsFor.EVENT
    return WaitsFor.EVERYTHING if plain in _EVERYTHING else WaitsFor.NOTHING


@derived
def host_waits(run: Run) -> Waits:
    """Return the items that each call of the simulated window waited for."""
    host, queue = host_side(run), queued(run)
    if not len(host) or not len(queue):
        return Waits(np.zeros(0, np.int64), np.zeros(0, np.int64))
    what = numbers_of_texts(run.trace, host.name, waits_for)
    parts = [
        *_told(run, what),
        _everything(host, queue, np.flatnonzero(what == WaitsFor.EVERYTHING)),
        held_copies(run),
        _full_queues(run),
    ]
    pairs = np.concatenate([np.stack(part) for part in parts], axis=1)
    pairs = pairs[:, pairs[1] >= 0]
    done = reached_ns(run)[pairs[1]]
    pairs = pairs[:, done <= host.end_ns[pairs[0]] + _SLACK_NS]
    return Waits(*pairs[:, np.argsort(pairs[0], kind="stable")])


@derived
def call_costs(run: Run) -> Costs:
    """Return each call's duration without waiting, and its time to wake up."""
    host, waits = host_side(run), host_waits(run)
    no_core = preempted_between(run.trace, Grouped(host.start_ns, host.end_ns, host.thread))
    end = host.end_ns - no_core
    length = end - host.start_ns
    codes = factorize(host.name).codes
    target = np.full(len(host), NEVER)
    np.maximum.at(target, waits.call, reached_ns(run)[waits.item])
    may_wait = target != NEVER
    frees = host.kind == CallKind.ALLOCATOR
    after = end - np.where(may_wait, target, end)
    own, usual_wake = length.copy(), np.zeros(len(host), np.int64)
    waited = np.zeros(len(host), np.bool_)
    calls = np.flatnonzero(may_wait)
    for rows in by_group(codes[calls]):
        mine = calls[rows]
        usual = np.percentile(length[codes == codes[mine[0]]], _OWN_PERCENTILE)
        least = min(int(usual), OWN_COST_NS)  # if all calls waited, the own duration is unknown
        # A call that continues long after the end of an item did not wait for it.
        is_late = (after[mine] > LONGEST_WAKE_NS) & ~frees[mine]
        held = mine[(target[mine] > host.start_ns[mine] + least) & ~is_late]
        waited[held] = True
        own[held] = np.minimum(least, length[held])
        usual_wake[mine] = int(np.median(after[held])) if len(held) else DEFAULT_WAKE_NS
    wake = np.where(waited, after, np.minimum(usual_wake, after))
    return Costs(no_core, own, wake, np.where(waited, usual_wake, np.minimum(usual_wake, after)))


def preempted_between(trace: Trace, spans: Grouped) -> I64:
    """Return how long threads were late in some times because they were preempted.

    Shape (spans,), int64.
    """
    times, late = core_waits(trace), np.zeros(len(spans.group), np.int64)
    if len(times.thread):
        inside = cut(spans, Grouped(*times))
        np.add.at(late, inside.span, inside.end_ns - inside.start_ns)
    return late


@derived
def held_copies(run: Run) -> Waits:
    """Return the copies that block their thread until they are done, with their calls.

    These are pageable copies, except small host-to-device ones, and copies by synchronous
    functions, except device-to-device ones.
    """
    host, queue, work = host_side(run), queued(run), operations(run.trace)
    copies = work.of_table("memcpy")
    is_copy = np.zeros(len(work), np.bool_)
    is_copy[copies] = True
    items = np.flatnonzero((queue.operation >= 0) & (queue.call >= 0))
    items = items[is_copy[queue.operation[items]]]
    if not len(items):
        return Waits(items, items)
    row = work.row[queue.operation[items]]
    columns = run.trace.columns("memcpy", "kind", "bytes", "src_memory", "dst_memory")
    kind, size = columns["kind"].values[row], columns["bytes"].values[row]
    pageable = _code(MEMORY_KINDS, "Pageable")
    is_pageable = np.zeros(len(row), np.bool_)
    for side in ("src_memory", "dst_memory"):
        is_pageable |= columns[side].filled(NONE)[row] == pageable
    is_staged = (size <= SMALL_COPY_BYTES) & (kind == _code(COPY_KINDS, "Host-to-Device"))
    names = host.name[queue.call[items]]
    is_synchronous = numbers_of_texts(run.trace, names, call_kind) == CallKind.COPY
    within = kind == _code(COPY_KINDS, "Device-to-Device")
    holds = (is_pageable & ~is_staged) | (is_synchronous & ~within)
    return Waits(queue.call[items[holds]], items[holds])


def _told(run: Run, what: I8) -> list[Waits]:
    """Return the recorded waits for streams and events, and a guess for unrecorded ones."""
    host, queue = host_side(run), queued(run)
    stream = np.full(len(host), NONE)
    record = np.full(len(host), NONE)
    rows = event_rows(run, "host_wait")
    stream[rows.call] = rows.stream
    is_event = what[rows.call] == WaitsFor.EVENT
    events = EventRows(*(column[is_event] for column in rows))
    records = event_rows(run, "event_record")
    record[events.call] = _items_of(queue, records, records_before(records, events, host))
    on_stream = np.flatnonzero((what == WaitsFor.STREAM) & (stream >= 0))
    on_event = np.flatnonzero((what == WaitsFor.EVENT) & (record >= 0))
    told = np.zeros(len(host), np.bool_)
    told[rows.call] = True
    untold = np.flatnonzero(np.isin(what, [WaitsFor.STREAM, WaitsFor.EVENT]) & ~told)
    return [
        Waits(on_stream, queue.last_before(stream[on_stream], host.start_ns[on_stream])),
        Waits(on_event, record[on_event]),
        _by_their_ends(host, queue, untold),
    ]


def _items_of(queue: Queued, records: EventRows, chosen: I64) -> I64:
    """Return the places of event records in the queue."""
    is_record = (queue.operation < 0) & (queue.awaits < 0)
    items = np.flatnonzero(is_record)
    place = np.full(int(max(queue.call.max(initial=0), records.call.max(initial=0))) + 1, NONE)
    place[queue.call[items]] = items
    call = np.where(chosen >= 0, np.append(records.call, NONE)[chosen], NONE)
    return np.where(call >= 0, place[call], NONE)


def _by_their_ends(host: HostSide, queue: Queued, calls: I64) -> Waits:
    """Return, for calls that may have waited, the process's operation that ended last."""
    item = np.full(len(calls), NONE)
    work = np.flatnonzero(queue.operation >= 0)
    for rows in by_group(host.process[calls]):
        own = work[queue.process[work] == host.process[calls[rows[0]]]]
        if not len(own):
            continue
        own = own[np.argsort(queue.end_ns[own], kind="stable")]
        place = np.searchsorted(queue.end_ns[own], host.end_ns[calls[rows]], side="right") - 1
        candidate = own[np.maximum(place, 0)]
        given = queue.asked_ns[candidate] <= host.start_ns[calls[rows]]
        item[rows] = np.where((place >= 0) & given, candidate, NONE)
    return Waits(calls, item)


def _everything(host: HostSide, queue: Queued, calls: I64) -> Waits:
    """Return the last item of each stream of the process before each call."""
    streams, first = np.unique(queue.stream, return_index=True)
    owner = queue.process[first]
    pairs = [
        Waits(mine, queue.last_before(np.full(len(mine), stream), host.start_ns[mine]))
        for stream, process in zip(streams.tolist(), owner.tolist(), strict=True)
        if len(mine := calls[host.process[calls] == process])
    ]
    none = np.zeros(0, np.int64)
    return Waits(*(np.concatenate([none, *(pair[side] for pair in pairs)]) for side in (0, 1)))


def _full_queues(run: Run) -> Waits:
    """Return launches that waited for a slot in their stream's queue, and the items before it.

    Behind a full queue, a launch lasts until the GPU has taken an earlier one from it: about as
    long as a kernel. This is not work of the CPU, and shorter kernels make it shorter.
    """
    host, queue = host_side(run), queued(run)
    launches = np.flatnonzero((queue.operation >= 0) & (queue.call >= 0))
    held = np.zeros(len(host), np.bool_)
    held[held_copies(run).call] = True
    launches = launches[~held[queue.call[launches]]]
    done, pending = np.full(len(launches), NONE), np.zeros(len(launches), np.int64)
    for rows in by_group(queue.stream[launches]):
        stream = queue.stream[launches[rows[0]]]
        low, high = np.searchsorted(queue.stream, stream + np.array([0, 1]))
        ends = np.maximum.accumulate(queue.end_ns[low:high])
        until = host.end_ns[queue.call[launches[rows]]]
        last = low + np.searchsorted(ends, until, side="right") - 1
        done[rows] = np.where(last >= low, last, NONE)
        pending[rows] = launches[rows] - np.maximum(last, low)
    call = queue.call[launches]
    is_full = (done >= 0) & (pending >= _QUEUE_LENGTH)
    is_full &= (host.end_ns - host.start_ns)[call] > _SLOW * _usual_call_ns(host, call, is_full)
    return Waits(call[is_full], done[is_full])


def _usual_call_ns(host: HostSide, call: I64, is_full: BoolArray) -> I64:
    """Return the median duration of the calls of the same function that found room in the queue.

    If none did, no more than `OWN_COST_NS`. Shape (launches,), int64.
    """
    length, usual = (host.end_ns - host.start_ns)[call], np.zeros(len(call), np.int64)
    for rows in by_group(factorize(host.name[call]).codes):
        free = length[rows[~is_full[rows]]]
        shortest = np.percentile(length[rows], _OWN_PERCENTILE)
        usual[rows] = np.median(free) if len(free) else min(shortest, OWN_COST_NS)
    return usual


def _code(labels: Mapping[int, str], label: str) -> int:
    return next(code for code, text in labels.items() if text == label)
