"""Groups and statistics on numbers computed by hand."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest

from warpline import native
from warpline.errors import InputError, SchemaError
from warpline.ops.arrays import I64
from warpline.ops.group import (
    CollectedStats,
    distinct_values,
    factorize,
    factorize_rows,
    group_stats,
    group_sums,
)
from warpline.units import fixed


@pytest.fixture(autouse=True, params=["native", "numpy"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with and without the native core, if available."""
    if request.param == "numpy":
        monkeypatch.setattr(native, "core", lambda: None)
    elif native.core() is None:
        pytest.skip(native.status().reason)


def at(*values: int) -> I64:
    return np.array(values, np.int64)


def test_factorize_numbers_keys_in_ascending_order() -> None:
    groups = factorize(at(30, -5, 30, 7))
    assert groups.uniques.tolist() == [-5, 7, 30]
    assert groups.codes.tolist() == [2, 0, 2, 1]


def test_factorize_many_distinct_keys() -> None:
    keys = np.arange(100_000)[::-1] * 3
    groups = factorize(keys)
    assert groups.n_groups == 100_000
    assert np.array_equal(groups.uniques[groups.codes], keys)


def test_factorize_reads_strided_and_narrow_arrays() -> None:
    assert factorize(at(5, 0, 3, 0, 5, 0)[::2]).codes.tolist() == [1, 0, 1]
    assert factorize(np.array([9, 8], ">i4")).uniques.tolist() == [8, 9]


def test_statistics_read_strided_arrays() -> None:
    codes = np.array([0, 1, 1, 0, 0, 1], np.int32)
    assert group_stats(codes[::2], at(1, 0, 2, 0, 4, 0)[::2], 2).sum.tolist() == [5, 2]


def test_rows_group_by_all_their_columns() -> None:
    name, grid = at(1, 0, 1, 1), at(64, 64, 32, 64)
    groups = factorize_rows(name, grid)
    assert groups.codes.tolist() == [2, 0, 1, 2]
    assert groups.first.tolist() == [1, 2, 0]
    assert groups.n_groups == 3


def test_statistics_of_two_groups() -> None:
    stats = group_stats(at(0, 1, 0, 0, 0, 1), at(2, 10, 4, 4, 6, 20), 2)
    assert stats.count.tolist() == [4, 2]
    assert stats.sum.tolist() == [16, 30]
    assert stats.min.tolist() == [2, 10]
    assert stats.max.tolist() == [6, 20]
    assert stats.mean.tolist() == [4.0, 15.0]
    assert stats.median.tolist() == [4.0, 15.0]
    assert stats.stddev.tolist() == pytest.approx([math.sqrt(8 / 3), math.sqrt(50)])
    assert stats.percentile(0).tolist() == [2, 10]
    assert stats.percentile(25).tolist() == [3.5, 12.5]
    assert stats.percentile(100).tolist() == [6, 20]


def test_a_single_value_has_no_deviation() -> None:
    stats = group_stats(at(0), at(7), 1)
    assert stats.stddev.tolist() == [0.0]
    assert stats.median.tolist() == stats.percentile(95).tolist() == [7.0]


def test_empty_groups_hold_zeros() -> None:
    stats = group_stats(at(1, 3), at(5, 9), 5)
    assert stats.count.tolist() == [0, 1, 0, 1, 0]
    assert stats.min.tolist() == stats.sum.tolist() == [0, 5, 0, 9, 0]
    assert stats.mean.tolist() == stats.percentile(50).tolist() == [0, 5, 0, 9, 0]
    assert stats.stddev.tolist() == [0.0] * 5


@pytest.mark.parametrize("n_groups", [0, 3])
def test_no_values_at_all(n_groups: int) -> None:
    stats = group_stats(at(), at(), n_groups)
    zeros = [0] * n_groups
    assert stats.count.tolist() == stats.sum.tolist() == stats.max.tolist() == zeros
    assert stats.median.tolist() == stats.stddev.tolist() == stats.percentile(99).tolist() == zeros


def test_deviation_keeps_its_digits_far_from_zero() -> None:
    # 10**6 values about 10**9 ns that alternate by 1: a sum of squares would lose it all.
    n = 1_000_000
    values = 10**9 + np.arange(n) % 2
    exact = math.sqrt(n * 0.25 / (n - 1))
    assert group_stats(np.zeros(n, np.int64), values, 1).stddev[0] == pytest.approx(
        exact, rel=1e-15
    )


def test_deviation_keeps_its_digits_where_the_mean_is_just_below_an_integer() -> None:
    n = 1_000_000
    values = np.ones(n, np.int64)
    values[0] = 0
    found = group_stats(np.zeros(n, np.int64), values, 1).stddev[0]
    assert found == pytest.approx(math.sqrt(1 / n), rel=1e-15, abs=0)


def test_deviation_of_one_outlier_among_a_million_equals() -> None:
    n = 1_000_000
    values = np.full(n, 10**9)
    values[-1] = 61 * 10**9  # the square of its distance passes 2**64
    mean_offset = 60 * 10**9 / n
    exact = math.sqrt(((n - 1) * mean_offset**2 + (60 * 10**9 - mean_offset) ** 2) / (n - 1))
    found = group_stats(np.zeros(n, np.int64), values, 1).stddev[0]
    assert fixed(float(found), 1) == fixed(exact, 1)


def test_sums_reach_the_last_number_that_fits() -> None:
    top = 2**63 - 1
    stats = group_stats(at(0, 0, 0, 1, 1), at(top, -5, 5, -(2**62), -(2**62)), 2)
    assert stats.sum.tolist() == [top, -(2**63)]


