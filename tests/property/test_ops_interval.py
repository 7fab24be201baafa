"""Interval algebra against sets of integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import native
from warpline.errors import SchemaError
from warpline.ops import interval
from warpline.ops.arrays import I64
from warpline.ops.interval import Intervals

Rows = list[tuple[int, int]]

rows = st.lists(st.tuples(st.integers(-8, 24), st.integers(0, 7)), max_size=12).map(
    lambda drawn: [(start, start + length) for start, length in drawn]
)
window = st.tuples(st.integers(-10, 32), st.integers(0, 20)).map(lambda w: (w[0], w[0] + w[1]))

# The limits of int64 and their neighborhoods, where careless differences or sums overflow.
extreme = st.sampled_from([-(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1])
extreme_rows = st.lists(st.tuples(extreme, extreme).map(lambda pair: (min(pair), max(pair))))


def columns(pairs: Rows) -> tuple[I64, I64]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def points(pairs: Rows) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


def assert_canonical(found: Intervals, expected: set[int]) -> None:
    pairs = list(zip(found.start.tolist(), found.end.tolist(), strict=True))
    assert points(pairs) == expected
    assert all(start < end for start, end in pairs)
    assert all(one[1] < other[0] for one, other in pairwise(pairs))
    assert found.start.dtype == found.end.dtype == np.int64


@given(rows)
def test_union(pairs: Rows) -> None:
    assert_canonical(interval.union(*columns(pairs)), points(pairs))
    assert_canonical(interval.merge_sorted(*columns(sorted(pairs))), points(pairs))


@pytest.mark.parametrize("core", ["native", "numpy"])
@given(pairs=rows, seed=st.integers(0, 9))
def test_union_of_some(core: str, pairs: Rows, seed: int) -> None:
    chosen = [Random(seed + row).random() < 0.5 for row in range(len(pairs))]
    with pytest.MonkeyPatch.context() as patch:
        if core == "numpy":
            patch.setattr(native, "core", lambda: None)
        found = interval.union(*columns(pairs), np.array(chosen, np.bool_))
    some = [pair for pair, is_chosen in zip(pairs, chosen, strict=True) if is_chosen]
    assert_canonical(found, points(some))


@given(rows)
def test_covered_and_total(pairs: Rows) -> None:
    assert interval.covered(*columns(pairs)) == len(points(pairs))
    assert interval.total(*columns(pairs)) == sum(end - start for start, end in pairs)


@pytest.mark.parametrize("core", ["native", "numpy"])
@given(grouped=st.lists(st.tuples(st.integers(-8, 24), st.integers(0, 7), st.integers(0, 3))))
def test_covered_by_group(core: str, grouped: list[tuple[int, int, int]]) -> None:
    pairs = [(start, start + length) for start, length, _ in grouped]
    groups = np.array([group for *_, group in grouped], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        if core == "numpy":
            patch.setattr(native, "core", lambda: None)
        found = interval.covered_by_group(*columns(pairs), groups, 5)
    of_groups = [[pair for pair, g in zip(pairs, groups, strict=True) if g == k] for k in range(5)]
    assert found.tolist() == [len(points(of_group)) for of_group in of_groups]


def test_covered_by_group_refuses_what_it_cannot_measure() -> None:
    start = np.array([0, 5], np.int64)
    with pytest.raises(SchemaError, match="row 1"):
        interval.covered_by_group(start, start - np.array([0, 1]), np.array([0, 1]), 2)
    with pytest.raises(IndexError):
        interval.covered_by_group(start, start + 1, np.array([0, 2]), 2)


@given(rows, st.lists(st.integers(-10, 32)))
def test_covered_until(pairs: Rows, moments: list[int]) -> None:
    found = interval.covered_until(interval.union(*columns(pairs)), np.array(moments, np.int64))
    assert found.tolist() == [sum(t < moment for t in points(pairs)) for moment in moments]


@given(extreme_rows)
def test_lengths_are_exact_at_the_ends_of_int64(pairs: Rows) -> None:
    assert interval.total(*columns(pairs)) == sum(end - start for start, end in pairs)
    edges = sorted({time for pair in pairs for time in pair})
    pieces = pairwise(edges)
    inside = [high - low for low, high in pieces if any(s <= low < e for s, e in pairs)]
    assert interval.covered(*columns(pairs)) == sum(inside)


@given(rows, rows)
def test_intersect(a: Rows, b: Rows) -> None:
    assert_canonical(interval.intersect(columns(a), columns(b)), points(a) & points(b))


@given(rows, rows)
def test_subtract(a: Rows, b: Rows) -> None:
    assert_canonical(interval.subtract(columns(a), columns(b)), points(a) - points(b))


@given(rows, window)
def test_gaps(pairs: Rows, bounds: tuple[int, int]) -> None:
    expected = set(range(*bounds)) - points(pairs)
    assert_canonical(interval.gaps(*columns(pairs), *bounds), expected)


@given(rows, window)
def test_clip_keeps_each_rows_points_in_the_window(pairs: Rows, bounds: tuple[int, int]) -> None:
    clipped = interval.clip(*columns(pairs), *bounds)
    for (start, end), low, high in zip(pairs, *(c.tolist() for c in clipped), strict=True):
        assert set(range(low, high)) == set(range(start, end)) & set(range(*bounds))
        assert bounds[0] <= low <= high <= bounds[1]


@given(rows, window)
def test_overlap_mask(pairs: Rows, bounds: tuple[int, int]) -> None:
    inside = set(range(*bounds))
    # A zero-length row represents its point.
    expected = [bool(set(range(s, max(e, s + 1))) & inside) for s, e in pairs]
    assert interval.overlap_mask(*columns(pairs), *bounds).tolist() == expected


@given(rows)
def test_concurrency(pairs: Rows) -> None:
    covering = interval.concurrency(*columns(pairs))
    times, depths = covering.time.tolist(), covering.depth.tolist()
    for moment in range(-10, 34):
        at = np.searchsorted(covering.time, moment, side="right") - 1
        assert (depths[at] if at >= 0 else 0) == sum(s <= moment < e for s, e in pairs)
    assert times == sorted(set(times))
    assert all(one != other for one, other in pairwise([0, *depths]))
    assert depths[-1:] in ([], [0])


@given(rows, st.randoms(use_true_random=False))
@pytest.mark.parametrize("operation", [interval.union, interval.concurrency])
def test_row_order_is_irrelevant(
    operation: Callable[..., tuple[I64, I64]], pairs: Rows, random: Random
) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    for one, other in zip(operation(*columns(pairs)), operation(*columns(shuffled)), strict=True):
        assert one.tolist() == other.tolist()


@given(rows, rows)
def test_inputs_stay_as_they_are(a: Rows, b: Rows) -> None:
    inputs = [*columns(a), *columns(b)]
    before = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    interval.subtract((inputs[0], inputs[1]), (inputs[2], inputs[3]))
    interval.clip(inputs[0], inputs[1], 0, 5)
    interval.concurrency(inputs[0], inputs[1])
    assert all(np.array_equal(one, other) for one, other in zip(inputs, before, strict=True))
