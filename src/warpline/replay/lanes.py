"""The devices' side of the event graph: what each stream does, in its order.

A stream holds operations, and between them the places where an event was recorded or waited for.
An event stands for all that its stream was given before, the waits among it: so a place in the
stream says it, whatever comes before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I64, Integers
from warpline.ops.group import factorize_rows
from warpline.ops.join import lookup_rows
from warpline.replay.edges import Edges, times
from warpline.replay.host import NONE, HostSide, host_side
from warpline.replay.window import replay_window
from warpline.trace import ColumnData, Trace


class Lanes(NamedTuple):
    """What streams were given, by stream and order; items of one stream stand together.

    Attributes:
        operation: Shape (n,), int64, places in `operations`; NONE where an event was recorded or
            waited for.
        call: Shape (n,), int64, places in the host side's calls; NONE if it was launched before
            the window or by a call that is not known.
        stream: Shape (n,), int64, rows of the stream table.
        process: Shape (n,), int64, rows of the process table.
        start_ns: Shape (n,), int64; of events, when they were asked for.
        end_ns: Shape (n,), int64.
        asked_ns: Shape (n,), int64, ascending in a stream: when the call began that asked for it
            or for something before it.
        awaits: Shape (n,), int64, the place of the record that a wait is for, NONE for others.
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
        """Return the last item that each stream had been given by a time, NONE without one."""
        bounds = np.searchsorted(self.stream, [stream, stream + 1])
        found = np.full(len(stream), NONE)
        for each in np.unique(stream).tolist():
            rows = np.flatnonzero(stream == each)
            low, high = bounds[0][rows[0]], bounds[1][rows[0]]
            place = low + np.searchsorted(self.asked_ns[low:high], time_ns[rows], side="right") - 1
            found[rows] = np.where(place >= low, place, NONE)
        return found


class EventRows(NamedTuple):
    """Rows of a table about events, with the calls that made them.

    Attributes:
        call: Shape (n,), int64, places in the host side's calls, ascending.
        stream: Shape (n,), int64, NONE where there is none.
        event: Shape (n,), int64, NONE where it is not known.
        sync: Shape (n,), int64, NONE where it is not known.
    """

    call: I64
    stream: I64
    event: I64
    sync: I64


@derived
def lanes(trace: Trace, name: str | None = None) -> Lanes:
    """Return what streams did in the replayed window, and what was running when it began."""
    work, host = operations(trace), host_side(trace, name)
    chosen, call = _replayed(trace, work, host, name)
    records, waits = event_rows(trace, "event_record", name), event_rows(trace, "stream_wait", name)
    known = waits.stream >= 0
    waits = EventRows(*(column[known] for column in waits))
    # What no known call launched was given to its stream after what stands before it there.
    asked = np.where(call >= 0, np.append(host.start_ns, 0)[call], np.iinfo(np.int64).min)
    asked = _running_max(asked, work.stream[chosen], work.start_ns[chosen])
    events = [np.full(len(part.call), NONE) for part in (records, waits)]
    at = [host.start_ns[part.call] for part in (records, waits)]
    by = [host.process[part.call] for part in (records, waits)]
    found = Lanes(
        np.concatenate((chosen, *events)),
        np.concatenate((call, records.call, waits.call)),
        np.concatenate((work.stream[chosen], records.stream, waits.stream)),
        np.concatenate((work.process[chosen], *by)),
        np.concatenate((work.start_ns[chosen], *at)),
        np.concatenate((work.end_ns[chosen], *at)),
        np.concatenate((asked, *at)),
        np.full(len(chosen) + len(records.call) + len(waits.call), NONE),
    )
    order = np.lexsort((found.end_ns, found.start_ns, found.asked_ns, found.stream))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    record = records_before(records, waits, host)
    awaits = found.awaits
    matched = np.flatnonzero(record >= 0)
    awaits[len(chosen) + len(records.call) + matched] = place[len(chosen) + record[matched]]
    return Lanes(*(column[order] for column in found))


@derived
def reached_ns(trace: Trace, name: str | None = None) -> I64:
    """Return when each item was done: operations as recorded, events when their turn came.

    An event's turn comes when all before it in its stream is done, and what that waited for.
    """
    found = lanes(trace, name)
    is_event = found.operation < 0
    follows = np.flatnonzero(is_event[1:] & (found.stream[1:] == found.stream[:-1])) + 1
    awaits = np.flatnonzero(found.awaits >= 0)
    target = np.append(follows, awaits)
    source = np.append(follows - 1, found.awaits[awaits])
    order = np.argsort(target, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(target, minlength=len(found))))
    ends = np.ones(len(order), np.bool_)
    edges = Edges(first, source[order].astype(np.int32), ends, np.zeros(len(order), np.uint8))
    length = found.end_ns - found.start_ns
    return times(edges, np.zeros(len(order), np.int64), length, found.start_ns) + length


