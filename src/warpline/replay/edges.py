"""A directed graph in which a node happens once all its dependencies have happened.

A node's time is the maximum of its earliest time and, over its edges, of the source's time plus the
edge's weight (plus the source's length for edges from its end). Edges that would close a cycle are
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline import native
from warpline.errors import SchemaError
from warpline.ops.arrays import I8, I32, I64, INT64_MIN, BoolArray, is_sorted
from warpline.vocabulary import Vocabulary

# The time of a node that never happens, and the weight of a removed edge.
NEVER = INT64_MIN

_NEW, _OPEN, _DONE = range(3)


class EdgeKind(Vocabulary):
    """Why one call or item of the event graph comes after another."""

    HOST = "host", "a call starts after the call that it follows, plus the time between them"
    THREAD = "thread", "it does not start before the previous call of its thread has returned"
    LAUNCH = "launch", "an operation starts after its call, plus its launch latency"
    STREAM = "stream", "it starts after the previous one in its stream, plus the gap between them"
    OVERLAP = "overlap", "or after the start of the previous one, plus a delay, if both overlapped"
    DEPENDENCY = "dependency", "a wait in a stream ends when its event record is reached"
    MEET = "meet", "a collective is complete when all its ranks have started"
    RETURN = "return", "a call that waits returns after its own duration"
    WAIT = "wait", "it does not return before the awaited item has ended and its thread is awake"


@dataclass(frozen=True)
class Edges:
    """Edges, sorted by target.

    Attributes:
        first: Shape (nodes + 1,), int64, the first edge of each node.
        source: Shape (m,), int32, nodes.
        from_end: Shape (m,), bool, whether the source's length counts.
        kind: Shape (m,), int8, `EdgeKind`.
    """

    first: I64
    source: I32
    from_end: BoolArray
    kind: I8

    @property
    def target(self) -> I64:
        """Shape (m,), int64, the node that each edge leads to."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


def times(edges: Edges, weight_ns: I64, length_ns: I64, earliest_ns: I64) -> I64:
    """Return the time of each node, shape (nodes,); NEVER for unreachable nodes.

    Args:
        edges: The graph.
        weight_ns: Shape (m,); NEVER removes an edge.
        length_ns: Shape (nodes,).
        earliest_ns: Shape (nodes,); NEVER for nodes that depend only on others.
    """
    _require_fit(edges, weight_ns, length_ns, earliest_ns)
    n = len(length_ns)
    time_ns = np.empty(n, np.int64)
    core = native.core()
    if core is None:
        return _times(edges, weight_ns, length_ns, earliest_ns)
    arrays = (
        edges.first,
        edges.source,
        edges.from_end.view(np.uint8),
        np.ascontiguousarray(weight_ns),
        np.ascontiguousarray(length_ns),
        np.ascontiguousarray(earliest_ns),
        time_ns,
    )
    status = core.wl_replay_times(n, *(array.ctypes.data for array in arrays))
    if status != native.OK:
        raise MemoryError("re-timing an event graph")
    return time_ns


def _require_fit(edges: Edges, weight_ns: I64, length_ns: I64, earliest_ns: I64) -> None:
    """Raise SchemaError unless the arrays fit one graph: the native core does not check."""
    first, n = edges.first, len(edges.first) - 1
    fits = len(length_ns) == len(earliest_ns) == n
    fits &= len(weight_ns) == len(edges.source) == len(edges.from_end) == first[-1]
    fits &= first[0] == 0 and is_sorted(first)
    if not fits or (len(edges.source) and not 0 <= edges.source.min() <= edges.source.max() < n):
        raise SchemaError("edges, weights, lengths or earliest times do not fit together")


def _times(edges: Edges, weight_ns: I64, length_ns: I64, earliest_ns: I64) -> I64:
    """Compute in Python what the native core computes."""
    first, source = edges.first.tolist(), edges.source.tolist()
    from_end, weight = edges.from_end.tolist(), weight_ns.tolist()
    length, time_ns = length_ns.tolist(), earliest_ns.tolist()
    state = [_NEW] * len(time_ns)
    at = first[:-1]
    for root in range(len(time_ns)):
        if state[root] != _NEW:
            continue
        state[root], stack = _OPEN, [root]
        while stack:
            node = stack[-1]
            edge = at[node]
            if edge == first[node + 1]:
                state[node] = _DONE
                stack.pop()
                continue
            origin = source[edge]
            if weight[edge] != NEVER and state[origin] == _NEW:
                state[origin] = _OPEN
                stack.append(origin)
                continue
            at[node] += 1
            if weight[edge] == NEVER or state[origin] == _OPEN or time_ns[origin] == NEVER:
                continue
            reached = time_ns[origin] + (length[origin] if from_end[edge] else 0) + weight[edge]
            time_ns[node] = max(time_ns[node], reached)
    return np.array(time_ns, np.int64)
