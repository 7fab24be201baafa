"""serialized-streams: kernels of several streams could overlap, but run one after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.overlaps import COMPUTE
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.causes import launch_latency_ns
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.program import program_kind
from warpline.derived.recorder import calls_hint
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.texts import number_texts
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.interval import concurrency
from warpline.result import Finding, Skipped, rule
from warpline.schema.labels import STREAM_KINDS
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "serialized-streams"
TITLE = "Kernels of several streams could overlap, but run one after another"

_OVERLAPPED = 0.05  # of the smaller stream's time: from this share on, streams are concurrent
_USED = 0.05  # of the time of a GPU's kernels: streams with less do not count
_PROMPT_NS = 20_000  # an operation that starts this soon after another one may have waited for it
_MEDIUM_SHARE = 0.15
_FEW_SMS = 80  # where their number is unknown
_NULL_IDS = (0, 7)  # CUPTI's number of the first context's default stream
_NULL = next(value for value, label in STREAM_KINDS.items() if label == "Null")
_NON_BLOCKING = next(value for value, label in STREAM_KINDS.items() if label == "Non-blocking")
_WAITS = ("cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent")


class _Serialized(NamedTuple):
    """Kernels that started when a kernel of another stream ended.

    Attributes:
        place: Shape (n,), int64, indices into `operations`.
        before: Shape (n,), int64, the kernels that ended.
        lost_ns: Shape (n,), int64, how long both could have run at the same time.
        is_ordered: Shape (n,), bool, whether the program ordered them by an event.
    """

    place: I64
    before: I64
    lost_ns: I64
    is_ordered: BoolArray

    def taken(self, rows: BoolArray) -> _Serialized:
        """Return the selected kernels."""
        return _Serialized(
            self.place[rows], self.before[rows], self.lost_ns[rows], self.is_ordered[rows]
        )


@rule(name=NAME, title=TITLE)
def serialized_streams(run: Run) -> list[Finding] | Skipped:
    """Small kernels on several streams that never overlap, although they were launched in time.

    What it finds: A GPU with kernels on several streams that overlap for less than 5% of their
        time. Kernels start only when one of another stream ends, were launched before, and the one
        before leaves SMs free. If they overlapped, at least 5% of the step would be saved.
    Why it matters: Streams cost launches and events, and gain nothing if their work never overlaps.
    How it is found: By the streams, times and grids of kernels and their launches. The reason is an
        event if the program calls cudaStreamWaitEvent between the two launches. Otherwise it is the
        default stream if one of the two is the legacy default stream and the other is not a
        non-blocking stream: such streams wait for each other. Without either reason, kernels wait
        for resources, and nothing is reported. Collectives and copies do not count.
    What to do: Create streams with cudaStreamNonBlocking, or compile with --default-stream
        per-thread. Record an event right after the kernel whose result is needed, and wait for it
        right before the first kernel that needs it.
    Limits: Whether one kernel needs the result of another is not known, so order by events may be
        necessary: such a finding is only a note. The saving is not simulated. It is an upper
        bound, as kernels that overlap share memory bandwidth. A kernel with at most one block per
        SM counts as leaving room, whatever its registers and shared memory.
    Source: CUDA C++ Programming Guide, streams and the default stream.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", calls_hint(trace))
    scope = step_scope(run)
    every = _serialized(trace, scope)
    findings = []
    for is_ordered in (False, True):
        found = every.taken(every.is_ordered == is_ordered)
        if len(found.place):
            findings += _finding(trace, scope, found, is_ordered=is_ordered)
    return findings


