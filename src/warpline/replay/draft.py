"""An event graph under modification, and the elementary edits that changes consist of."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.replay.edges import NEVER, EdgeKind, Edges
from warpline.replay.graph import EventGraph, Timing, timing
from warpline.replay.host import NONE


class Draft:
    """An event graph with edits.

    Dropped nodes stay in the graph with zero length, so their successors still come after their
    predecessors.

    Attributes:
        graph: The graph without edits.
        weight_ns: As in the graph, shape (edges,), int64.
        length_ns: As in the graph, shape (nodes,), int64.
        earliest_ns: As in the graph, shape (nodes,), int64.
        moved: The items of each separate stream.
        more: Further dependencies: target, source, weight.
    """

    def __init__(self, graph: EventGraph) -> None:
        self.graph = graph
        self.weight_ns = graph.weight_ns.copy()
        self.length_ns = graph.length_ns.copy()
        self.earliest_ns = graph.earliest_ns.copy()
        self._edges = graph.edges
        self._target = graph.edges.target
        self.moved: list[I64] = []
        self.more: list[tuple[I64, I64, I64]] = []

    def copy(self) -> Draft:
        """Return a draft with the same edits, which can get others."""
        other = copy(self)
        other.weight_ns, other.length_ns = self.weight_ns.copy(), self.length_ns.copy()
        other.earliest_ns = self.earliest_ns.copy()
        other.moved, other.more = [*self.moved], [*self.more]
        return other

    def timing(self) -> Timing:
        """Return the times with the edits."""
        edges, weight = self._with_moves()
        return timing(replace(self.graph, edges=edges), weight, self.length_ns, self.earliest_ns)

    def drop_calls(self, calls: I64, *, keeps_gap: bool) -> None:
        """Make calls take no time and wait for nothing."""
        self.length_ns[calls] = 0
        self.release(calls)
        if not keeps_gap:
            self._set(self._into(calls, EdgeKind.HOST), 0)

    def release(self, calls: I64) -> None:
        """Make calls wait for nothing."""
        self._set(self._into(self.graph.call_return[calls], EdgeKind.WAIT), NEVER)

    def shorten_calls(self, calls: I64, longest_ns: int) -> None:
        """Limit the duration of calls."""
        self.length_ns[calls] = np.minimum(self.length_ns[calls], longest_ns)

    def hasten_launches(self, items: I64, longest_ns: I64) -> None:
        """Limit the launch latency of each item."""
        most = np.full(len(self.length_ns), np.iinfo(np.int64).max)
        most[self.graph.item_node[items]] = longest_ns
        chosen = self._into(self.graph.item_node[items], EdgeKind.LAUNCH)
        self.weight_ns[chosen] = np.minimum(self.weight_ns[chosen], most[self._target[chosen]])

    def shorten_launches(self, less_ns: I64) -> None:
        """Shorten the launch latency of what each call launched, at most to 0; shape (calls,)."""
        items = np.flatnonzero(self.graph.queued.call >= 0)
        self.hasten_by(items, less_ns[self.graph.queued.call[items]], 0)

    def hasten_by(self, items: I64, less_ns: I64, least_ns: int) -> None:
        """Shorten the launch latency of each item, at most to `least_ns`."""
        less = np.zeros(len(self.length_ns), np.int64)
        less[self.graph.item_node[items]] = less_ns
        chosen = self._into(self.graph.item_node[items], EdgeKind.LAUNCH)
        shorter = self.weight_ns[chosen] - less[self._target[chosen]]
        self.weight_ns[chosen] = np.maximum(shorter, np.minimum(self.weight_ns[chosen], least_ns))

    def narrow_gaps(self, items: I64, longest_ns: int) -> None:
        """Limit the gaps before items in their streams."""
        chosen = self._into(self.graph.item_node[items], EdgeKind.STREAM)
        self.weight_ns[chosen] = np.minimum(self.weight_ns[chosen], longest_ns)

    def drop_items(self, items: I64) -> None:
        """Remove operations."""
        nodes = self.graph.item_node[items]
        self.length_ns[nodes] = 0
        self.length_ns[self.graph.item_done[items]] = 0
        self.earliest_ns[nodes] = NEVER
        self._set(self._into(nodes, EdgeKind.LAUNCH), NEVER)
        self._set(self._into(nodes, EdgeKind.STREAM), 0)
        self._set(self._into(nodes, EdgeKind.OVERLAP), 0)
        self._within_length(items)
        self._part_from_others(items)
        # A removed copy does not block its call, not even for earlier work.
        calls = self.graph.queued.call[items]
        held = np.full(len(self.length_ns), NONE)
        known = calls >= 0
        held[self.graph.item_done[items[known]]] = self.graph.call_return[calls[known]]
        waits = np.flatnonzero(self._edges.kind == EdgeKind.WAIT)
        own = waits[held[self._edges.source[waits]] == self._target[waits]]
        self._set(own, NEVER)

    def scale_items(self, items: I64, factor: float) -> None:
        """Scale the durations of operations."""
        done = self.graph.item_done[items]
        self.length_ns[done] = np.rint(self.length_ns[done] * factor).astype(np.int64)
        self._within_length(items)

    def set_lengths(self, items: I64, length_ns: I64 | int) -> None:
        """Set the durations of operations."""
        self.length_ns[self.graph.item_done[items]] = length_ns
        self._within_length(items)

    def move_to_own_streams(self, items: I64) -> None:
        """Move operations to separate streams, in which they keep their order.

        Items of the same stream in one call of this method form one new stream.
        """
        self.moved.append(np.sort(items))

    def add_dependencies(self, items: I64, after: I64) -> None:
        """Make items start only when others are done; NONE among the others is ignored."""
        known = after >= 0
        nodes = self.graph.item_node[items[known]]
        zeros = np.zeros(len(nodes), np.int64)
        self.more.append((nodes, self.graph.item_done[after[known]], zeros))

    def unlaunch(self, items: I64) -> None:
        """Let operations start regardless of their launch."""
        self._set(self._into(self.graph.item_node[items], EdgeKind.LAUNCH), NEVER)

    def remove_host_time(self, calls: I64, gap_ns: I64, own_ns: I64) -> None:
        """Remove time from calls and from the gap before each, at most the existing time."""
        least = np.zeros(len(self.length_ns), np.int64)
        least[calls] = gap_ns
        chosen = self._into(calls, EdgeKind.HOST)
        less = self.weight_ns[chosen] - least[self._target[chosen]]
        self.weight_ns[chosen] = np.maximum(less, np.minimum(self.weight_ns[chosen], 0))
        self.length_ns[calls] = np.maximum(self.length_ns[calls] - own_ns, 0)

    def add_host_time(self, calls: I64, ns: I64) -> None:
        """Add CPU time before calls."""
        more = np.zeros(len(self.length_ns), np.int64)
        more[calls] = ns
        chosen = self._into(calls, EdgeKind.HOST)
        self.weight_ns[chosen] += more[self._target[chosen]]

    def scale_host(self, factor: float) -> None:
        """Scale all CPU time."""
        chosen = np.flatnonzero((self._edges.kind == EdgeKind.HOST) & (self.weight_ns > 0))
        self.weight_ns[chosen] = np.rint(self.weight_ns[chosen] * factor).astype(np.int64)
        calls = slice(0, len(self.graph.host))
        self.length_ns[calls] = np.rint(self.length_ns[calls] * factor).astype(np.int64)

    def gaps_before(self, calls: I64) -> I64:
        """Return the time between each call and the call that it follows; 0 for the first ones."""
        gap_ns = np.zeros(len(self.length_ns), np.int64)
        chosen = self._into(calls, EdgeKind.HOST)
        gap_ns[self._target[chosen]] = np.maximum(self.weight_ns[chosen], 0)
        return gap_ns[calls]

    @cached_property
    def launch_counts(self) -> I64:
        """Number of items that each call launched, shape (calls,)."""
        queue = self.graph.queued
        call = queue.call[(queue.operation >= 0) & (queue.call >= 0)]
        count: I64 = np.bincount(call, minlength=len(self.graph.host))
        return count

    def launched_only(self, items: I64) -> BoolArray:
        """Return which calls launched only some of these items, shape (calls,)."""
        call = self.graph.queued.call[items]
        count = np.bincount(call[call >= 0], minlength=len(self.graph.host))
        only_these: BoolArray = count == self.launch_counts
        return only_these

    def calls_between(self, calls: I64, items: I64) -> I64:
        """Return the calls between the first and last of `calls` that launched only `items`.

        Calls of threads other than the first call's are excluded. NONE is skipped.
        """
        calls = calls[calls >= 0]
        if not len(calls):
            return calls
        between = np.arange(calls.min(), calls.max() + 1)
        thread = self.graph.host.thread[between]
        is_free = self.launched_only(items)[between]
        free: I64 = between[is_free & (thread == self.graph.host.thread[calls[0]])]
        return free

    def _into(self, nodes: I64, kind: EdgeKind) -> I64:
        """Return the edges of a kind into some nodes."""
        chosen = np.zeros(len(self.length_ns), np.bool_)
        chosen[nodes] = True
        return np.flatnonzero((self._edges.kind == kind) & chosen[self._target])

    def _set(self, edges: I64, weight_ns: int) -> None:
        self.weight_ns[edges] = weight_ns

    def _part_from_others(self, items: I64) -> None:
        """Disconnect removed collectives from other ranks."""
        done = self.graph.item_done[items]
        meets = self._into(done, EdgeKind.MEET)
        own = np.full(len(self.length_ns), NONE)
        own[done] = self.graph.item_node[items]
        self._set(meets[self._edges.source[meets] != own[self._target[meets]]], NEVER)

    def _within_length(self, items: I64) -> None:
        """Limit the delays of overlapping operations to the predecessor's duration."""
        is_source = np.zeros(len(self.length_ns), np.bool_)
        nodes = self.graph.item_node[items]
        is_source[nodes] = True
        chosen = np.flatnonzero(
            (self._edges.kind == EdgeKind.OVERLAP) & is_source[self._edges.source]
        )
        longest = self.length_ns[self._edges.source[chosen]]
        self.weight_ns[chosen] = np.minimum(self.weight_ns[chosen], longest)

    def _with_moves(self) -> tuple[Edges, I64]:
        """Return edges and weights with the moves to separate streams applied."""
        if not self.moved and not self.more:
            return self._edges, self.weight_ns
        weight = self.weight_ns.copy()
        added = list(self.more)
        if self.moved:
            added.extend(self._bypass(weight))
        target = np.concatenate([self._target, *(part[0] for part in added)])
        source = np.concatenate([self._edges.source, *(part[1] for part in added)])
        weights = np.concatenate([weight, *(part[2] for part in added)])
        n_new = len(target) - len(weight)
        from_end = np.append(self._edges.from_end, np.ones(n_new, np.bool_))
        kind = np.append(self._edges.kind, np.full(n_new, EdgeKind.DEPENDENCY, np.int8))
        order = np.argsort(target, kind="stable")
        first = np.append(0, np.cumsum(np.bincount(target, minlength=len(self.length_ns))))
        edges = Edges(first, source[order].astype(np.int32), from_end[order], kind[order])
        return edges, weights[order]

    def _bypass(self, weight: I64) -> list[tuple[I64, I64, I64]]:
        """Disconnect moved operations from their streams, and reconnect the remaining items."""
        graph, queue = self.graph, self.graph.queued
        is_moved = np.zeros(len(queue), np.bool_)
        is_moved[np.concatenate(self.moved)] = True
        touches = np.zeros(len(self.length_ns), np.bool_)
        moved = np.flatnonzero(is_moved)
        touches[graph.item_node[moved]] = True
        into = np.isin(self._edges.kind, [EdgeKind.STREAM, EdgeKind.OVERLAP])
        weight[into & touches[self._target]] = NEVER
        touches[graph.item_done[moved]] = True
        weight[into & touches[self._edges.source]] = NEVER
        last = _last_unmoved(queue.stream, is_moved)
        after = np.flatnonzero(~is_moved & np.append(False, is_moved[:-1]))
        after = after[last[after] >= 0]
        gap = graph.latencies.usual_gap_ns
        joined = [(graph.item_node[after], graph.item_done[last[after]], gap[after])]
        for items in self.moved:
            order = items[np.argsort(queue.stream[items], kind="stable")]
            same = np.flatnonzero(queue.stream[order][1:] == queue.stream[order][:-1])
            later = order[same + 1]
            joined.append((graph.item_node[later], graph.item_done[order[same]], gap[later]))
        return joined


def _last_unmoved(stream: I64, is_moved: BoolArray) -> I64:
    """Return the last preceding item of each item's stream that is not moved, or NONE."""
    place = np.arange(len(stream))
    last = np.maximum.accumulate(np.where(is_moved, NONE, place))
    before = np.append(NONE, last[:-1])
    same = (before >= 0) & (stream[np.maximum(before, 0)] == stream)
    return np.where(same, before, NONE)