def test_a_sum_that_does_not_fit_names_its_group() -> None:
    stats = group_stats(at(0, 2, 2), at(1, 2**62, 2**62), 3)
    with pytest.raises(InputError, match="sum of the 2 values of group 2") as caught:
        _ = stats.mean
    assert caught.value.hint


@pytest.mark.parametrize("code", [-1, 2, 2**32])
def test_a_group_number_out_of_range_is_refused(code: int) -> None:
    with pytest.raises(SchemaError, match=r"outside \[0, 2\)"):
        group_stats(at(0, code), at(1, 1), 2)


def test_bad_arguments_are_refused() -> None:
    floats: Any = np.array([1.0])
    with pytest.raises(SchemaError, match="values: "):
        group_stats(at(0), floats, 1)
    with pytest.raises(SchemaError, match="codes: "):
        group_stats(floats, at(0), 2)
    with pytest.raises(SchemaError, match="different lengths"):
        group_stats(at(0), at(1, 2), 1)
    with pytest.raises(SchemaError, match="32 bits"):
        group_stats(at(), at(), 2**31)
    with pytest.raises(SchemaError, match="no key column"):
        factorize_rows()
    with pytest.raises(SchemaError, match="percentile 101"):
        group_stats(at(0), at(1), 1).percentile(101)


def test_squared_distances_are_exact_far_from_the_mean() -> None:
    values = [0, 2**40, -(2**61), 2**61, 5, 5, 6]
    stats = group_stats(np.array([0, 0, 1, 1, 3, 3, 3], np.int32), np.array(values), 4)
    expected = [statistics.stdev(values[:2]), statistics.stdev(values[2:4]), 0]
    assert stats.stddev.tolist() == pytest.approx([*expected, statistics.stdev(values[4:])])


def test_sums_need_no_order_and_do_not_overflow() -> None:
    codes = np.array([2, 0, 2], np.int32)
    assert group_sums(codes, np.array([3, -4, 5]), 3).tolist() == [-4, 0, 8]
    assert group_sums(codes, np.array([2**62, 1, 2**62 - 1]), 3).tolist() == [1, 0, 2**63 - 1]
    with pytest.raises(InputError, match="does not fit 64 bits"):
        group_sums(codes, np.array([2**62, 1, 2**62]), 3)


def test_statistics_collected_by_blocks_are_those_of_the_whole() -> None:
    codes, values = np.array([0, 1, 1, 2], np.int32), np.array([4, 7, 9, -1])
    whole = group_stats(codes, values, 3)
    blocks = [group_stats(codes[:1], values[:1], 1), group_stats(codes[1:] - 1, values[1:], 2)]
    collected = CollectedStats.of(blocks, (50,))
    for name in ("count", "min", "max", "sum", "mean", "median", "stddev"):
        assert getattr(collected, name).tolist() == getattr(whole, name).tolist()
    assert collected.percentile(50).tolist() == whole.median.tolist()
    with pytest.raises(SchemaError, match="percentile 95 was not collected"):
        collected.percentile(95)


@pytest.mark.parametrize("number", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([7], [7]),
        ([3, -1, 3, 2, -1], [-1, 2, 3]),
        ([100, -128, 127, 100], [-128, 100, 127]),
        ([-5, -5, 90, 90, 91], [-5, 90, 91]),
    ],
)
def test_distinct_values_ascend_and_keep_their_type(
    number: type[np.signedinteger[Any]], values: list[int], expected: list[int]
) -> None:
    found = distinct_values(np.array(values, number))
    assert found.tolist() == expected
    assert found.dtype == number


def test_distinct_values_at_the_ends_of_64_bits() -> None:
    low, high = -(2**63), 2**63 - 1
    assert distinct_values(at(high, low, 0, high)).tolist() == [low, 0, high]
    assert distinct_values(at(high, high - 1, high)).tolist() == [high - 1, high]


def test_distinct_values_equal_numpys() -> None:
    rng = np.random.default_rng(4)
    for most in (3, 1000, 2**40):
        values = rng.integers(-most, most, 2000)
        assert np.array_equal(distinct_values(values), np.unique(values))
        assert np.array_equal(distinct_values(np.sort(values)), np.unique(values))


def test_rows_of_small_numbers_are_grouped_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpline.ops.group._ROWS_PER_BLOCK", 3)
    columns = at(5, -2, 5, 5, -2, 9, 5, 9), at(1, 0, 1, 0, 0, 1, 1, 0)
    groups = factorize_rows(*columns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    distinct = sorted(set(rows))
    assert groups.codes.tolist() == [distinct.index(row) for row in rows]
    assert groups.first.tolist() == [rows.index(row) for row in distinct]


def test_a_constant_column_makes_one_group() -> None:
    constant = np.broadcast_to(np.int32(7), 4)
    assert factorize_rows(constant, constant).codes.tolist() == [0, 0, 0, 0]
    assert factorize_rows(constant, at(4, 4, 3, 4)).codes.tolist() == [1, 1, 0, 1]


def test_sums_of_blocks_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpline.ops.group._ROWS_PER_BLOCK", 2)
    codes = np.array([1, 0, 1, 1, 0], np.int32)
    small, large = at(3, -4, 5, 6, 7), at(2**53, 1, 1, 1, 2**53)
    assert group_sums(codes, small, 3).tolist() == [3, 14, 0]
    assert group_sums(codes, large, 3).tolist() == [2**53 + 1, 2**53 + 2, 0]
