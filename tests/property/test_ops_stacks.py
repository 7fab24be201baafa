"""Interned stacks against a trie of Python dictionaries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.errors import SchemaError
from warpline.ops import stacks as ops
from warpline.ops.arrays import I64
from warpline.ops.stacks import Stacks, ancestors, check, intern

Rows = list[tuple[int, int, int]]  # chain, position, frame

ids = st.sampled_from([-(2**63), -1, 0, 1, 2, 7, 2**40, 2**63 - 1])
rows_of_frames = st.lists(st.tuples(ids, st.integers(-2, 6), st.integers(0, 2)), max_size=40)


def columns(rows: Rows) -> tuple[I64, I64, I64]:
    every = np.array(rows, np.int64).reshape(-1, 3)
    return every[:, 0], every[:, 1], every[:, 2]


def model(rows: Rows) -> dict[int, tuple[int, ...]]:
    """Return the frames of each chain, innermost first."""
    chains: dict[int, list[tuple[int, int]]] = {}
    for chain, position, frame in rows:
        chains.setdefault(chain, []).append((position, frame))
    return {
        chain: tuple(frame for _, frame in sorted(found, key=lambda item: item[0]))
        for chain, found in chains.items()
    }


def frames_of(stacks: Stacks, row: int) -> tuple[int, ...]:
    """Follow the parents of a stack, one at a time."""
    found = [int(stacks.frame[row])]
    while stacks.depth[row]:
        row = int(stacks.parent[row])
        found.append(int(stacks.frame[row]))
    return tuple(found)


@given(rows_of_frames)
def test_every_chain_reads_back_and_equal_stacks_are_one_row(rows):
    stacks, chains, rows_of_chains = intern(*columns(rows))
    expected = model(rows)
    assert chains.tolist() == sorted(expected)
    found = [frames_of(stacks, row) for row in rows_of_chains.tolist()]
    assert found == [expected[chain] for chain in chains.tolist()]
    every_end = {frames[place:] for frames in expected.values() for place in range(len(frames))}
    assert sorted(frames_of(stacks, row) for row in range(len(stacks))) == sorted(every_end)
    assert {array.dtype for array in (stacks.parent, stacks.depth, stacks.frame)} == {
        np.dtype(np.int32)
    }
    check(stacks.parent, stacks.depth > 0, stacks.depth)


@given(rows_of_frames, st.data())
def test_ancestors_are_the_frames_of_each_stack(rows, data):
    stacks, _, rows_of_chains = intern(*columns(rows))
    some = st.sampled_from(range(len(stacks))) if len(stacks) else st.nothing()
    chosen = data.draw(st.lists(some, max_size=8)) if len(stacks) else rows_of_chains.tolist()
    place, row = ancestors(stacks, np.array(chosen, np.int64))
    for number, stack in enumerate(chosen):
        assert tuple(stacks.frame[row[place == number]].tolist()) == frames_of(stacks, stack)
    assert len(place) == sum(len(frames_of(stacks, stack)) for stack in chosen)


def test_a_coincidence_of_sums_is_found_and_others_are_drawn(monkeypatch):
    rows = [
        (chain, position, (chain + position) % 5) for chain in range(6) for position in range(9)
    ]
    true, drawn = ops._random_sums, []

    def coinciding(frames: I64, depth: I64) -> Iterator[I64]:
        drawn.append("all equal")
        yield np.zeros(len(frames), np.int64)
        drawn.append("by depth alone")
        yield depth
        drawn.append("by frame and depth, whatever is before")
        yield depth * 10 + frames
        yield from true(frames, depth)

    expected = intern(*columns(rows))
    monkeypatch.setattr(ops, "_random_sums", coinciding)
    found = intern(*columns(rows))
    assert len(drawn) == 3
    assert [frames_of(found[0], row) for row in range(len(found[0]))] == [
        frames_of(expected[0], row) for row in range(len(expected[0]))
    ]
    assert [array.tolist() for array in found[1:]] == [array.tolist() for array in expected[1:]]


def test_a_stack_of_a_million_frames():
    size = 10**6
    chain = np.repeat([5, 9], size)
    position = np.tile(np.arange(size), 2)
    frame = np.zeros(2 * size, np.int64)
    frame[size] = 1  # the innermost frame of the second chain
    stacks, _, rows = intern(chain, position, frame)
    assert len(stacks) == size + 1
    assert stacks.depth[rows].tolist() == [size - 1] * 2
    assert stacks.parent[rows].tolist() == [size - 2] * 2
    check(stacks.parent, stacks.depth > 0, stacks.depth)
    _, row = ancestors(stacks, rows[1:])
    assert stacks.frame[row].tolist() == [1, *[0] * (size - 1)]


@pytest.mark.parametrize(
    ("parent", "has_parent", "depth", "what"),
    [
        ([0, 2, 1], [False, True, True], [0, 1, 2], "earlier"),  # a cycle
        ([0], [True], [1], "earlier"),  # of one row
        ([0, 9], [False, True], [0, 1], "earlier"),
        ([0, -1], [False, True], [0, 1], "earlier"),
        ([0, 0], [False, True], [0, 2], "depth"),
        ([0, 0], [False, True], [0, 2**40], "depth"),
        ([0, 0], [False, False], [0, 1], "depth"),
    ],
)
def test_what_is_no_tree_is_refused(parent, has_parent, depth, what):
    with pytest.raises(SchemaError, match=what):
        check(np.array(parent), np.array(has_parent), np.array(depth))


def test_a_tree_is_accepted():
    parent, depth = np.array([0, 0, 1, 0, 3]), np.array([0, 1, 2, 0, 1])
    check(parent, depth > 0, depth)
