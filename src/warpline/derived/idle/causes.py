"""Causes of idle time: from the launch that ended each gap, and the CPU activity before it.

A *gap* is time during which nothing runs on a device. The operation that ended it could start once
its launch had reached the device and its dependencies were complete. A launch arrives one *launch
latency* L after the start of its call, or at the end of the call if that is later.

1. Before the first operation of a recording and after the last one: ``tail``. Without a recorded
   launch call: ``unknown``, as is time between samples. In a part of a recording, operations
   launched before the part count as launched in time.
2. The launch arrived before the gap began: the operation waited on the device, and
   `device_waits` has the cause. The same applies to the end of a gap that lasts more than
   `SLACK_NS` beyond the arrival.
3. Otherwise the CPU was late, and the gap is divided by the activity of the launching thread. If
   that thread made no calls since before the gap, and another launching thread of the process made
   the last call before its next one, that thread handed over to it (as autograd does). It then
   counts until the end of its call.
   a. Time in a blocking call has its cause: CUDA API calls and the profiler (see `host_blocking`),
      loading or preparing input (see `data_waits`), and waits in the operating system (see
      `os_waits`). While the thread is preempted, that is the cause (see `preemption`).
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

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.debt import Idle, charge
from warpline.derived.idle.device_waits import LONGEST_WAIT_NS, waits_of_device
from warpline.derived.idle.gaps import Gaps, Pieces, Spans
from warpline.derived.idle.handovers import threads_to_launch
from warpline.derived.idle.host_blocking import Blocking, blocking
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import clip, covered_until, union
from warpline.ops.join import lookup_rows
from warpline.ops.tiling import Cuts, Grouped, cut, rest
from warpline.trace import Trace

DEFAULT_LATENCY_NS = 6_500
SLACK_NS = 20_000
_LONGEST_LATENCY_NS = 50_000
_FEWEST_SAMPLES = 20
_TO_HOST = TimePart.COPY_D2H


@derived
def launch_latency_ns(trace: Trace) -> int:
    """Return the median time from the start of a launch call to its kernel, on an idle device."""
    work = operations(trace)
    if not len(work):
        return DEFAULT_LATENCY_NS
    chosen = work.call >= 0
    chosen &= work.table == DEVICE_TABLES.index("kernel")
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return DEFAULT_LATENCY_NS
    latency = work.start_ns[rows]
    latency -= trace.columns("api_call", "start_ns")["start_ns"].values[work.call[rows]]
    fits = np.flatnonzero((latency >= 0) & (latency <= _LONGEST_LATENCY_NS))
    rows, latency = rows[fits], latency[fits]
    # Until when earlier operations of the device ran, and whether there are any.
    reach = _running_max(work)[np.maximum(rows - 1, 0)]
    is_first = np.isin(rows, [first for first, _ in work.bounds_of_devices()])
    latency = latency[is_first | (work.start_ns[rows] - latency >= reach)]
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
        parts.extend(waits_of_device(trace, gaps, waited))
    parts.extend(_host_side(trace, gaps, late))
    gap, start, end = (np.concatenate([part[place] for part in parts]) for place in range(3))
    cause = np.concatenate([part.cause for part in parts])
    order = np.lexsort((start, gap))
    gap, start, end, cause = gap[order], start[order], end[order], cause[order]
    opens = np.append(True, (gap[1:] != gap[:-1]) | (cause[1:] != cause[:-1]))[: len(gap)]
    closes = np.append(opens[1:], True)[: len(gap)]
    return Pieces(gap[opens], start[opens], end[closes], cause[opens])


def _recorded(trace: Trace, gaps: Gaps) -> tuple[Spans, list[Pieces]]:
    """Return the gaps with an operation on either side, and all others with their cause."""
    whole = Spans(np.arange(len(gaps.device)), gaps.start_ns, gaps.end_ns)
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
    edges = Spans(sampled.span, sampled.start_ns, sampled.end_ns).taken(~is_whole)
    unrecorded = Spans(outside.span, outside.start_ns, outside.end_ns)
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


def _split_at_arrival(trace: Trace, gaps: Gaps, spans: Spans) -> tuple[Spans, Spans]:
    """Split spans into the time before and after the arrival of the launch."""
    if not len(spans.gap):
        return spans, spans
    call = operations(trace).call[gaps.after[spans.gap]]
    columns = trace.columns("api_call", "start_ns", "end_ns")
    called, returned = (columns[name].values[call] for name in ("start_ns", "end_ns"))
    # A device-to-host copy reaches the device long before its call returns, unless the driver
    # prepares it while nothing runs there.
    is_read = operation_categories(trace)[gaps.after[spans.gap]] == _TO_HOST
    arrival = called + launch_latency_ns(trace)
    waits = is_read & (spans.end_ns - np.maximum(arrival, spans.start_ns) <= LONGEST_WAIT_NS)
    arrival = np.where(waits, arrival, np.maximum(arrival, returned))
    waited = (arrival <= spans.start_ns) | (spans.end_ns - arrival > SLACK_NS)
    cut = np.where(waited, np.clip(arrival, spans.start_ns, spans.end_ns), spans.end_ns)
    return spans._replace(end_ns=cut), spans._replace(start_ns=cut)


def _host_side(trace: Trace, gaps: Gaps, spans: Spans) -> list[Pieces]:
    """Return the causes of spans during which the CPU was late."""
    spans = spans.taken(spans.end_ns > spans.start_ns)
    if not len(spans.gap):
        return []
    holds, work = blocking(trace), operations(trace)
    spans, thread = threads_to_launch(trace, gaps, spans)
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
        Spans(spans.gap[held.span], held.start_ns, held.end_ns).because(holds.cause[held.row]),
        Spans(gap, free.start_ns, middle).because(charged.cause),
        Spans(gap, middle, free.end_ns).because(TimePart.LAUNCH_BOUND),
    ]


def _lost(trace: Trace, holds: Blocking, held: Cuts, device: I64) -> I64:
    """Return the CPU time that each blocking call cost while each device was busy.

    Shape (holds, devices). A device without work meanwhile, as before the first operation, had
    nothing that the CPU could have run ahead of.
    """
    idle = np.zeros((len(holds.cause), trace.row_count("device")), np.int64)
    np.add.at(idle, (held.row, device), held.end_ns - held.start_ns)
    busy = np.zeros_like(idle)
    work = operations(trace)
    for low, high in work.bounds_of_devices():
        own = clip(work.start_ns[low:high], work.end_ns[low:high], *trace.span())
        times = union(*own)
        busy[:, int(work.device[low])] = covered_until(times, holds.end_ns) - covered_until(
            times, holds.start_ns
        )
    left: I64 = np.clip(holds.lost_ns[:, None] - idle, 0, busy)
    return left


def _running_max(work: Operations) -> I64:
    """Return the latest end of each operation and those before it on its device."""
    highest = np.empty_like(work.end_ns)
    for low, high in work.bounds_of_devices():
        np.maximum.accumulate(work.end_ns[low:high], out=highest[low:high])
    return highest
