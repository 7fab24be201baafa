"""The event graph of the simulated steps: dependencies and durations.

Each call has a node for its start. A call that may wait has another node for its return. Each item
of a stream has a node for its start on the GPU. A collective in which ranks meet has another node
for the start of the last rank. The edges are those of `EdgeKind`.

Each operation has a measured launch latency if its launch determined its start, or a measured gap
if its predecessor did. The other value is the median of its kind. With "usual" weights all of them
are medians, which shows how well the graph explains the recorded times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.replay.edges import NEVER, EdgeKind, Edges, times
from warpline.replay.host import NONE, HostSide, host_side
from warpline.replay.inferred import Inferred, inferred_room, inferred_waits
from warpline.replay.latencies import Latencies, Moments, latencies
from warpline.replay.meetings import Meetings, meetings
from warpline.replay.queued import Queued, queued
from warpline.replay.waits import call_costs, host_waits
from warpline.trace import Run


@dataclass(frozen=True)
class EventGraph:
    """The event graph. Times of several processes are on the clock of the first one.

    Attributes:
        host: The calls.
        queued: The items enqueued in streams.
        call_start_ns: Shape (calls,), int64, as recorded.
        call_end_ns: Shape (calls,), int64, earlier by the time in which the thread was preempted in
            the call: that counts as time after it.
        item_start_ns: Shape (items,), int64.
        item_end_ns: Shape (items,), int64.
        call_return: Shape (calls,), int64, the node at whose end a call has returned.
        item_done: Shape (items,), int64, the node at whose end an item is done.
        edges: The edges.
        weight_ns: Shape (edges,), int64, measured.
        usual_weight_ns: Shape (edges,), int64, with median latencies, gaps, and wake-up times.
        length_ns: Shape (nodes,), int64, durations of calls and operations.
        earliest_ns: Shape (nodes,), int64, the start of nodes without predecessors, else NEVER.
        latencies: Measured and median latencies and gaps.
    """

    host: HostSide
    queued: Queued
    call_start_ns: I64
    call_end_ns: I64
    item_start_ns: I64
    item_end_ns: I64
    call_return: I64
    item_done: I64
    edges: Edges
    weight_ns: I64
    usual_weight_ns: I64
    length_ns: I64
    earliest_ns: I64
    latencies: Latencies

    @property
    def item_node(self) -> I64:
        """Shape (items,), int64, the node of each item's start."""
        return np.arange(len(self.queued)) + len(self.host)


class Timing(NamedTuple):
    """The times of calls and items; NEVER for those that do not happen.

    Attributes:
        call_start_ns: Shape (calls,), int64.
        call_end_ns: Shape (calls,), int64.
        item_start_ns: Shape (items,), int64.
        item_end_ns: Shape (items,), int64.
    """

    call_start_ns: I64
    call_end_ns: I64
    item_start_ns: I64
    item_end_ns: I64


class _Layout(NamedTuple):
    """The assignment of nodes, and the recorded times."""

    item: I64
    call_return: I64
    item_done: I64
    n_nodes: int
    call_start_ns: I64
    call_end_ns: I64
    item_start_ns: I64
    item_end_ns: I64


class _Built(NamedTuple):
    """Edges in any order."""

    target: I64
    source: I64
    from_end: BoolArray
    weight: I64
    kind: I8


@derived
def event_graph(run: Run) -> EventGraph:
    """Return the event graph of the simulated steps."""
    host, queue = host_side(run), queued(run)
    layout = _layout(run)
    parts = [*_host_edges(run, layout), *_item_edges(run, layout)]
    length = _lengths(run, layout)
    built, edges, measured = _measured(run, layout, parts, length)
    for infer, edges_of in ((inferred_waits, _wait_edges), (inferred_room, _room_edges)):
        more = infer(run, layout.item_start_ns, measured.expected_ns)
        if len(more.item):
            parts.append(edges_of(layout, more))
            built, edges, measured = _measured(run, layout, parts, length)
    weight, usual = _weights(run, layout, built, measured)
    return EventGraph(
        host=host,
        queued=queue,
        call_start_ns=layout.call_start_ns,
        call_end_ns=layout.call_end_ns,
        item_start_ns=layout.item_start_ns,
        item_end_ns=layout.item_end_ns,
        call_return=layout.call_return,
        item_done=layout.item_done,
        edges=edges,
        weight_ns=weight,
        usual_weight_ns=usual,
        length_ns=length,
        earliest_ns=_earliest(layout, host, queue, edges),
        latencies=measured,
    )


