"""Application of changes to an event graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import pairwise
from typing import Literal

import numpy as np

from warpline.derived.idle.data_waits import SHORTEST_SILENCE_NS
from warpline.derived.idle.host_blocking import LONG_CALL_NS
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.ops.tiling import by_group
from warpline.replay.draft import Draft
from warpline.replay.host import NONE, HostSide
from warpline.replay.overlapping import overlap_collectives
from warpline.replay.queued import outermost_of
from warpline.result import changes as kinds
from warpline.result.changes import Change
from warpline.trace import Trace

Side = Literal["low", "central", "high"]
SIDES: tuple[Side, ...] = ("low", "central", "high")

# CUDA graphs, measured on H200: CPU time of a launch, and per node.
GRAPH_LAUNCH_NS = 8_000
GRAPH_BEGIN_NS = 6_000  # from the return of its launch
GRAPH_NODE_NS = Estimate(50, 100, 300)
# Between nodes. With graph-level tracing, 640-kernel graphs took 20 to 170 ns more per node than
# the kernels take in a stream, depending on the process. With node-level tracing it is 90 to
# 270 ns, and kernels are 50 ns longer: that is profiling overhead, which must not be predicted. At
# worst, nodes follow each other like kernels of a stream.
GRAPH_GAP_NS = Estimate(0, 60, 1_000)
# CPU time that node-level tracing adds to a launch, per node: 1.5 us on an H100 (100 nodes;
# docs/benchmarks.md), 1.9 us in an XLA program on an H200 with a slower CPU (143 nodes).
TRACED_NODE_NS = Estimate(1_000, 1_500, 2_000)
# CPU time that remains for each operation merged into a fused one, for example for its argument
# list: measured on an optimizer with 290 tensors and 8 operations for each.
FUSED_HOST_NS = Estimate(0, 400, 1_000)
# CPU time before a call that is removed with it, relative to the usual time before a launch.
_OWN_GAPS = Estimate(1.2, 1.2, 2.0)
# The call of an asynchronous copy, where there is no launch to compare with.
_CALL_NS = 5_000


def apply(trace: Trace, draft: Draft, changes: Sequence[Change], side: Side) -> None:
    """Apply changes to a graph.

    Args:
        trace: The trace of the graph.
        draft: The graph.
        changes: The changes, applied in this order.
        side: The end of uncertain values to use: "low" gives the shortest steps.
    """
    for change in changes:
        _apply(change, trace, draft, side)


@singledispatch
def _apply(change: Change, trace: Trace, draft: Draft, side: Side) -> None:
    raise TypeError(f"not a change: {change!r}")


@_apply.register
def _(change: kinds.DropCalls, trace: Trace, draft: Draft, side: Side) -> None:
    calls = _places(trace, draft, change.calls)
    if change.keeps_gap:
        draft.drop_calls(calls, keeps_gap=True)
    else:
        _drop(draft, calls, _of(_OWN_GAPS, side, reverse=True))


@_apply.register
def _(change: kinds.DropOperations, trace: Trace, draft: Draft, side: Side) -> None:
    items, remaining = _items(draft, change.operations), _of(change.remaining, side)
    if remaining:
        draft.scale_items(items, remaining)
        return
    draft.drop_items(items)
    if change.keeps_gap:
        draft.drop_calls(_calls_of(draft, items), keeps_gap=True)
    else:
        _drop(draft, _calls_of(draft, items), _of(_OWN_GAPS, side, reverse=True))


@_apply.register
def _(change: kinds.ScaleOperations, trace: Trace, draft: Draft, side: Side) -> None:
    items, factor = _items(draft, change.operations), _of(change.factor, side)
    if factor == 0:
        draft.drop_items(items)  # including the gaps around them
    else:
        draft.scale_items(items, factor)


@_apply.register
def _(change: kinds.SetDurations, trace: Trace, draft: Draft, side: Side) -> None:
    chosen = {"low": change.low_ns, "central": change.central_ns, "high": change.high_ns}
    length = np.zeros(len(operations(trace)), np.int64)
    length[change.operations] = chosen[side]
    items = _items(draft, change.operations)
    # What an earlier change has dropped stays dropped.
    items = items[draft.length_ns[draft.graph.item_done[items]] > 0]
    draft.set_lengths(items, length[draft.graph.queued.operation[items]])


@_apply.register
def _(change: kinds.MakeAsync, trace: Trace, draft: Draft, side: Side) -> None:
    calls, items = _places(trace, draft, change.calls), _items(draft, change.operations)
    draft.release(calls)
    draft.shorten_calls(calls, _usual_launch_call_ns(draft))
    usual = draft.graph.latencies.usual_launch_ns
    draft.hasten_launches(items, np.minimum(usual[items], _usual_launch_ns(draft)))
    if change.bytes_per_s is not None:
        size = _copied_bytes(trace, draft, items)
        speed = _of(change.bytes_per_s, side, reverse=True)
        draft.set_lengths(items, np.rint(size / speed * 1e9).astype(np.int64))
    if change.own_stream:
        draft.move_to_own_streams(items)
        # The next operation needs data copied to the GPU. At best it was copied a step ahead.
        needed = items[_leads_to_device(trace, draft, items)] if side != "low" else items[:0]
        consumer = _next_items(draft, needed)
        draft.add_dependencies(consumer[consumer >= 0], needed[consumer >= 0])


@_apply.register
def _(change: kinds.RemoveHostTime, trace: Trace, draft: Draft, side: Side) -> None:
    host, queue = draft.graph.host, draft.graph.queued
    calls = np.flatnonzero(host.thread == change.thread)
    gone = union(change.start_ns, change.end_ns)
    start = host.start_ns[calls]
    covered = [
        _covered(gone.start, gone.end, time)
        for time in (start - draft.gaps_before(calls), start, start + draft.length_ns[calls])
    ]
    goes = 1.0 - _of(change.remaining, side)
    before, inside = (np.rint(np.diff(pair, axis=0)[0] * goes) for pair in pairwise(covered))
    draft.remove_host_time(calls, before.astype(np.int64), inside.astype(np.int64))
    # What a call loses before its operation begins delays that, too.
    items = np.flatnonzero(queue.call >= 0)
    items = items[host.thread[queue.call[items]] == change.thread]
    call = queue.call[items]
    called, begun = host.start_ns[call], np.minimum(queue.start_ns[items], host.end_ns[call])
    late = _covered(gone.start, gone.end, begun) - _covered(gone.start, gone.end, called)
    late = np.rint(np.maximum(late, 0) * goes).astype(np.int64)
    draft.hasten_by(items, late, _usual_launch_ns(draft))


@_apply.register
def _(change: kinds.LaunchAsGraph, trace: Trace, draft: Draft, side: Side) -> None:
    rows = np.concatenate([np.zeros(0, np.int64), *change.groups])
    places = outermost_of(trace, draft.graph.host, rows)
    ends = np.cumsum([len(group) for group in change.groups])
    every = [distinct_values(part[part >= 0]) for part in np.split(places, ends[:-1])]
    groups = [(calls, _items_of_calls(draft, calls)) for calls in every if len(calls)]
    _drop_all_but_first(draft, groups)
    for calls, items in groups:
        cost = GRAPH_LAUNCH_NS + round(len(items) * _of(GRAPH_NODE_NS, side))
        draft.release(calls[:1])
        draft.length_ns[calls[0]] = cost
        usual = draft.graph.latencies.usual_launch_ns[items]
        most = min(int(np.median(usual)), cost + GRAPH_BEGIN_NS) if len(items) else 0
        draft.hasten_launches(items, np.minimum(usual, most))
        draft.narrow_gaps(items[1:], round(_of(GRAPH_GAP_NS, side)))


@_apply.register
def _(change: kinds.FuseOperations, trace: Trace, draft: Draft, side: Side) -> None:
    queue, groups = draft.graph.queued, []
    for group in change.groups:
        items = _items(draft, group)
        items = items[np.argsort(queue.asked_ns[items], kind="stable")]
        calls = queue.call[items]
        groups.append((distinct_values(calls[calls >= 0]), items))
    _drop_all_but_first(draft, groups)
    none = np.zeros(0, np.int64)
    first, others = (
        np.concatenate([none, *(items[part] for _, items in groups)])
        for part in (slice(0, 1), slice(1, None))
    )
    draft.set_lengths(first, round(_of(change.duration_ns, side)))
    draft.drop_items(others)
    for calls, items in groups:
        draft.length_ns[calls[:1]] += round(len(items[1:]) * _of(FUSED_HOST_NS, side))


@_apply.register
def _(change: kinds.OverlapCollectives, trace: Trace, draft: Draft, side: Side) -> None:
    items = _items(draft, change.operations)
    step = np.zeros(len(operations(trace)), np.int64)
    if change.step is not None:
        step[change.operations] = change.step
    of_item = step[draft.graph.queued.operation[items]]
    moving_ratio = _of(change.moving_ratio, side)
    overlap_collectives(draft, items, of_item, change.buckets, moving_ratio)


@_apply.register
def _(change: kinds.CatchUp, trace: Trace, draft: Draft, side: Side) -> None:
    queue, host = draft.graph.queued, draft.graph.host
    # A process without work delays nobody, and its own steps do not count.
    draft.drop_items(np.flatnonzero((queue.process == change.process) & (queue.operation >= 0)))
    draft.drop_calls(np.flatnonzero(host.process == change.process), keeps_gap=False)
    stays = _of(change.remaining, side)
    wait = np.zeros(len(operations(trace)), np.int64)
    wait[change.operations] = np.rint(change.wait_ns * stays)
    items = _items(draft, change.operations)
    length = draft.length_ns[draft.graph.item_done[items]]
    draft.set_lengths(items, length + wait[queue.operation[items]])


@_apply.register
def _(change: kinds.RemoveProfilerCost, trace: Trace, draft: Draft, side: Side) -> None:
    host = draft.graph.host
    inside = outermost_of(trace, host, _calls_during(trace, host))
    records = np.bincount(inside[inside >= 0], minlength=len(host))
    cost = records * _of(change.call_ns, side, reverse=True)
    cost += _operators_before(trace, draft) * _of(change.operator_ns, side, reverse=True)
    of_nodes = _cost_of_nodes(draft, side)
    cost = np.rint(cost).astype(np.int64) + of_nodes
    calls = np.arange(len(host))
    gap = draft.gaps_before(calls)
    own = np.maximum(draft.length_ns[calls] // 2, of_nodes)
    # Overhead within a call that waits is waited for anyway: what counts is what follows its end.
    waits, late = draft.graph.call_return != calls, np.zeros_like(cost)
    for rows in by_group(host.thread):
        late[rows[1:]] = np.where(waits[rows[:-1]], cost[rows[:-1]], 0)
        cost[rows[waits[rows]]] = 0
        # Overhead beyond a short call is subtracted from the time after it.
        cost[rows] = _spread((cost + late)[rows], (gap + own)[rows])
    of_gap = np.minimum(np.minimum(late, gap), cost)
    of_own = np.minimum(cost - of_gap, own)
    draft.remove_host_time(calls, cost - of_own, of_own)
    # A traced graph begins when its launch has nearly ended.
    draft.shorten_launches(np.minimum(of_nodes, of_own))


def _calls_during(trace: Trace, host: HostSide) -> I64:
    """Return the calls of working threads that start between the first and the last of a window."""
    calls = working_calls(trace)
    if not len(host):
        return calls.row[:0]
    low = np.searchsorted(calls.start_ns, host.start_ns.min())
    high = np.searchsorted(calls.start_ns, host.end_ns.max(), side="right")
    return calls.row[low:high]


def _cost_of_nodes(draft: Draft, side: Side) -> I64:
    """Return what node-level tracing adds to each call: to launches of graphs with traced nodes."""
    nodes = np.where(draft.launch_counts > 1, draft.launch_counts, 0)
    plain = GRAPH_LAUNCH_NS + nodes * _of(GRAPH_NODE_NS, side)
    most = np.maximum(draft.length_ns[: len(nodes)] - plain, 0.0)
    cost = np.minimum(nodes * _of(TRACED_NODE_NS, side, reverse=True), most)
    return np.rint(cost).astype(np.int64)


def _operators_before(trace: Trace, draft: Draft) -> I64:
    """Return how many operators began between each call and the previous one of its thread."""
    host = draft.graph.host
    count = np.zeros(len(host), np.int64)
    if not trace.has("op") or not trace.row_count("op"):
        return count
    columns = trace.columns("op", "start_ns", "thread_id")
    start, thread = columns["start_ns"].values, columns["thread_id"].filled(NONE)
    for rows in by_group(host.thread):
        own = np.sort(start[thread == host.thread[rows[0]]])
        begun = np.searchsorted(own, host.start_ns[rows])
        count[rows[1:]] = np.diff(begun)
    return count


def _spread(cost_ns: I64, most_ns: I64) -> I64:
    """Return how much of the accumulated cost each consecutive call absorbs, at most `most_ns`."""
    due, there = np.cumsum(cost_ns), np.cumsum(most_ns)
    given = there + np.minimum(np.minimum.accumulate(due - there), 0)
    spread: I64 = np.diff(given, prepend=0)
    return spread


def _of(value: Estimate, side: Side, *, reverse: bool = False) -> float:
    """Return one end of a range; reversed, "low" is the high end."""
    if side == "central":
        return value.central
    return value.low if (side == "low") is not reverse else value.high


def _places(trace: Trace, draft: Draft, rows: I64) -> I64:
    """Return the simulated calls among rows of api_call, ascending and unique."""
    places = outermost_of(trace, draft.graph.host, rows)
    return distinct_values(places[places >= 0])


def _items(draft: Draft, places: I64) -> I64:
    """Return the simulated items among operations, ascending."""
    operation = draft.graph.queued.operation
    chosen = np.zeros(int(max(operation.max(initial=0), places.max(initial=0))) + 2, np.bool_)
    chosen[places] = True
    return np.flatnonzero((operation >= 0) & chosen[operation])


def _calls_of(draft: Draft, items: I64) -> I64:
    """Return the calls that launched these items and nothing else."""
    return np.flatnonzero(draft.launched_only(items) & (draft.launch_counts > 0))


def _drop(draft: Draft, calls: I64, own_gaps: float | None = None) -> None:
    """Remove calls, and the preparing calls just before them.

    Args:
        draft: The graph.
        calls: Places of calls.
        own_gaps: Time before a call that is removed with it, relative to the usual time before a
            launch. Any longer time is the program's own work and stays. None removes all time
            except long CPU gaps.
    """
    if not len(calls):
        return
    decides = _decides(draft, calls)
    dropped = np.zeros(len(decides), np.bool_)
    dropped[calls] = True
    dropped = dropped[decides]
    gap = np.zeros(len(decides), np.int64)
    np.add.at(gap, decides, draft.gaps_before(np.arange(len(decides))))
    draft.drop_calls(np.flatnonzero(dropped), keeps_gap=False)
    if own_gaps is None:
        kept = np.where(gap >= SHORTEST_SILENCE_NS, gap, 0)[calls]
    else:
        kept = np.maximum(gap - own_gaps * _usual_gap_ns(draft, gap), 0)[calls]
    draft.add_host_time(calls, np.rint(kept).astype(np.int64))


def _decides(draft: Draft, calls: I64) -> I64:
    """Return for each call the next call of its thread that has an effect or is among `calls`.

    A call that only prepares that one shares its fate. Other calls return themselves.
    """
    host = draft.graph.host
    prepares = (host.kind == 0) | (host.kind == CallKind.MODULE_LOAD)
    idles = _launches_nothing(draft) & prepares & (host.end_ns - host.start_ns < LONG_CALL_NS)
    idles[calls] = False
    deciding = np.arange(len(host))
    for rows in by_group(host.thread):
        place = np.where(idles[rows], len(rows), np.arange(len(rows)))
        upcoming = np.minimum.accumulate(place[::-1])[::-1]
        known = upcoming < len(rows)
        deciding[rows[known]] = rows[upcoming[known]]
    return deciding


def _usual_gap_ns(draft: Draft, gap_ns: I64) -> float:
    """Return the median time before launches, from the times before all calls."""
    launches = draft.graph.host.kind == CallKind.LAUNCH
    return float(np.median(gap_ns[launches])) if launches.any() else 0.0


def _drop_all_but_first(draft: Draft, groups: Sequence[tuple[I64, I64]]) -> None:
    """Replace the calls of each group by its first call; groups are given with their items.

    Calls in between on the first call's thread that launched nothing else are removed too.
    """
    gone = [
        distinct_values(np.append(calls, draft.calls_between(calls, items)))[1:]
        for calls, items in groups
        if len(calls)
    ]
    _drop(draft, distinct_values(np.concatenate([np.zeros(0, np.int64), *gone])))


def _launches_nothing(draft: Draft) -> BoolArray:
    """Return which calls enqueue nothing and wait for nothing, shape (calls,)."""
    graph = draft.graph
    launches_nothing: BoolArray = graph.call_return == np.arange(len(graph.host))
    call = graph.queued.call
    launches_nothing[call[call >= 0]] = False
    return launches_nothing


def _items_of_calls(draft: Draft, calls: I64) -> I64:
    """Return the items that some calls launched, by stream and order."""
    call = draft.graph.queued.call
    chosen = np.zeros(len(draft.graph.host) + 1, np.bool_)
    chosen[calls] = True
    return np.flatnonzero((draft.graph.queued.operation >= 0) & (call >= 0) & chosen[call])


def _usual_launch_call_ns(draft: Draft) -> int:
    host = draft.graph.host
    launches = host.kind == CallKind.LAUNCH
    if not launches.any():
        return _CALL_NS
    return int(np.median(draft.graph.length_ns[: len(host)][launches]))


def _usual_launch_ns(draft: Draft) -> int:
    """Return the median launch latency of operations; 0 without any."""
    usual, kernels = draft.graph.latencies.usual_launch_ns, draft.graph.queued.operation >= 0
    return int(np.median(usual[kernels])) if kernels.any() else 0


def _copied_bytes(trace: Trace, draft: Draft, items: I64) -> I64:
    """Return the bytes of each item, 0 if it is not a copy."""
    work, place = operations(trace), draft.graph.queued.operation[items]
    size = np.zeros(len(items), np.int64)
    is_copy = np.isin(place, work.of_table("memcpy"))
    rows = work.row[place[is_copy]]
    size[is_copy] = trace.columns("memcpy", "bytes")["bytes"].values[rows]
    return size


def _leads_to_device(trace: Trace, draft: Draft, items: I64) -> BoolArray:
    """Return which items are not device-to-host copies."""
    category = operation_categories(trace)[draft.graph.queued.operation[items]]
    leads_to_device: BoolArray = category != TimePart.COPY_D2H
    return leads_to_device


def _next_items(draft: Draft, items: I64) -> I64:
    """Return the next operation of each item's stream outside `items`, NONE without one."""
    queue = draft.graph.queued
    free = queue.operation >= 0
    free[items] = False
    place = np.where(free, np.arange(len(queue)), len(queue))
    upcoming = np.minimum.accumulate(place[::-1])[::-1]
    following = upcoming[items]
    inside = following < len(queue)
    same = inside & (queue.stream[np.where(inside, following, 0)] == queue.stream[items])
    return np.where(same, following, NONE)


def _covered(start: I64, end: I64, moments: I64) -> I64:
    """Return how much time disjoint, ascending intervals cover before each moment."""
    if not len(start):
        return np.zeros(len(moments), np.int64)
    place = np.searchsorted(start, moments, side="right")
    length = np.append(0, np.cumsum(end - start))
    last = np.append(np.iinfo(np.int64).min, end)[place]
    covered: I64 = length[place] - np.where(last > moments, last - moments, 0)
    return covered
