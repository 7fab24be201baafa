"""Merging stacks by labels against tuples of labels."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpline.ops.stacks import check, intern, merge

LEFT_OUT = -1
CHAINS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=7), min_size=1, max_size=9)
LABELS = st.lists(st.integers(LEFT_OUT, 2), min_size=6, max_size=6)


@given(CHAINS, LABELS, st.data())
def test_each_stack_keeps_its_labels_and_equal_ones_are_one(chains, labels, data):
    flat = [(c, p, f) for c, chain in enumerate(chains) for p, f in enumerate(chain)]
    stacks, _, of_chain = intern(*(np.array(each) for each in zip(*flat, strict=True)))
    chosen = data.draw(st.lists(st.integers(0, len(chains) - 1), max_size=12))
    wanted = [tuple(labels[f] for f in reversed(chains[c]) if labels[f] >= 0) for c in chosen]

    merged, row = merge(stacks, np.array(labels), of_chain[np.array(chosen, np.int64)])

    check(merged.parent, merged.depth > 0, merged.depth)
    every = [path(merged, place) for place in range(len(merged))]
    assert [every[place] if place >= 0 else () for place in row.tolist()] == wanted
    needed = {one[:length] for one in wanted for length in range(1, len(one) + 1)}
    assert sorted(every) == sorted(needed)


def path(stacks, row):
    found = [int(stacks.frame[row])]
    while stacks.depth[row]:
        row = stacks.parent[row]
        found.append(int(stacks.frame[row]))
    return tuple(reversed(found))