def _measured(
    run: Run, layout: _Layout, parts: list[_Built], length: I64
) -> tuple[_Built, Edges, Latencies]:
    """Return the edges in both forms, and the latencies that they leave."""
    built, edges = _assembled(parts, layout.n_nodes)
    moments = _moments(layout, queued(run), host_side(run), edges, built, length)
    return built, edges, latencies(run, moments)


def timing(graph: EventGraph, weight_ns: I64, length_ns: I64, earliest_ns: I64) -> Timing:
    """Return the times for given weights, lengths, and earliest times."""
    at = times(graph.edges, weight_ns, length_ns, earliest_ns)
    item = graph.item_node
    return Timing(
        at[: len(graph.host)],
        _after(at, length_ns, graph.call_return),
        at[item],
        _after(at, length_ns, graph.item_done),
    )


def _after(at: I64, length_ns: I64, node: I64) -> I64:
    """Return the end times of nodes."""
    return np.where(at[node] == NEVER, NEVER, at[node] + length_ns[node])


def _layout(run: Run) -> _Layout:
    host, queue = host_side(run), queued(run)
    met, waits = meetings(run), host_waits(run)
    n_calls, n_items = len(host), len(queue)
    call_return = np.arange(n_calls)
    waiting = distinct_values(waits.call)
    call_return[waiting] = n_calls + n_items + np.arange(len(waiting))
    item_done = n_calls + np.arange(n_items)
    meeting = np.flatnonzero(met.of_item >= 0)
    item_done[meeting] = n_calls + n_items + len(waiting) + np.arange(len(meeting))
    of_call, of_item = met.offset_ns[host.process], met.offset_ns[queue.process]
    return _Layout(
        item=n_calls + np.arange(n_items),
        call_return=call_return,
        item_done=item_done,
        n_nodes=n_calls + n_items + len(waiting) + len(meeting),
        call_start_ns=host.start_ns - of_call,
        call_end_ns=host.end_ns - call_costs(run).preempted_ns - of_call,
        item_start_ns=queue.start_ns - of_item,
        item_end_ns=queue.end_ns - of_item,
    )


def _host_edges(run: Run, layout: _Layout) -> list[_Built]:
    host, waits = host_side(run), host_waits(run)
    costs = call_costs(run)
    follows = np.flatnonzero(host.before >= 0)
    before = host.before[follows]
    gap = layout.call_start_ns[follows] - layout.call_end_ns[before]
    resumes = np.flatnonzero((host.previous >= 0) & (host.previous != host.before))
    previous = layout.call_return[host.previous[resumes]]
    waiting = distinct_values(waits.call)
    return [
        _edges(follows, layout.call_return[before], gap, EdgeKind.HOST),
        _edges(resumes, previous, 0, EdgeKind.THREAD),
        _edges(layout.call_return[waiting], waiting, 0, EdgeKind.RETURN),
        _edges(
            layout.call_return[waits.call],
            layout.item_done[waits.item],
            costs.wake_ns[waits.call],
            EdgeKind.WAIT,
        ),
    ]


def _item_edges(run: Run, layout: _Layout) -> list[_Built]:
    queue, met = queued(run), meetings(run)
    launched = np.flatnonzero(queue.call >= 0)
    awaited = np.flatnonzero(queue.awaits >= 0)
    parts = [
        _edges(layout.item[launched], queue.call[launched], 0, EdgeKind.LAUNCH, from_end=False),
        *_stream_edges(queue, queue.stream, layout),
        _edges(
            layout.item[awaited], layout.item_done[queue.awaits[awaited]], 0, EdgeKind.DEPENDENCY
        ),
    ]
    for shift in range(_most_parts(met)):
        one, other = _others(met, shift)
        done = layout.item_done[one]
        parts.append(_edges(done, layout.item[other], 0, EdgeKind.MEET, from_end=False))
    return parts