def _finding(
    trace: Trace, scope: StepScope, found: _Serialized, *, is_ordered: bool
) -> list[Finding]:
    work = operations(trace)
    ranks = factorize_rows(work.process[found.place], work.device[found.place])
    parts = [found.taken(ranks.codes == code) for code in range(ranks.n_groups)]
    facts = [scope.operations_on_devices(part.place, part.lost_ns)[0] for part in parts]
    times_ns = [fact.ns / max(fact.steps, 1) for fact in facts]
    most = int(np.argmax(times_ns))
    lost_ns, number = times_ns[most], len(parts[most].place) / max(facts[most].steps, 1)
    share = min(scope.share(lost_ns), 1.0)
    if share < MEASURABLE_RATIO or number < 0.5:
        return []
    places = np.zeros(len(scope.operations), np.bool_)
    places[found.place] = True
    streams = _names(trace, np.append(parts[most].place, parts[most].before))
    if is_ordered:
        reason = "Events order them (cudaStreamWaitEvent)."
        fix = (
            "If these kernels do not need each other's results, remove the wait, or record the"
            " event earlier: right after the kernel whose result is needed. Otherwise one stream is"
            " enough."
        )
    else:
        reason = "One of the streams is the legacy default stream, which waits for other streams."
        fix = (
            "Launch on non-blocking streams (cudaStreamNonBlocking) only, or compile with"
            " --default-stream per-thread. Order kernels that need each other by events."
        )
    is_one = round(number) == 1
    many = f"{plural(round(number), 'kernel')}{scope.each}"
    return [
        Finding(
            NAME,
            "info" if is_ordered else "medium" if share >= _MEDIUM_SHARE else "low",
            f"Streams {streams} run one after another: up to {format_ratio(share)} could overlap",
            f"{many} {'starts' if is_one else 'start'} only when a small kernel of another stream"
            f" ends, though launched before. Overlap would save up to {format_ns(lost_ns)}"
            f" ({format_ratio(share)}). {reason}",
            (
                scope.show_operations(
                    f"{many} {'waits' if is_one else 'wait'} for another stream", places
                ),
            ),
            fix,
            "Profile again: `warpline stats -r overlap` shows concurrent streams.",
            share=share,
            on_devices=tuple(facts),
        )
    ]


def _serialized(trace: Trace, scope: StepScope) -> _Serialized:
    """Return the kernels that could have overlapped with the kernel before, on each device."""
    work, category = operations(trace), operation_categories(trace)
    rows = np.flatnonzero(
        scope.operations & (work.call >= 0) & np.isin(category, COMPUTE) & _is_kernel(work)
    )
    nothing = np.zeros(0, np.int64)
    parts = [_Serialized(nothing, nothing, nothing, nothing.astype(np.bool_))]
    for low, high in work.bounds_of_devices():
        own = _on_used_streams(work, rows[slice(*np.searchsorted(rows, (low, high)).tolist())])
        if not len(own):
            continue
        ns = _stream_ns(work, own)
        others_ns = int(ns.sum() - ns.max())  # of all streams but the busiest one
        if _several_ns(work, own) < _OVERLAPPED * others_ns:
            parts.append(_at_most(_of_device(trace, own), others_ns))
    return _Serialized(
        np.concatenate([part.place for part in parts]),
        np.concatenate([part.before for part in parts]),
        np.concatenate([part.lost_ns for part in parts]),
        np.concatenate([part.is_ordered for part in parts]),
    )


def _is_kernel(work: Operations) -> BoolArray:
    is_kernel: BoolArray = work.table == DEVICE_TABLES.index("kernel")
    return is_kernel


def _stream_ns(work: Operations, rows: I64) -> F64:
    """Return the time of the operations by stream."""
    length_ns = work.end_ns[rows] - work.start_ns[rows]
    return np.bincount(work.stream[rows], length_ns).astype(np.float64)


def _on_used_streams(work: Operations, rows: I64) -> I64:
    """Return the operations of streams with much work; none if there is only one such stream."""
    ns = _stream_ns(work, rows)
    used = (ns > 0) & (ns >= _USED * ns.sum())
    return rows[used[work.stream[rows]]] if np.count_nonzero(used) > 1 else rows[:0]


def _several_ns(work: Operations, rows: I64) -> int:
    """Return the time during which several of the operations ran."""
    running = concurrency(work.start_ns[rows], work.end_ns[rows])
    return int(np.diff(running.time)[running.depth[:-1] > 1].sum())


def _at_most(found: _Serialized, most_ns: int) -> _Serialized:
    """Return the kernels with shorter times if these exceed what can overlap at all.

    If two streams alternate, each kernel could overlap with the one before or the one after.
    """
    total = int(found.lost_ns.sum())
    if total <= most_ns:
        return found
    return found._replace(lost_ns=(found.lost_ns * (most_ns / total)).astype(np.int64))


