"""Tiles, intersections and differences of intervals against a model of every nanosecond."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import native
from warpline.errors import SchemaError
from warpline.ops import tiling
from warpline.ops.tiling import MAX_LEVELS, Grouped, by_group, cut, rest, sum_cuts, tile

LAST = 40
moments = st.integers(0, LAST)
intervals = st.tuples(moments, moments, st.integers(0, 3)).map(
    lambda drawn: (min(drawn[:2]), max(drawn[:2]), drawn[2])
)
some = st.lists(intervals, max_size=12)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()


def owner_at(rows: list[tuple[int, int, int]], moment: int) -> int | None:
    """Return the row that a time belongs to: lowest level, earliest start, first row."""
    there = [
        (level, start, row) for row, (start, end, level) in enumerate(rows) if start <= moment < end
    ]
    return min(there)[2] if there else None


@pytest.fixture(params=["native", "numpy"], autouse=True, scope="module")
def _with_and_without_the_core(request: pytest.FixtureRequest) -> Iterator[None]:
    core = native.core() if request.param == "native" else None
    with patch.object(native, "core", return_value=core):
        yield


@given(some)
def test_each_moment_belongs_to_the_first_of_those_that_cover_it(
    rows: list[tuple[int, int, int]],
) -> None:
    found = tile(*columns(rows))
    owners: list[int | None] = [None] * LAST
    for start, end, owner in zip(*(column.tolist() for column in found), strict=True):
        assert owners[start:end] == [None] * (end - start)
        owners[start:end] = [owner] * (end - start)
    assert owners == [owner_at(rows, moment) for moment in range(LAST)]
    starts, ends, given_to = (column.tolist() for column in found)
    assert starts == sorted(starts)
    assert all(start < end for start, end in zip(starts, ends, strict=True))
    for place in range(1, len(starts)):
        touches = starts[place] == ends[place - 1]
        assert not (touches and given_to[place] == given_to[place - 1])


def test_a_level_outside_is_refused() -> None:
    one = np.array([0], np.int64)
    for level in (-1, MAX_LEVELS):
        with pytest.raises(SchemaError, match="level"):
            tile(one, one + 1, np.array([level]))


def apart(rows: list[tuple[int, int, int]]) -> Grouped:
    """Return the intervals of each group, clipped to be disjoint, by group and start."""
    kept: list[tuple[int, int, int]] = []
    for start, end, group in sorted(rows, key=lambda row: (row[2], row[0])):
        reach = kept[-1][1] if kept and kept[-1][2] == group else 0
        if max(start, reach) < end:
            kept.append((max(start, reach), end, group))
    return Grouped(*columns(kept))


@given(some, some)
def test_cuts_are_what_both_cover_and_rests_what_only_the_span_does(
    spans: list[tuple[int, int, int]], drawn: list[tuple[int, int, int]]
) -> None:
    others, chosen = apart(drawn), Grouped(*columns(spans))
    cuts = cut(chosen, others)
    rests = rest(chosen, cuts)
    where: dict[tuple[int, int], list[object]] = {}
    for span, row, start, end in zip(*(column.tolist() for column in cuts), strict=True):
        for moment in range(start, end):
            where.setdefault((span, moment), []).append(row)
    for span, _, start, end in zip(*(column.tolist() for column in rests), strict=True):
        for moment in range(start, end):
            where.setdefault((span, moment), []).append("rest")
    expected: dict[tuple[int, int], list[object]] = {}
    for span, (start, end, group) in enumerate(spans):
        for moment in range(start, end):
            inside = (
                (others.start_ns <= moment) & (moment < others.end_ns) & (others.group == group)
            )
            expected[(span, moment)] = [*np.flatnonzero(inside).tolist()] or ["rest"]
    assert where == expected


@given(some, some, st.integers(1, 4))
def test_sums_are_those_of_the_cuts(
    spans: list[tuple[int, int, int]], drawn: list[tuple[int, int, int]], block: int
) -> None:
    chosen, others = Grouped(*columns(spans)), apart(drawn)
    code, slot = np.arange(len(others.group)) % 3 - 1, np.arange(len(spans)) % 2
    expected = np.zeros((2, 2), np.int64)
    for span, row, start, end in zip(*(part.tolist() for part in cut(chosen, others)), strict=True):
        if code[row] >= 0:
            expected[slot[span], code[row]] += end - start
    with patch.object(tiling, "_CUTS_PER_BLOCK", block):
        sums = sum_cuts(chosen, others, code, 2, slot=slot, n_slots=2)
        (total,) = sum_cuts(chosen, others)
    assert sums.tolist() == expected.tolist()
    cuts = cut(chosen, others)
    assert total.tolist() == [int((cuts.end_ns - cuts.start_ns).sum())]


@given(st.lists(st.integers(0, 5) | st.integers(2**15, 2**15 + 2)))
def test_groups_ascend_and_keep_the_order_of_their_rows(groups: list[int]) -> None:
    found = [rows.tolist() for rows in by_group(np.array(groups, np.int64))]
    expected = [
        [row for row, group in enumerate(groups) if group == each] for each in sorted({*groups})
    ]
    assert found == expected