def event_rows(trace: Trace, table: str, name: str | None) -> EventRows:
    """Return the rows of a table about events whose calls are in the replayed window."""
    host = host_side(trace, name)
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
    """Return the record that each wait for an event is for, NONE where there is none.

    It is the latest one of the event before the wait, of those with the wait's own number if
    both have one.
    """
    has_sync = np.append(records.sync, waits.sync) >= 0
    is_record = np.arange(len(has_sync)) < len(records.call)
    event = np.append(records.event, waits.event)
    sync = np.where(has_sync, np.append(records.sync, waits.sync), NONE)
    process = host.process[np.append(records.call, waits.call)]
    time = host.start_ns[np.append(records.call, waits.call)]
    exact = _latest(factorize_rows(process, event, sync).codes, time, is_record)
    found = exact[len(records.call) :]
    any_sync = _latest(factorize_rows(process, event).codes, time, is_record)[len(records.call) :]
    loose = ~has_sync[len(records.call) :]
    return np.where(loose, any_sync, found)


def calls_with(trace: Trace, host: HostSide, process: ColumnData, correlation: ColumnData) -> I64:
    """Return the outermost calls with given correlations, NONE where there is none."""
    columns = trace.columns("api_call", "process_id", "correlation_id", "start_ns", "thread_id")
    low, high = (int(host.row[place]) for place in (0, -1))
    window = slice(low, high + 1)
    known = np.flatnonzero(columns["correlation_id"].is_valid()[window])
    keys = [columns[key].values[window][known] for key in ("process_id", "correlation_id")]
    found = lookup_rows([process.values, correlation.values], keys)
    hit = np.flatnonzero(found.found & correlation.is_valid())
    place = np.full(len(found.row), NONE)
    place[hit] = outermost_of(trace, host, low + known[found.row[hit]])
    return place


def outermost_of(trace: Trace, host: HostSide, rows: I64) -> I64:
    """Return the place of the outermost call that holds each row of api_call, NONE without."""
    if not len(host) or not len(rows):
        return np.full(len(rows), NONE)
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id")
    start, end, thread = (columns[key].values[rows] for key in ("start_ns", "end_ns", "thread_id"))
    by_thread = np.argsort(host.thread, kind="stable")
    found = np.full(len(rows), NONE)
    bounds = np.searchsorted(host.thread[by_thread], np.arange(host.thread.max() + 2))
    for each in np.unique(thread).tolist():
        if each > host.thread.max():
            continue
        own = by_thread[bounds[each] : bounds[each + 1]]
        mine = np.flatnonzero(thread == each)
        place = np.searchsorted(host.start_ns[own], start[mine], side="right") - 1
        inside = place >= 0
        mine, place = mine[inside], own[place[inside]]
        inside = np.maximum(end[mine], start[mine]) <= host.end_ns[place]
        found[mine[inside]] = place[inside]
    return found


def _replayed(trace: Trace, work: Operations, host: HostSide, name: str | None) -> tuple[I64, I64]:
    """Return the operations to replay, and their calls; NONE for those that only run on."""
    window = replay_window(trace, name)
    call = np.full(len(work), NONE)
    launched = np.flatnonzero(work.call >= 0)
    call[launched] = outermost_of(trace, host, work.call[launched])
    called = work.start_ns.copy()
    if len(launched):
        called[launched] = trace.columns("api_call", "start_ns")["start_ns"].values[
            work.call[launched]
        ]
    runs_on = (called < window.start_ns) & (work.end_ns > window.start_ns)
    unknown = (work.call < 0) & (called >= window.start_ns) & (called < window.end_ns)
    chosen = np.flatnonzero((call >= 0) | runs_on | unknown)
    return chosen, call[chosen]


def _running_max(values: I64, stream: I64, start: I64) -> I64:
    """Return the largest value so far of each stream, in the order of starts."""
    order = np.lexsort((start, stream))
    found = values[order]
    bounds = np.append(np.flatnonzero(np.diff(stream[order], prepend=-1)), len(order))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.maximum.accumulate(found[low:high], out=found[low:high])
    reached = np.empty_like(values)
    reached[order] = found
    return reached


def _latest(code: Integers, time: I64, is_record: np.typing.NDArray[np.bool_]) -> I64:
    """Return for each row the latest record of its group before it, NONE without one."""
    order = np.lexsort((~is_record, time, code))
    place = np.where(is_record[order], np.arange(len(order)), NONE)
    latest = np.maximum.accumulate(place) if len(place) else place
    same = (latest >= 0) & (code[order[np.maximum(latest, 0)]] == code[order])
    found = np.full(len(order), NONE)
    found[order] = np.where(same, order[np.maximum(latest, 0)], NONE)
    return found