def _most_parts(met: Meetings) -> int:
    """Return the maximum number of ranks in a meeting."""
    return int(np.bincount(met.of_item[met.of_item >= 0]).max(initial=0))


def _others(met: Meetings, shift: int) -> tuple[I64, I64]:
    """Return items that meet, and for each the item `shift` places after it in the meeting."""
    items = np.flatnonzero(met.of_item >= 0)
    items = items[np.argsort(met.of_item[items], kind="stable")]
    number = met.of_item[items]
    count = np.bincount(number, minlength=met.n_meetings)
    first = np.cumsum(count) - count
    behind = np.arange(len(items)) - first[number] + shift
    chosen = shift < count[number]
    return items[chosen], items[(first[number] + behind % count[number])[chosen]]


def _wait_edges(layout: _Layout, more: Inferred) -> _Built:
    """Return the edges from the ends of items that others probably waited for."""
    return _edges(layout.item[more.item], layout.item_done[more.awaited], 0, EdgeKind.STREAM)


def _room_edges(layout: _Layout, more: Inferred) -> _Built:
    """Return the edges from the ends of operations that probably left no room for others.

    Those may start before that end, as long before as they did.
    """
    before_end = layout.item_start_ns[more.item] - layout.item_end_ns[more.awaited]
    return _edges(
        layout.item[more.item], layout.item_done[more.awaited], before_end, EdgeKind.OVERLAP
    )


def _stream_edges(queue: Queued, stream: I64, layout: _Layout) -> list[_Built]:
    """Return the edges from each item to the next one of its stream."""
    place = np.flatnonzero(stream[1:] == stream[:-1]) + 1
    before = place - 1
    is_work = queue.operation >= 0
    both = is_work[place] & is_work[before]
    overlaps = both & (queue.end_ns[before] > queue.start_ns[place])
    plain, lapped = place[~overlaps], place[overlaps]
    after_start = layout.item_start_ns[lapped] - layout.item_start_ns[lapped - 1]
    parts = [
        _edges(layout.item[plain], layout.item_done[plain - 1], 0, EdgeKind.STREAM),
        _edges(
            layout.item[lapped],
            layout.item[lapped - 1],
            after_start,
            EdgeKind.OVERLAP,
            from_end=False,
        ),
    ]
    # After overlaps, the previous item may not be the last one to end.
    latest = _latest_end(queue, stream)
    more = place[(latest[before] >= 0) & (latest[before] != before) & is_work[place]]
    more = more[queue.end_ns[latest[more - 1]] <= queue.start_ns[more]]
    parts.append(_edges(layout.item[more], layout.item_done[latest[more - 1]], 0, EdgeKind.STREAM))
    return parts


def _latest_end(queue: Queued, stream: I64) -> I64:
    """Return the operation of each item's stream so far that ended last, NONE without one."""
    latest = np.full(len(queue), NONE)
    bounds = np.append(np.flatnonzero(np.diff(stream, prepend=-1)), len(stream))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        is_work = queue.operation[low:high] >= 0
        end = np.where(is_work, queue.end_ns[low:high], NEVER)
        place = np.where(is_work & (end == np.maximum.accumulate(end)), np.arange(low, high), NONE)
        latest[low:high] = np.maximum.accumulate(place)
    return latest


