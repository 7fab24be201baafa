"""Causes of idle time: from the launch that ended each gap, and the CPU activity before it.

A *gap* is time during which nothing runs on a device. The operation that ended it could start once
its launch had reached the device and its dependencies were complete. A launch arrives one *launch
latency* L after the start of its call, or at the end of the call if that is later.

1. Before the first operation of a recording and after the last one: ``tail``. Without a recorded
   launch call: ``unknown``, as is time between samples. In a part of a recording, operations
   launched before the part count as launched in time.
2. The launch arrived before the gap began: the operation waited on the device.
   ``communication-wait`` directly after a collective, otherwise ``dependency``. The same applies
   to the end of a gap that lasts more than `SLACK_NS` beyond the arrival.
3. Otherwise the CPU was late, and the gap is divided by the activity of the launching thread. If
   that thread made no calls since before the gap, and another launching thread of the process made
   the last call before its next one, that thread handed over to it (as autograd does). It then
   counts until the end of its call.
   a. Time in a blocking call has its cause: CUDA API calls and the profiler (see `host_blocking`),
      and loading or preparing input (see `data_waits`).
   b. Of the remaining time, each blocking call is charged at most the time that it cost the CPU
      while the device was still busy: without it, all later launches would come earlier by that
      much. An uncharged remainder carries over to later gaps, until a blocking call that cost more.
      Without this debt, time lost in an allocator would appear as ``launch-bound``, and a harmless
      synchronization would be charged for the slow CPU after it.
   c. The rest is ``launch-bound``: the CPU was launching work, or busy elsewhere.

L is the median time from the start of the launch call to the start of the kernel, over kernels
whose launch began on an idle device. Times over 50 us are ignored. With fewer than 20 kernels, L is
6.5 us. Measured on H200: 6.0 to 7.5 us.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.debt import Idle, charge
from warpline.derived.idle.host_blocking import Blocking, blocking
from warpline.derived.idle.host_calls import HostCalls, host_calls
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES, device_work
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.interval import covered_until, union
from warpline.ops.join import lookup_rows
from warpline.ops.tiling import Cuts, Grouped, by_group, cut, rest
from warpline.trace import Trace

DEFAULT_LATENCY_NS = 6_500
SLACK_NS = 20_000
_LONGEST_LATENCY_NS = 50_000
_FEWEST_SAMPLES = 20
_TO_HOST = TimePart.COPY_D2H


class Gaps(NamedTuple):
    """Times during which nothing ran on a device, by device and start.

    Attributes:
        device: Shape (n,), int64, rows of the device table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, after the start.
        before: Shape (n,), int64, the operation that ended last, -1 for none; indices into
            `operations`.
        after: Shape (n,), int64, an operation that ended the gap, -1 for none.
    """

    device: I64
    start_ns: I64
    end_ns: I64
    before: I64
    after: I64


class Pieces(NamedTuple):
    """Parts of gaps with their causes; they tile the gaps, and neighbors differ in cause.

    Attributes:
        gap: Shape (k,), int64, indices of gaps.
        start_ns: Shape (k,), int64.
        end_ns: Shape (k,), int64, after the start.
        cause: Shape (k,), int8, idle members of `TimePart`.
    """

    gap: I64
    start_ns: I64
    end_ns: I64
    cause: I8


class _Spans(NamedTuple):
    """Parts of gaps without a known cause yet; some may be empty."""

    gap: I64
    start_ns: I64
    end_ns: I64

    def taken(self, rows: I64 | BoolArray) -> _Spans:
        """Return the selected spans."""
        return _Spans(*(column[rows] for column in self))

    def because(self, cause: TimePart | I8) -> Pieces:
        """Return the spans with one cause, or one cause each."""
        codes = np.full(len(self.gap), cause, np.int8) if isinstance(cause, TimePart) else cause
        kept = self.end_ns > self.start_ns
        return Pieces(self.gap[kept], self.start_ns[kept], self.end_ns[kept], codes[kept])


@derived
def launch_latency_ns(trace: Trace) -> int:
    """Return the median time from the start of a launch call to its kernel, on an idle device."""
    work = operations(trace)
    rows = work.of_table("kernel")
    rows = rows[work.call[rows] >= 0]
    if not len(rows):
        return DEFAULT_LATENCY_NS
    called = trace.columns("api_call", "start_ns")["start_ns"].values[work.call[rows]]
    same = np.append(False, work.device[1:] == work.device[:-1])
    reach = np.append(0, _running_max(work.end_ns, work.device)[:-1])
    was_idle = ~same[rows] | (called >= reach[rows])
    latency = (work.start_ns[rows] - called)[was_idle]
    latency = latency[(latency >= 0) & (latency <= _LONGEST_LATENCY_NS)]
    return int(np.median(latency)) if len(latency) >= _FEWEST_SAMPLES else DEFAULT_LATENCY_NS


def idle_pieces(trace: Trace, gaps: Gaps) -> Pieces:
    """Return the parts of gaps with the cause of each, by gap and start.

    Args:
        trace: The trace.
        gaps: Gaps of that trace.
    """
    inside, parts = _recorded(trace, gaps)
    call = operations(trace).call[gaps.after[inside.gap]]
    late, held = _split_at_arrival(trace, gaps, inside.taken(call >= 0))
    unlaunched = inside.taken(call < 0)
    early = _launched_before(trace, gaps.after[unlaunched.gap])
    parts.append(unlaunched.taken(~early).because(TimePart.UNKNOWN))
    for waited in (held, unlaunched.taken(early)):
        parts.append(waited.because(_device_side(trace, gaps, waited)))
    parts.extend(_host_side(trace, gaps, late))
    gap, start, end = (np.concatenate([part[place] for part in parts]) for place in range(3))
    cause = np.concatenate([part.cause for part in parts])
    order = np.lexsort((start, gap))
    gap, start, end, cause = gap[order], start[order], end[order], cause[order]
    opens = np.append(True, (gap[1:] != gap[:-1]) | (cause[1:] != cause[:-1]))[: len(gap)]
    closes = np.append(opens[1:], True)[: len(gap)]
    return Pieces(gap[opens], start[opens], end[closes], cause[opens])


def _recorded(trace: Trace, gaps: Gaps) -> tuple[_Spans, list[Pieces]]:
    """Return the gaps with an operation on either side, and all others with their cause."""
    whole = _Spans(np.arange(len(gaps.device)), gaps.start_ns, gaps.end_ns)
    has_both = (gaps.before >= 0) & (gaps.after >= 0)
    windows = trace.meta.windows_ns
    if windows is None:
        return whole.taken(has_both), [whole.taken(~has_both).because(TimePart.TAIL)]
    begins, ends = (np.array([window[side] for window in windows], np.int64) for side in (0, 1))
    everywhere = np.zeros_like(whole.gap)
    spans = Grouped(whole.start_ns, whole.end_ns, everywhere)
    sampled = cut(spans, Grouped(begins, ends, np.zeros_like(begins)))
    outside = rest(spans, sampled)
    # A gap within one sample is known; idle time at the start or end of a sample is not.
    length = whole.end_ns - whole.start_ns
    is_whole = (sampled.end_ns - sampled.start_ns == length[sampled.span]) & has_both[sampled.span]
    known = np.zeros(len(length), np.bool_)
    known[sampled.span[is_whole]] = True
    edges = _Spans(sampled.span, sampled.start_ns, sampled.end_ns).taken(~is_whole)
    unrecorded = _Spans(outside.span, outside.start_ns, outside.end_ns)
    return whole.taken(known), [edges.because(TimePart.TAIL), unrecorded.because(TimePart.UNKNOWN)]


def _launched_before(trace: Trace, operation: I64) -> BoolArray:
    """Return which operations were launched before the selected part of a recording.

    The part contains all calls that overlap it. If the call of an operation in the part is only in
    the whole recording, the operation was launched before the part.
    """
    is_before = np.zeros(len(operation), np.bool_)
    whole = trace.unfiltered()
    if trace.is_whole or not len(operation) or not whole.has("api_call"):
        return is_before
    calls = whole.columns("api_call", "process_id", "correlation_id")
    known = np.flatnonzero(calls["correlation_id"].is_valid())
    table = [calls[name].values[known] for name in ("process_id", "correlation_id")]
    work = operations(trace)
    for place, name in enumerate(DEVICE_TABLES):
        rows = np.flatnonzero(work.table[operation] == place)
        if not len(rows):
            continue
        columns = trace.columns(name, "process_id", "correlation_id")
        chosen = work.row[operation[rows]]
        wanted = [columns[key].values[chosen] for key in ("process_id", "correlation_id")]
        is_valid = columns["correlation_id"].is_valid()[chosen]
        is_before[rows] = lookup_rows(wanted, table).found & is_valid
    return is_before


def _split_at_arrival(trace: Trace, gaps: Gaps, spans: _Spans) -> tuple[_Spans, _Spans]:
    """Split spans into the time before and after the arrival of the launch."""
    if not len(spans.gap):
        return spans, spans
    call = operations(trace).call[gaps.after[spans.gap]]
    columns = trace.columns("api_call", "start_ns", "end_ns")
    called, returned = (columns[name].values[call] for name in ("start_ns", "end_ns"))
    # A device-to-host copy reaches the device long before its call returns.
    waits = operation_categories(trace)[gaps.after[spans.gap]] == _TO_HOST
    arrival = called + launch_latency_ns(trace)
    arrival = np.where(waits, arrival, np.maximum(arrival, returned))
    waited = (arrival <= spans.start_ns) | (spans.end_ns - arrival > SLACK_NS)
    cut = np.where(waited, np.clip(arrival, spans.start_ns, spans.end_ns), spans.end_ns)
    return spans._replace(end_ns=cut), spans._replace(start_ns=cut)


def _device_side(trace: Trace, gaps: Gaps, spans: _Spans) -> I8:
    """Return why operations waited whose launch had arrived."""
    category = operation_categories(trace)
    collective = TimePart.COLLECTIVE
    after_one = category[gaps.before[spans.gap]] == collective
    return np.where(after_one, TimePart.COMMUNICATION_WAIT, TimePart.DEPENDENCY).astype(np.int8)


def _host_side(trace: Trace, gaps: Gaps, spans: _Spans) -> list[Pieces]:
    """Return the causes of spans during which the CPU was late."""
    spans = spans.taken(spans.end_ns > spans.start_ns)
    if not len(spans.gap):
        return []
    holds, work = blocking(trace), operations(trace)
    spans, thread = _threads_to_launch(trace, gaps, spans)
    timeline = Grouped(spans.start_ns, spans.end_ns, thread)
    held = cut(timeline, Grouped(holds.start_ns, holds.end_ns, holds.thread))
    free = rest(timeline, held)
    free = Cuts(*(column[np.argsort(free.start_ns, kind="stable")] for column in free))
    lost = _lost(trace, holds, held, work.device[gaps.after[spans.gap[held.span]]])
    after = gaps.after[spans.gap[free.span]]
    idle = Idle(work.device[after], work.process[after], free.start_ns, free.end_ns)
    charged = charge(holds, lost, idle)
    middle = free.start_ns + charged.ns
    gap = spans.gap[free.span]
    return [
        _Spans(spans.gap[held.span], held.start_ns, held.end_ns).because(holds.cause[held.row]),
        _Spans(gap, free.start_ns, middle).because(charged.cause),
        _Spans(gap, middle, free.end_ns).because(TimePart.LAUNCH_BOUND),
    ]


def _lost(trace: Trace, holds: Blocking, held: Cuts, device: I64) -> I64:
    """Return the CPU time that each blocking call cost while each device was busy.

    Shape (holds, devices). A device without work meanwhile, as before the first operation, had
    nothing that the CPU could have run ahead of.
    """
    idle = np.zeros((len(holds.cause), trace.row_count("device")), np.int64)
    np.add.at(idle, (held.row, device), held.end_ns - held.start_ns)
    busy = np.zeros_like(idle)
    work = device_work(trace)
    for rows in by_group(work.device_id):
        times = union(work.start_ns[rows], work.end_ns[rows])
        busy[:, work.device_id[rows[0]]] = covered_until(times, holds.end_ns) - covered_until(
            times, holds.start_ns
        )
    left: I64 = np.clip(holds.lost_ns[:, None] - idle, 0, busy)
    return left


def _threads_to_launch(trace: Trace, gaps: Gaps, spans: _Spans) -> tuple[_Spans, I64]:
    """Return the spans with the thread to launch; split in two where another one handed over."""
    calls = host_calls(trace)
    call = operations(trace).call[gaps.after[spans.gap]]
    columns = trace.columns("api_call", "thread_id", "start_ns")
    thread = columns["thread_id"].values[call].astype(np.int64)
    # A thread that began the launch before the gap did not wait for another thread.
    early = columns["start_ns"].values[call] < spans.start_ns
    rows = np.flatnonzero(_has_other_threads(calls)[thread] & ~early)
    handover = _handovers(calls, spans.taken(rows), thread[rows])
    rows, until, other = rows[handover.row], handover.until_ns, handover.thread
    if not len(rows):
        return spans, thread
    start = spans.start_ns.copy()
    start[rows] = until
    joined = _Spans(
        np.concatenate((spans.gap[rows], spans.gap)),
        np.concatenate((spans.start_ns[rows], start)),
        np.concatenate((until, spans.end_ns)),
    )
    return joined, np.concatenate((other, thread))


class _Handovers(NamedTuple):
    """Spans in which one thread handed over to another.

    Attributes:
        row: Shape (k,), int64, rows of the spans.
        until_ns: Shape (k,), int64, end of the last call of the first thread, inside the span.
        thread: Shape (k,), int64, the first thread.
    """

    row: I64
    until_ns: I64
    thread: I64


def _has_other_threads(calls: HostCalls) -> BoolArray:
    """Return the threads that are not the only launching one of their process, shape (threads,)."""
    count = int(calls.thread.max()) + 1 if len(calls.thread) else 0
    has_others = np.zeros(count, np.bool_)
    first = np.flatnonzero(np.diff(calls.thread, prepend=-1))
    of_process = np.bincount(calls.process[first]) if len(first) else first
    has_others[calls.thread[first]] = of_process[calls.process[first]] > 1
    return has_others


def _handovers(calls: HostCalls, spans: _Spans, thread: I64) -> _Handovers:
    """Return spans that began while the thread made no calls, until another one handed over."""
    if not len(thread):
        return _Handovers(thread, thread, thread)
    place = _last_before(calls.thread, calls.start_ns, thread, spans.start_ns)
    silent = ~place.found | (calls.end_ns[place.last] <= spans.start_ns)
    # The thread's next call: at the latest, the launch itself.
    upcoming = np.minimum(place.next, len(calls.thread) - 1)
    spoke = np.minimum(calls.start_ns[upcoming], spans.end_ns)
    by_end = np.lexsort((calls.end_ns, calls.process))
    process = calls.process[upcoming]
    latest = _last_before(calls.process[by_end], calls.end_ns[by_end], process, spoke + 1)
    other = by_end[latest.last]
    until = np.minimum(calls.end_ns[other], spans.end_ns)
    handed = silent & latest.found & (calls.thread[other] != thread) & (until > spans.start_ns)
    row = np.flatnonzero(handed)
    return _Handovers(row, until[row], calls.thread[other[row]])


class _Places(NamedTuple):
    """Position of a time among the sorted times of its group.

    Attributes:
        last: Shape (n,), int64, index of the last earlier one; 0 if there is none.
        next: Shape (n,), int64, the index after it.
        found: Shape (n,), bool, whether there is an earlier one.
    """

    last: I64
    next: I64
    found: BoolArray


def _last_before(group: I64, time: I64, wanted_group: I64, wanted_time: I64) -> _Places:
    """Find each of `wanted_time` in its group; `time` ascends within groups, and groups ascend."""
    upcoming, first = np.zeros_like(wanted_time), np.zeros_like(wanted_time)
    for rows in by_group(wanted_group):
        low, high = np.searchsorted(group, wanted_group[rows[0]] + np.array([0, 1]))
        upcoming[rows] = low + np.searchsorted(time[low:high], wanted_time[rows], side="left")
        first[rows] = low
    found = upcoming > first
    return _Places(np.where(found, upcoming - 1, 0), upcoming, found)


def _running_max(values: I64, group: I64) -> I64:
    """Return the running maximum within each group; rows of a group are contiguous."""
    highest = np.empty_like(values)
    bounds = np.append(np.flatnonzero(np.diff(group, prepend=-1)), len(group))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.maximum.accumulate(values[low:high], out=highest[low:high])
    return highest
