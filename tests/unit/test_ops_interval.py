"""Interval algebra on numbers computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpline.errors import SchemaError
from warpline.ops import interval
from warpline.ops.arrays import I64


def at(*values: int) -> I64:
    return np.array(values, np.int64)


def pairs(found: tuple[I64, I64]) -> list[tuple[int, int]]:
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def test_union_merges_overlapping_and_touching_intervals() -> None:
    assert pairs(interval.union(at(30, 0, 5, 10), at(40, 7, 10, 12))) == [(0, 12), (30, 40)]


def test_union_keeps_what_a_long_interval_covers_beyond_short_ones() -> None:
    assert pairs(interval.union(at(0, 1, 3), at(100, 2, 4))) == [(0, 100)]


def test_zero_length_intervals_cover_nothing() -> None:
    assert pairs(interval.union(at(5, 9), at(5, 9))) == []
    assert pairs(interval.union(at(0, 4, 4), at(4, 4, 8))) == [(0, 8)]


def test_total_counts_double_time_twice_and_covered_once() -> None:
    start, end = at(0, 5), at(10, 15)
    assert interval.total(start, end) == 20
    assert interval.covered(start, end) == 15


def test_total_exceeds_64_bits_without_wrapping() -> None:
    start, end = at(*[-(2**63)] * 3), at(*[2**63 - 1] * 3)
    assert interval.total(start, end) == 3 * (2**64 - 1)


def test_intersect_and_subtract() -> None:
    busy, copies = (at(0, 20), at(10, 30)), (at(5, 25), at(22, 40))
    assert pairs(interval.intersect(busy, copies)) == [(5, 10), (20, 22), (25, 30)]
    assert pairs(interval.subtract(busy, copies)) == [(0, 5), (22, 25)]


def test_gaps_reach_the_edges_of_the_window() -> None:
    assert pairs(interval.gaps(at(2, 6), at(4, 8), 0, 10)) == [(0, 2), (4, 6), (8, 10)]
    assert pairs(interval.gaps(at(), at(), 0, 10)) == [(0, 10)]
    assert pairs(interval.gaps(at(-5), at(50), 0, 10)) == []


def test_clip_leaves_rows_outside_at_the_nearer_edge() -> None:
    clipped = interval.clip(at(-5, 2, 12), at(3, 4, 20), 0, 10)
    assert pairs(clipped) == [(0, 3), (2, 4), (10, 10)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, False),  # ends where the window begins
        (0, 11, True),
        (19, 30, True),
        (20, 30, False),  # begins where the window ends
        (10, 10, True),  # an instant at the first moment
        (19, 19, True),
        (20, 20, False),
        (9, 9, False),
    ],
)
def test_overlap_with_a_window_from_10_to_20(start: int, end: int, expected: bool) -> None:
    assert interval.overlap_mask(at(start), at(end), 10, 20).tolist() == [expected]


def test_nothing_overlaps_an_empty_window() -> None:
    assert interval.overlap_mask(at(0, 5), at(10, 5), 5, 5).tolist() == [False, False]


def test_a_window_may_be_bounded_beyond_int64() -> None:
    start, end = at(-(2**63), 0), at(-(2**63) + 1, 5)
    assert interval.overlap_mask(start, end, -(10**30), 10**30).tolist() == [True, True]
    assert pairs(interval.clip(start, end, -(10**30), 10**30)) == pairs((start, end))
    last = 2**63 - 1
    assert pairs(interval.gaps(start, end, 0, 10**30)) == [(5, last)]


def test_concurrency_is_a_step_function() -> None:
    covering = interval.concurrency(at(0, 5, 7), at(10, 7, 8))
    assert pairs(covering) == [(0, 1), (5, 2), (8, 1), (10, 0)]


@pytest.mark.parametrize(
    "operation",
    [interval.union, interval.merge_sorted, interval.total, interval.concurrency],
)
def test_an_interval_that_ends_before_it_starts_is_refused(operation: Any) -> None:
    with pytest.raises(SchemaError, match="row 1 ends at 3, before its start 4"):
        operation(at(0, 4), at(1, 3))


def test_merge_sorted_refuses_disorder() -> None:
    with pytest.raises(SchemaError, match="row 2 starts at 1"):
        interval.merge_sorted(at(0, 5, 1), at(1, 6, 2))


def test_a_reversed_window_is_refused() -> None:
    with pytest.raises(SchemaError, match="ends at 4, before its start 5"):
        interval.clip(at(), at(), 5, 4)


def test_floats_and_unequal_lengths_are_refused() -> None:
    floats: Any = np.array([0.5])
    with pytest.raises(SchemaError, match=r"start: .* float64"):
        interval.union(floats, at(1))
    with pytest.raises(SchemaError, match="start has 1, end has 2"):
        interval.union(at(1), at(1, 2))


def test_narrow_integers_are_widened() -> None:
    narrow = np.array([0, 2**31 - 1], np.int32)
    assert interval.union(narrow, narrow + np.int64(1)).end.dtype == np.int64