def _moments(
    layout: _Layout, queue: Queued, host: HostSide, edges: Edges, built: _Built, length: I64
) -> Moments:
    """Return when operations could have started, given the recorded times of all others."""
    is_work = queue.operation >= 0
    work = layout.item[is_work]
    earliest = np.full(layout.n_nodes, NEVER)
    earliest[: len(host)] = layout.call_start_ns
    earliest[work] = layout.item_start_ns[is_work]
    done = layout.item_done[is_work]
    earliest[done[done != work]] = (layout.item_end_ns - length[layout.item_done])[is_work][
        done != work
    ]
    fixed = np.zeros(layout.n_nodes, np.bool_)
    fixed[: len(host)], fixed[work], fixed[done] = True, True, True
    at = times(edges, np.where(fixed[built.target], NEVER, built.weight), length, earliest)
    into_work = np.zeros(layout.n_nodes, np.bool_)
    into_work[work] = True
    counts = np.flatnonzero(into_work[built.target] & (built.kind != EdgeKind.LAUNCH))
    reached = at[built.source[counts]] + built.weight[counts]
    reached += np.where(built.from_end[counts], length[built.source[counts]], 0)
    reached = np.where(at[built.source[counts]] == NEVER, NEVER, reached)
    ready = np.full(layout.n_nodes, NEVER)
    np.maximum.at(ready, built.target[counts], reached)
    called = np.append(layout.call_start_ns, NEVER)[queue.call]  # of none: the last one
    return Moments(layout.item_start_ns, called, ready[layout.item])


def _weights(run: Run, layout: _Layout, built: _Built, measured: Latencies) -> tuple[I64, I64]:
    """Return the weights with measured values, and with medians."""
    item = np.clip(built.target - len(layout.call_start_ns), 0, max(len(layout.item) - 1, 0))
    weight, usual = built.weight.copy(), built.weight.copy()
    launch = built.kind == EdgeKind.LAUNCH
    weight[launch] = measured.launch_ns[item[launch]]
    usual[launch] = measured.usual_launch_ns[item[launch]]
    stream = built.kind == EdgeKind.STREAM
    weight[stream] = measured.gap_ns[item[stream]]
    usual[stream] = measured.usual_gap_ns[item[stream]]
    waits = built.kind == EdgeKind.WAIT
    call_of = np.full(layout.n_nodes, NONE)
    call_of[layout.call_return] = np.arange(len(layout.call_return))
    usual[waits] = call_costs(run).usual_wake_ns[call_of[built.target[waits]]]
    return weight, usual


def _lengths(run: Run, layout: _Layout) -> I64:
    host, met = host_side(run), meetings(run)
    length = np.zeros(layout.n_nodes, np.int64)
    length[: len(host)] = call_costs(run).own_ns
    length[layout.item] = layout.item_end_ns - layout.item_start_ns
    meeting = np.flatnonzero(met.of_item >= 0)
    begun = np.full(met.n_meetings, NEVER)
    np.maximum.at(begun, met.of_item[meeting], layout.item_start_ns[meeting])
    length[layout.item[meeting]] = 0
    length[layout.item_done[meeting]] = np.maximum(
        layout.item_end_ns[meeting] - begun[met.of_item[meeting]], 0
    )
    return length


def _earliest(layout: _Layout, host: HostSide, queue: Queued, edges: Edges) -> I64:
    earliest = np.full(layout.n_nodes, NEVER)
    first = np.flatnonzero((host.before < 0) & (host.previous < 0))
    earliest[first] = layout.call_start_ns[first]
    unlaunched = np.flatnonzero((queue.call < 0) & (queue.operation >= 0))
    earliest[layout.item[unlaunched]] = layout.item_start_ns[unlaunched]
    return earliest


def _edges(
    target: I64, source: I64, weight: I64 | int, kind: EdgeKind, *, from_end: bool = True
) -> _Built:
    n = len(target)
    weights = np.broadcast_to(np.asarray(weight, np.int64), n)
    return _Built(
        target=target,
        source=source,
        from_end=np.full(n, from_end),
        weight=weights,
        kind=np.full(n, kind, np.int8),
    )


def _assembled(parts: list[_Built], n_nodes: int) -> tuple[_Built, Edges]:
    """Return the edges by target."""
    joined = _Built(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(joined.target, kind="stable")
    built = _Built(
        target=joined.target[order],
        source=joined.source[order],
        from_end=joined.from_end[order],
        weight=joined.weight[order],
        kind=joined.kind[order],
    )
    first = np.append(0, np.cumsum(np.bincount(built.target, minlength=n_nodes)))
    return built, Edges(first, built.source.astype(np.int32), built.from_end, built.kind)
