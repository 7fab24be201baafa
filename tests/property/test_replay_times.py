"""When the nodes of an event graph happen: the native pass, the plain one, and a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import native
from warpline.errors import SchemaError
from warpline.ops.arrays import I64
from warpline.replay import edges as module
from warpline.replay.edges import NEVER, Edges, times


@dataclass(frozen=True)
class Graph:
    edges: Edges
    weight_ns: I64
    length_ns: I64
    earliest_ns: I64

    def times(self) -> list[int]:
        at = times(self.edges, self.weight_ns, self.length_ns, self.earliest_ns)
        return [int(each) for each in at]


@st.composite
def graphs(draw: st.DrawFn, *, circles: bool) -> Graph:
    """Return a graph; without circles edges lead from any place of an order to a later one."""
    n = draw(st.integers(1, 12))
    order = draw(st.permutations(range(n)))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    drawn = draw(st.lists(pairs, max_size=30))
    if not circles:
        drawn = [(min(a, b), max(a, b)) for a, b in drawn if a != b]
    links = sorted((order[b], order[a]) for a, b in drawn)
    target = np.array([link[0] for link in links], np.int64)
    small = st.one_of(st.integers(-50, 50), st.just(NEVER))
    lists = [draw(st.lists(small, min_size=m, max_size=m)) for m in (len(links), n)]
    length = draw(st.lists(st.integers(0, 30), min_size=n, max_size=n))
    ends = draw(st.lists(st.booleans(), min_size=len(links), max_size=len(links)))
    first = np.append(0, np.cumsum(np.bincount(target, minlength=n)))
    edges = Edges(
        first.astype(np.int64),
        np.array([link[1] for link in links], np.int32),
        np.array(ends, np.bool_),
        np.zeros(len(links), np.int8),
    )
    weight, earliest = (np.array(values, np.int64) for values in lists)
    return Graph(edges, weight, np.array(length, np.int64), earliest)


def model(graph: Graph) -> list[int]:
    """Return the times by repeating every edge until nothing changes."""
    at: list[int] = graph.earliest_ns.tolist()
    links = list(
        zip(
            graph.edges.target.tolist(),
            graph.edges.source.tolist(),
            graph.edges.from_end.tolist(),
            graph.weight_ns.tolist(),
            strict=True,
        )
    )
    for _ in range(len(at)):
        for target, source, from_end, weight in links:
            if weight != NEVER and at[source] != NEVER:
                length = int(graph.length_ns[source]) if from_end else 0
                at[target] = max(at[target], at[source] + length + weight)
    return at


@given(graphs(circles=False))
def test_each_node_happens_after_all_that_it_waits_for(graph: Graph) -> None:
    assert graph.times() == model(graph)


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
@given(graphs(circles=True))
def test_the_native_pass_equals_the_plain_one(graph: Graph) -> None:
    plain = module._times(graph.edges, graph.weight_ns, graph.length_ns, graph.earliest_ns)
    assert graph.times() == plain.tolist()


def test_a_long_chain_against_the_order_of_its_nodes_needs_no_recursion() -> None:
    n = 200_000
    edges = Edges(
        np.append(np.arange(n), n - 1),
        np.arange(1, n, dtype=np.int32),
        np.ones(n - 1, np.bool_),
        np.zeros(n - 1, np.int8),
    )
    earliest = np.full(n, NEVER)
    earliest[-1] = 5
    found = times(edges, np.full(n - 1, 2), np.ones(n, np.int64), earliest)
    assert found[0] == 5 + 3 * (n - 1)


@pytest.mark.parametrize("source", [2, -1])
def test_arrays_that_do_not_fit_are_refused(source: int) -> None:
    edges = Edges(
        np.array([0, 0, 1]),
        np.array([source], np.int32),
        np.ones(1, np.bool_),
        np.zeros(1, np.int8),
    )
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    for arrays in ((one, two, two), (two, two, two), (one, one, two), (one, two, one)):
        with pytest.raises(SchemaError):
            times(edges, *arrays)
