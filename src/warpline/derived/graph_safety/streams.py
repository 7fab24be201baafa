"""Whether all streams of a step belong to one capture.

A capture begins on one stream. Another stream joins it by waiting for an event that was recorded in
a stream of the capture, and has to be waited for before the capture ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.graph_safety import kinds
from warpline.derived.graph_safety.calls import OffendingCalls
from warpline.derived.graph_safety.scope import NO_STEP, checked_steps
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.join import Lookup, lookup_rows
from warpline.schema.labels import STREAM_KINDS
from warpline.trace import Run, Trace

_NULL = next(value for value, label in STREAM_KINDS.items() if label == "Null")
_MOSTLY = 0.5  # of the steps


class _Waits(NamedTuple):
    """Waits of streams for events: rows of api_call of both calls, and both streams."""

    recorded: I64
    waited: I64
    recorded_in: I64
    waited_in: I64


@derived
def stray_streams(run: Run) -> tuple[OffendingCalls, ...]:
    """Return the launches on streams that are not part of the capture of their step."""
    trace, work, checked = run.trace, operations(run.trace), checked_steps(run)
    launched = np.flatnonzero(work.call >= 0)
    launched = (
        launched[checked.of_call[work.call[launched]] != NO_STEP] if len(launched) else launched
    )
    if not len(launched):
        return ()
    stream, call = work.stream[launched], work.call[launched]
    legacy, unjoined = list[I64](), list[I64]()
    waits = _waits(trace)
    for process in np.unique(work.process[launched]).tolist():
        own = work.process[launched] == process
        counts = np.bincount(stream[own])
        main = int(np.argmax(counts))
        for each in np.flatnonzero(counts).tolist():
            calls = np.sort(call[own & (stream == each)])
            if each == main:
                continue
            if _is_legacy(trace, each) and not _is_legacy(trace, main):
                legacy.append(calls)
            elif waits is not None and _is_stray(run, waits, each, calls):
                unjoined.append(calls)
    found = ((kinds.LEGACY_STREAM, legacy), (kinds.UNJOINED, unjoined))
    return tuple(
        OffendingCalls(kind, np.sort(np.concatenate(parts))) for kind, parts in found if parts
    )


def _is_legacy(trace: Trace, stream: int) -> bool:
    kind = trace.columns("stream", "kind")["kind"]
    return bool(kind.is_valid()[stream] and kind.values[stream] == _NULL)


def _is_stray(run: Run, waits: _Waits, stream: int, calls: I64) -> bool:
    """Return whether a stream is not forked from or not joined to others in most of its steps."""
    of_call = checked_steps(run).of_call
    step = of_call[calls]
    bounds = np.append(np.flatnonzero(np.diff(step, prepend=NO_STEP)), len(step))
    forks, joins = waits.waited[waits.waited_in == stream], waits.recorded_in == stream
    forks = np.sort(forks)
    stray = 0
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        first, last, own = calls[low], calls[high - 1], step[low]
        is_forked = bool(np.any((forks < first) & (of_call[forks] == own)))
        is_joined = bool(np.any(joins & (waits.recorded > last) & (of_call[waits.waited] == own)))
        stray += not (is_forked and is_joined)
    return stray > _MOSTLY * (len(bounds) - 1)


@derived
def _waits(trace: Trace) -> _Waits | None:
    """Return the waits of streams for events of other streams; None if they were not recorded."""
    if not all(trace.has(table) for table in ("stream_wait", "event_record", "stream")):
        return None
    names = ("process_id", "correlation_id", "event_sync_id", "stream_id")
    records, waits = (trace.columns(table, *names) for table in ("event_record", "stream_wait"))
    known = waits["event_sync_id"].is_valid() & waits["stream_id"].is_valid()
    rows = np.flatnonzero(known)
    keys = [waits[name].values[rows] for name in ("process_id", "event_sync_id")]
    of_records = [records[name].filled(-1) for name in ("process_id", "event_sync_id")]
    record = lookup_rows(keys, of_records)
    rows, record_row = rows[record.found], record.row[record.found]
    waited, waited_found = _calls(trace, *(waits[name].filled(-1)[rows] for name in names[:2]))
    recorded, recorded_found = _calls(
        trace, *(records[name].filled(-1)[record_row] for name in names[:2])
    )
    recorded_in = records["stream_id"].values[record_row].astype(np.int64)
    waited_in = waits["stream_id"].values[rows].astype(np.int64)
    kept = waited_found & recorded_found & (recorded_in != waited_in)
    return _Waits(recorded[kept], waited[kept], recorded_in[kept], waited_in[kept])


def _calls(trace: Trace, process: I64, correlation: I64) -> Lookup:
    """Return the calls with these processes and correlation ids, and which were found."""
    columns = trace.columns("api_call", "process_id", "correlation_id")
    return lookup_rows(
        [process, correlation],
        [columns["process_id"].values, columns["correlation_id"].filled(-1)],
    )
