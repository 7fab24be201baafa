"""The GPU side of the event graph: the items of each stream, in order.

A stream holds operations and, between them, event records and event waits. An event stands for
everything enqueued in its stream before, including waits, so a place in the stream represents it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I64, Integers
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.join import lookup_rows
from warpline.replay.edges import Edges, times
from warpline.replay.host import NONE, HostSide, host_side
from warpline.replay.window import replay_window
from warpline.trace import ColumnData, Run, Trace


class Queued(NamedTuple):
    """Items enqueued in streams, sorted by stream and order.

    Attributes:
        operation: Shape (n,), int64, places in `operations`; NONE for event records and waits.
        call: Shape (n,), int64, places in the CPU side's calls; NONE if launched before the window
            or by an unknown call.
        stream: Shape (n,), int64, rows of the stream table.
        process: Shape (n,), int64, rows of the process table.
        start_ns: Shape (n,), int64; of events, the time of the call.
        end_ns: Shape (n,), int64.
        asked_ns: Shape (n,), int64, ascending within a stream: the latest start of a call that
            enqueued this item or an earlier one.
        awaits: Shape (n,), int64, the place of the record that a wait refers to, NONE for others.
    """

    operation: I64
    call: I64
    stream: I64
    process: I64
    start_ns: I64
    end_ns: I64
    asked_ns: I64
    awaits: I64

    def __len__(self) -> int:
        return len(self.operation)

    def last_before(self, stream: I64, time_ns: I64) -> I64:
        """Return the last item enqueued in each stream by a given time, NONE without one."""
        bounds = np.searchsorted(self.stream, [stream, stream + 1])
        last = np.full(len(stream), NONE)
        for each in distinct_values(stream).tolist():
            rows = np.flatnonzero(stream == each)
            low, high = bounds[0][rows[0]], bounds[1][rows[0]]
            place = low + np.searchsorted(self.asked_ns[low:high], time_ns[rows], side="right") - 1
            last[rows] = np.where(place >= low, place, NONE)
        return last


class EventRows(NamedTuple):
    """Rows of a table of events, with their calls.

    Attributes:
        call: Shape (n,), int64, places in the CPU side's calls, ascending.
        stream: Shape (n,), int64, NONE without one.
        event: Shape (n,), int64, NONE if unknown.
        sync: Shape (n,), int64, NONE if unknown.
    """

    call: I64
    stream: I64
    event: I64
    sync: I64


@derived
def queued(run: Run) -> Queued:
    """Return the stream items of the simulated window, and operations running at its start."""
    work, host = operations(run.trace), host_side(run)
    chosen, call = _replayed(run, work, host)
    records, waits = event_rows(run, "event_record"), event_rows(run, "stream_wait")
    known = waits.stream >= 0
    waits = EventRows(*(column[known] for column in waits))
    # Operations without a known call were enqueued after their predecessor in the stream.
    asked = np.where(call >= 0, np.append(host.start_ns, 0)[call], np.iinfo(np.int64).min)
    asked = _running_max(asked, work.stream[chosen], work.start_ns[chosen])
    events = [np.full(len(part.call), NONE) for part in (records, waits)]
    at = [host.start_ns[part.call] for part in (records, waits)]
    by = [host.process[part.call] for part in (records, waits)]
    queue = Queued(
        operation=np.concatenate((chosen, *events)),
        call=np.concatenate((call, records.call, waits.call)),
        stream=np.concatenate((work.stream[chosen], records.stream, waits.stream)),
        process=np.concatenate((work.process[chosen], *by)),
        start_ns=np.concatenate((work.start_ns[chosen], *at)),
        end_ns=np.concatenate((work.end_ns[chosen], *at)),
        asked_ns=np.concatenate((asked, *at)),
        awaits=np.full(len(chosen) + len(records.call) + len(waits.call), NONE),
    )
    order = np.lexsort((queue.end_ns, queue.start_ns, queue.asked_ns, queue.stream))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    record = records_before(records, waits, host)
    awaits = queue.awaits
    matched = np.flatnonzero(record >= 0)
    awaits[len(chosen) + len(records.call) + matched] = place[len(chosen) + record[matched]]
    return Queued(*(column[order] for column in queue))


@derived
def reached_ns(run: Run) -> I64:
    """Return when each item was done: operations as recorded, events when reached.

    An event is reached when everything before it in its stream, including waits, is done.
    """
    queue = queued(run)
    is_event = queue.operation < 0
    follows = np.flatnonzero(is_event[1:] & (queue.stream[1:] == queue.stream[:-1])) + 1
    awaits = np.flatnonzero(queue.awaits >= 0)
    target = np.append(follows, awaits)
    source = np.append(follows - 1, queue.awaits[awaits])
    order = np.argsort(target, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(target, minlength=len(queue))))
    ends = np.ones(len(order), np.bool_)
    edges = Edges(first, source[order].astype(np.int32), ends, np.zeros(len(order), np.int8))
    length = queue.end_ns - queue.start_ns
    return times(edges, np.zeros(len(order), np.int64), length, queue.start_ns) + length


def event_rows(run: Run, table: str) -> EventRows:
    """Return the rows of a table of events whose calls are in the simulated window."""
    trace = run.trace
    host = host_side(run)
    none = np.zeros(0, np.int64)
    if not trace.has(table) or not trace.row_count(table) or not len(host):
        return EventRows(none, none, none, none)
    keys = ("process_id", "correlation_id", "stream_id", "event_id", "event_sync_id")
    columns = trace.columns(table, *keys)
    place = calls_with(trace, host, columns["process_id"], columns["correlation_id"])
    rows = np.flatnonzero(place >= 0)
    rows = rows[np.argsort(place[rows], kind="stable")]
    stream, event, sync = (columns[key].filled(NONE)[rows].astype(np.int64) for key in keys[2:])
    return EventRows(place[rows], stream, event, sync)


def records_before(records: EventRows, waits: EventRows, host: HostSide) -> I64:
    """Return the event record that each wait refers to, NONE without one.

    It is the latest record of the event before the wait, with the same synchronization id if both
    have one.
    """
    has_sync = np.append(records.sync, waits.sync) >= 0
    is_record = np.arange(len(has_sync)) < len(records.call)
    event = np.append(records.event, waits.event)
    sync = np.where(has_sync, np.append(records.sync, waits.sync), NONE)
    process = host.process[np.append(records.call, waits.call)]
    time = host.start_ns[np.append(records.call, waits.call)]
    exact = _latest(factorize_rows(process, event, sync).codes, time, is_record)
    same_sync = exact[len(records.call) :]
    any_sync = _latest(factorize_rows(process, event).codes, time, is_record)[len(records.call) :]
    loose = ~has_sync[len(records.call) :]
    return np.where(loose, any_sync, same_sync)


def calls_with(trace: Trace, host: HostSide, process: ColumnData, correlation: ColumnData) -> I64:
    """Return the outermost calls with the given correlation ids, NONE without one."""
    columns = trace.columns("api_call", "process_id", "correlation_id", "start_ns", "thread_id")
    low, high = (int(host.row[place]) for place in (0, -1))
    window = slice(low, high + 1)
    known = np.flatnonzero(columns["correlation_id"].is_valid()[window])
    keys = [columns[key].values[window][known] for key in ("process_id", "correlation_id")]
    lookup = lookup_rows([process.values, correlation.values], keys)
    hit = np.flatnonzero(lookup.found & correlation.is_valid())
    place = np.full(len(lookup.row), NONE)
    place[hit] = outermost_of(trace, host, low + known[lookup.row[hit]])
    return place


def outermost_of(trace: Trace, host: HostSide, rows: I64) -> I64:
    """Return the place of the outermost call around each row of api_call, NONE without one."""
    if not len(host) or not len(rows):
        return np.full(len(rows), NONE)
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id")
    start, end, thread = (columns[key].values[rows] for key in ("start_ns", "end_ns", "thread_id"))
    by_thread = np.argsort(host.thread, kind="stable")
    outermost = np.full(len(rows), NONE)
    bounds = np.searchsorted(host.thread[by_thread], np.arange(host.thread.max() + 2))
    for each in distinct_values(thread).tolist():
        if each > host.thread.max():
            continue
        own = by_thread[bounds[each] : bounds[each + 1]]
        mine = np.flatnonzero(thread == each)
        place = np.searchsorted(host.start_ns[own], start[mine], side="right") - 1
        inside = place >= 0
        mine, place = mine[inside], own[place[inside]]
        inside = np.maximum(end[mine], start[mine]) <= host.end_ns[place]
        outermost[mine[inside]] = place[inside]
    return outermost


def _replayed(run: Run, work: Operations, host: HostSide) -> tuple[I64, I64]:
    """Return the operations to simulate and their calls; NONE for those running at the start."""
    window = replay_window(run)
    call = np.full(len(work), NONE)
    launched = np.flatnonzero(work.call >= 0)
    called = work.start_ns.copy()
    if len(launched):
        called[launched] = run.trace.columns("api_call", "start_ns")["start_ns"].values[
            work.call[launched]
        ]
    if len(host):  # no call before or after all of these is inside one of them
        launched = launched[called[launched] >= host.start_ns.min()]
        launched = launched[called[launched] <= host.end_ns.max()]
    call[launched] = outermost_of(run.trace, host, work.call[launched])
    part = window.of_time(called)
    is_outside = called >= np.append(window.end_ns, np.iinfo(np.int64).min)[part]
    upcoming = np.append(window.start_ns, np.iinfo(np.int64).max)[part + 1]
    runs_on = is_outside & (work.end_ns > upcoming)
    unknown = (work.call < 0) & ~is_outside
    chosen = np.flatnonzero((call >= 0) | runs_on | unknown)
    return chosen, call[chosen]


def _running_max(values: I64, stream: I64, start: I64) -> I64:
    """Return the running maximum within each stream, in the order of starts."""
    order = np.lexsort((start, stream))
    largest = values[order]
    bounds = np.append(np.flatnonzero(np.diff(stream[order], prepend=-1)), len(order))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.maximum.accumulate(largest[low:high], out=largest[low:high])
    reached = np.empty_like(values)
    reached[order] = largest
    return reached


def _latest(code: Integers, time: I64, is_record: np.typing.NDArray[np.bool_]) -> I64:
    """Return the latest preceding record of each row's group, NONE without one."""
    order = np.lexsort((~is_record, time, code))
    place = np.where(is_record[order], np.arange(len(order)), NONE)
    latest = np.maximum.accumulate(place) if len(place) else place
    same = (latest >= 0) & (code[order[np.maximum(latest, 0)]] == code[order])
    preceding = np.full(len(order), NONE)
    preceding[order] = np.where(same, order[np.maximum(latest, 0)], NONE)
    return preceding
