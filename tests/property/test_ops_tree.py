"""Nesting against a brute-force search and against a simulated push/pop stack."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import native
from warpline.ops import tree
from warpline.ops.arrays import INT64_MAX, INT64_MIN
from warpline.ops.interval import Intervals
from warpline.ops.tree import accumulate_up, contents, enclosing, nest

Row = tuple[int, int, int]  # start, end, group

rows = st.lists(
    st.tuples(st.integers(-4, 14), st.integers(0, 8), st.integers(0, 1)), max_size=12
).map(lambda drawn: [(start, start + length, group) for start, length, group in drawn])
anywhere = st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([INT64_MIN, -1, 0, INT64_MAX])
wide_rows = st.lists(
    st.tuples(anywhere, anywhere, anywhere).map(lambda drawn: (*sorted(drawn[:2]), drawn[2])),
    max_size=20,
)
programs = st.lists(st.booleans(), max_size=40)


def innermost(candidates: list[tuple[int, Row]]) -> int | None:
    """Return the row that starts last, then ends first, then has the last row number."""
    best = max(candidates, key=lambda item: (item[1][0], -item[1][1], item[0]), default=None)
    return None if best is None else best[0]


def parent_of(number: int, table: list[Row]) -> int | None:
    start, end, group = table[number]
    inside = set(range(start, max(end, start + 1)))
    return innermost(
        [
            (other, row)
            for other, row in enumerate(table)
            if row[2] == group
            and inside <= set(range(row[0], row[1]))
            and (other < number or row[:2] != (start, end))
        ]
    )


@given(rows)
def test_nest(table: list[Row]) -> None:
    start, end, group = np.array(table, np.int64).reshape(-1, 3).T
    found = nest(start, end, group)
    expected = [parent_of(number, table) for number in range(len(table))]
    parents = [
        row if ok else None
        for row, ok in zip(found.parent.tolist(), found.has_parent.tolist(), strict=True)
    ]
    assert parents == expected
    for number, depth in enumerate(found.depth.tolist()):
        above = expected[number]
        assert depth == (0 if above is None else found.depth[above] + 1)


queries_of_points = st.lists(st.tuples(st.integers(-6, 24), st.integers(0, 2)), max_size=12)


@given(rows, queries_of_points)
def test_enclosing(table: list[Row], queries: list[tuple[int, int]]) -> None:
    check_enclosing(table, queries)


@given(
    rows.map(lambda table: sorted(table, key=lambda row: row[0])),
    queries_of_points.map(lambda queries: sorted(queries, key=lambda query: query[0])),
)
def test_enclosing_in_order_of_time(table: list[Row], queries: list[tuple[int, int]]) -> None:
    check_enclosing(table, queries)
    if native.core() is not None and table and queries:
        start, end, group = np.array(table, np.int64).reshape(-1, 3).T
        points, point_group = np.array(queries, np.int64).reshape(-1, 2).T
        swept = tree._enclosing_natively(points, Intervals(start, end), point_group, group)
        assert swept is not None


def check_enclosing(table: list[Row], queries: list[tuple[int, int]]) -> None:
    start, end, group = np.array(table, np.int64).reshape(-1, 3).T
    points, point_group = np.array(queries, np.int64).reshape(-1, 2).T
    found = enclosing(points, start, end, point_group=point_group, group=group)
    got = [
        row if ok else None
        for row, ok in zip(found.row.tolist(), found.found.tolist(), strict=True)
    ]
    assert got == [
        innermost([(n, row) for n, row in enumerate(table) if row[2] == g and row[0] <= t < row[1]])
        for t, g in queries
    ]


@given(rows | wide_rows)
def test_the_native_core_nests_as_the_fallback_does(table: list[Row]) -> None:
    start, end, group = np.array(table, np.int64).reshape(-1, 3).T
    natively = tree._innermost_natively(Intervals(start, end), group)
    if natively is None:
        pytest.skip("needs the native core")
    parent, depth, crosses = tree._sweep(Intervals(start, end), group)
    assert natively[0].tolist() == parent.tolist()
    assert natively[1].tolist() == depth.tolist()
    assert natively[2] == crosses


@given(rows | wide_rows)
def test_stacks_nest_as_the_sweep_does(table: list[Row]) -> None:
    start, end, _ = np.array(table, np.int64).reshape(-1, 3).T
    one_group = np.zeros(len(table), np.int64)
    stacks = tree._of_stacks(Intervals(start, end), one_group)
    if stacks is not None:
        parent, depth, crosses = tree._sweep(Intervals(start, end), one_group)
        assert stacks[0].tolist() == parent.tolist()
        assert stacks[1].tolist() == depth.tolist()
        assert stacks[2] == crosses


@given(programs)
def test_pushes_and_pops_nest_as_stacks(program: list[bool]) -> None:
    open_at, pairs = list[int](), list[tuple[int, int]]()
    for moment, pushes in enumerate(program):
        if pushes:
            open_at.append(moment)
        elif open_at:
            pairs.append((open_at.pop(), moment))
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    one_group = np.zeros(len(pairs), np.int64)
    assert (tree._of_stacks(Intervals(start, end), one_group) is None) == (not pairs)


@given(
    rows | wide_rows,
    st.lists(st.tuples(st.integers(-6, 24) | anywhere, st.integers(0, 2)), max_size=12),
    st.integers(1, 9),
)
def test_contents(table: list[Row], drawn: list[tuple[int, int]], block: int) -> None:
    start, end, group = np.array(table, np.int64).reshape(-1, 3).T
    points, point_group = np.array(drawn, np.int64).reshape(-1, 2).T
    found = contents(points, start, end, point_group=point_group, group=group)
    assert found.order.tolist() == sorted(
        range(len(drawn)), key=lambda n: (drawn[n][1], drawn[n][0], n)
    )
    blocks = [
        list(zip(pairs.interval.tolist(), pairs.point.tolist(), strict=True))
        for pairs in found.pairs(block)
    ]
    assert [pair for pairs in blocks for pair in pairs] == [
        (row, n)
        for row, (begin, until, owner) in enumerate(table)
        for n in found.order.tolist()
        if begin <= drawn[n][0] < until and drawn[n][1] == owner
    ]
    for pairs in blocks:
        assert len(pairs) <= block or len({row for row, _ in pairs}) == 1


@given(rows, st.randoms(use_true_random=False))
def test_accumulate_up(table: list[Row], rng: random.Random) -> None:
    start, end, group = np.array(table, np.int64).reshape(-1, 3).T
    values = [rng.randint(-100, 100) for _ in table]
    expected = list(values)
    parents = [parent_of(number, table) for number in range(len(table))]
    for number, value in enumerate(values):
        above = parents[number]
        while above is not None:
            expected[above] += value
            above = parents[above]
    sums = accumulate_up(nest(start, end, group), np.array(values, np.int64))
    assert sums.tolist() == expected


@given(programs, st.randoms(use_true_random=False))
def test_nest_finds_the_stack_of_a_program(pushes: list[bool], shuffler: random.Random) -> None:
    """Simulate pushes and pops, one per ns, and compare with the stack at each push."""
    stack: list[int] = []
    spans: list[list[int]] = []
    expected: list[int | None] = []
    steps = [*pushes, *[False] * len(pushes)]  # enough pops to close every range
    for clock, push in enumerate(steps):
        if push:
            expected.append(stack[-1] if stack else None)
            stack.append(len(spans))
            spans.append([clock, clock])
        elif stack:
            spans[stack.pop()][1] = clock
    order = list(range(len(spans)))
    shuffler.shuffle(order)
    start, end = np.array([spans[n] for n in order], np.int64).reshape(-1, 2).T
    found = nest(start, end)
    for row, number in enumerate(order):
        above = order[found.parent[row]] if found.has_parent[row] else None
        assert above == expected[number]
