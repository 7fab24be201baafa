"""Sums over stacks against a model that walks each stack."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpline.ops.stack_sums import forest
from warpline.ops.stacks import Stacks, intern

CHAINS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=7), min_size=1, max_size=8)


@st.composite
def sampled(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple[int, int, int]]]:
    """Return chains of frames, innermost first, and rows: (chain or -1, group, value)."""
    chains = draw(CHAINS)
    row = st.tuples(st.integers(-1, len(chains) - 1), st.integers(0, 2), st.integers(0, 100))
    return chains, draw(st.lists(row, max_size=30))


def _interned(chains: list[list[int]]) -> tuple[Stacks, list[int]]:
    flat = [(c, p, f) for c, chain in enumerate(chains) for p, f in enumerate(chain)]
    chain, position, frame = (np.array(column, np.int64) for column in zip(*flat, strict=True))
    stacks, _, of_chain = intern(chain, position, frame)
    return stacks, of_chain.tolist()


@given(sampled())
def test_sums_are_those_of_a_walk_through_each_stack(case):
    chains, rows = case
    stacks, of_chain = _interned(chains)
    stack = np.array([of_chain[c] if c >= 0 else -1 for c, _, _ in rows], np.int64)
    group = np.array([g for _, g, _ in rows], np.int64)
    values = np.array([v for _, _, v in rows], np.int64)
    own: Counter[tuple[int, int]] = Counter()
    total: Counter[tuple[int, int]] = Counter()
    for chain, of_group, value in rows:
        if chain >= 0:
            own[of_group, chains[chain][0]] += value
            for frame in set(chains[chain]):
                total[of_group, frame] += value

    found = forest(stacks, stack, group)
    key = found.group * 5 + stacks.frame[found.stack]
    sums = found.sums(key, 15, found.own(values), found.is_outermost(stacks.frame))

    assert sums.own.tolist() == [own[g, f] for g in range(3) for f in range(5)]
    assert sums.total.tolist() == [total[g, f] for g in range(3) for f in range(5)]


@given(sampled())
def test_nodes_come_after_their_callers(case):
    chains, rows = case
    stacks, of_chain = _interned(chains)
    stack = np.array([of_chain[c] for c, _, _ in rows if c >= 0], np.int64)
    found = forest(stacks, stack)
    depth = stacks.depth[found.stack]
    inner = np.flatnonzero(depth > 0)
    assert (found.parent[inner] < inner).all()
    assert (found.stack[found.parent[inner]] == stacks.parent[found.stack[inner]]).all()
    assert (found.stack[found.node_of_row] == stack).all()
    assert len(set(found.stack.tolist())) == len(found)