def _of_device(trace: Trace, rows: I64) -> _Serialized:
    """Return the serialized kernels among those of one device, which ascend in start."""
    work, launched = operations(trace), launch_order(trace)
    order = rows[np.argsort(work.start_ns[rows], kind="stable")]
    before, place = order[:-1], order[1:]
    ready = launched.time_ns[place] + launch_latency_ns(trace)
    ready = np.maximum(ready, _end_of_stream(work, order)[1:])
    lost = work.end_ns[before] - np.maximum(ready, work.start_ns[before])
    lost = np.minimum(lost, work.end_ns[place] - work.start_ns[place])
    since = work.start_ns[place] - work.end_ns[before]
    chosen = (work.stream[place] != work.stream[before]) & (since >= 0) & (since <= _PROMPT_NS)
    chosen &= (launched.time_ns[before] <= launched.time_ns[place]) & (lost > 0)
    chosen &= _leaves_room(trace, before) & (work.process[place] == work.process[before])
    is_ordered = _has_wait_between(trace, before, place)
    chosen &= is_ordered | _wait_for_each_other(trace, before, place)
    return _Serialized(place, before, lost, is_ordered).taken(chosen)


def _end_of_stream(work: Operations, order: I64) -> I64:
    """Return when the operation before each one in its stream ended; 0 for none."""
    by_stream = np.lexsort((np.arange(len(order)), work.stream[order]))
    ends = np.zeros(len(order), np.int64)
    ends[by_stream[1:]] = np.where(
        np.diff(work.stream[order[by_stream]]) == 0,
        work.end_ns[order[by_stream[:-1]]],
        np.iinfo(np.int64).min,
    )
    ends[by_stream[:1]] = np.iinfo(np.int64).min
    return ends


def _leaves_room(trace: Trace, places: I64) -> BoolArray:
    """Return whether kernels have at most one block per SM."""
    work = operations(trace)
    columns = trace.columns("kernel", "grid_x", "grid_y", "grid_z")
    sizes = [column.filled(0)[work.row[places]].astype(np.float64) for column in columns.values()]
    blocks = sizes[0] * sizes[1] * sizes[2]
    multiprocessors = trace.columns("device", "sm_count")["sm_count"].filled(_FEW_SMS)
    multiprocessors = np.where(multiprocessors > 0, multiprocessors, _FEW_SMS)
    room: BoolArray = (blocks > 0) & (blocks <= multiprocessors[work.device[places]])
    return room


def _has_wait_between(trace: Trace, before: I64, place: I64) -> BoolArray:
    """Return whether the process made a stream wait for an event between two launches."""
    work, launched = operations(trace), launch_order(trace)
    calls = trace.columns("api_call", "start_ns", "process_id", "name_id")
    codes, distinct = number_texts(calls["name_id"].values, len(trace.strings))
    waits = [text.startswith(_WAITS) for text in trace.strings.texts(distinct.tolist())]
    rows = np.flatnonzero(np.array(waits, np.bool_)[codes])
    start, owner = calls["start_ns"].values[rows], calls["process_id"].values[rows]
    found = np.zeros(len(place), np.bool_)
    for process in distinct_values(work.process[place]).tolist():
        own, times = work.process[place] == process, np.sort(start[owner == process])
        low, high = (np.searchsorted(times, launched.time_ns[at[own]]) for at in (before, place))
        found[own] = high > low
    return found


def _wait_for_each_other(trace: Trace, before: I64, place: I64) -> BoolArray:
    """Return whether one is on the legacy default stream and the other one on a blocking stream."""
    columns = trace.columns("stream", "native_id", "kind")
    native, kind = columns["native_id"].values, columns["kind"].filled(0)
    is_known = kind != 0
    is_null = np.where(is_known, kind == _NULL, np.isin(native, _NULL_IDS))
    # PyTorch creates non-blocking streams.
    is_free = np.where(is_known, kind == _NON_BLOCKING, program_kind(trace) == "pytorch")
    stream = operations(trace).stream
    one, other = stream[before], stream[place]
    waits: BoolArray = (is_null[one] & ~is_free[other]) | (is_null[other] & ~is_free[one])
    return waits


def _names(trace: Trace, places: I64) -> str:
    native = trace.columns("stream", "native_id")["native_id"].values
    ids = distinct_values(native[operations(trace).stream[places]]).tolist()
    names = ", ".join(map(str, ids[:-1])) if len(ids) < 4 else f"{ids[0]}, {ids[1]}, ..."
    return f"{names} and {ids[-1]}"
