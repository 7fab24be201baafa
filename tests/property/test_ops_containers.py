"""Shortest containers against a brute-force model."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpline.ops.containers import shortest_containers
from warpline.ops.tree import nest_or_cross

Span = tuple[int, int, int]
spans = st.lists(
    st.builds(
        lambda start, length, group: (start, start + length, group),
        st.integers(-9, 9),
        st.integers(0, 9),
        st.integers(0, 1),
    ),
    max_size=14,
)


def contains(outer: tuple[Span, int], inner: tuple[Span, int]) -> bool:
    (begin, end, group), row = outer
    (start, until, other), other_row = inner
    if group != other or row == other_row or (begin, end) == (start, until):
        return group == other and row < other_row and begin < end
    return begin <= start and max(until, start + 1) <= end


@given(spans)
def test_the_shortest_container(intervals: list[Span]) -> None:
    start, end, group = np.array(intervals, np.int64).reshape(-1, 3).T
    found = shortest_containers(start, end, group)
    rows = list(enumerate(intervals))
    for row, span in rows:
        outer = [(o[1] - o[0], o[0], -n) for n, o in rows if contains((o, n), (span, row))]
        assert bool(found.found[row]) == bool(outer)
        assert not outer or found.row[row] == -min(outer)[2]


@given(spans)
def test_whether_intervals_cross(intervals: list[Span]) -> None:
    start, end, group = np.array(intervals, np.int64).reshape(-1, 3).T
    expected = any(a[2] == b[2] and a[0] < b[0] < a[1] < b[1] for a in intervals for b in intervals)
    assert nest_or_cross(start, end, group)[1] == expected


@given(spans)
def test_where_nothing_crosses_the_shortest_is_the_innermost(intervals: list[Span]) -> None:
    start, end, group = np.array(intervals, np.int64).reshape(-1, 3).T
    nesting, crosses = nest_or_cross(start, end, group)
    if not crosses:
        found = shortest_containers(start, end, group)
        assert found.found.tolist() == nesting.has_parent.tolist()
        assert found.row.tolist() == nesting.parent.tolist()
