"""Groups and statistics against Python's own arithmetic, with and without the native core."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import native
from warpline.errors import InputError
from warpline.ops.arrays import I64
from warpline.ops.group import factorize, factorize_rows, group_stats, pack, places

Row = tuple[int, int, int]
N_GROUPS = 5

int64 = st.integers(-(2**63), 2**63 - 1)
keys = st.lists(st.integers(-3, 3) | int64, max_size=30)
few = st.integers(-2, 2)
row_keys = st.lists(st.tuples(few, few, few), max_size=15) | st.lists(
    st.tuples(few | int64, int64, few), max_size=15
)
durations = st.integers(0, 30) | st.integers(0, 10**13)
group = st.integers(0, N_GROUPS - 1)
grouped = st.lists(st.tuples(group, durations), max_size=40)
grouped_widely = st.lists(st.tuples(group, int64), max_size=12)


@pytest.fixture(autouse=True, scope="module", params=["native", "numpy"])
def implementation(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test with and without the native core, if available."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(native, "core", lambda: None)
        elif native.core() is None:
            pytest.skip(native.status().reason)
        yield


def columns(rows: list[Row]) -> list[I64]:
    return list(np.array(rows, np.int64).reshape(-1, 3).T)


def by_group(pairs: list[tuple[int, int]]) -> list[list[int]]:
    return [sorted(value for owner, value in pairs if owner == g) for g in range(N_GROUPS)]


def arrays(pairs: list[tuple[int, int]]) -> tuple[I64, I64]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@given(keys)
def test_factorize(values: list[int]) -> None:
    groups = factorize(np.array(values, np.int64))
    assert groups.uniques.tolist() == sorted(set(values))
    assert groups.uniques[groups.codes].tolist() == values
    assert groups.codes.dtype == np.int32
    assert groups.n_groups == len(set(values))


@given(row_keys)
def test_factorize_rows(rows: list[Row]) -> None:
    groups = factorize_rows(*columns(rows))
    distinct = sorted(set(rows))
    assert [distinct[code] for code in groups.codes.tolist()] == rows
    assert groups.first.tolist() == [rows.index(row) for row in distinct]


@given(row_keys)
def test_packed_rows_order_as_their_tuples(rows: list[Row]) -> None:
    packed = pack(*columns(rows))
    sizes = [max(column) - min(column) + 1 for column in zip(*rows, strict=True)]
    assert (packed is None) == (bool(rows) and math.prod(sizes) >= 2**63)
    if packed is not None:
        ranks = {row: rank for rank, row in enumerate(sorted(set(rows)))}
        assert np.unique(packed, return_inverse=True)[1].tolist() == [ranks[row] for row in rows]


@given(grouped)
def test_exact_statistics(pairs: list[tuple[int, int]]) -> None:
    stats = group_stats(*arrays(pairs), N_GROUPS)
    for g, values in enumerate(by_group(pairs)):
        assert stats.ordered[stats.starts[g] : stats.starts[g + 1]].tolist() == values
        assert stats.count[g] == len(values)
        assert stats.sum[g] == sum(values)
        assert stats.min[g] == min(values, default=0)
        assert stats.max[g] == max(values, default=0)
        assert stats.median[g] == (statistics.median(values) if values else 0)


@given(grouped)
def test_mean_and_stddev_are_right_to_the_last_digits(pairs: list[tuple[int, int]]) -> None:
    stats = group_stats(*arrays(pairs), N_GROUPS)
    for g, values in enumerate(by_group(pairs)):
        mean = Fraction(sum(values), max(len(values), 1))
        squares = sum((value - mean) ** 2 for value in values)
        deviation = math.sqrt(squares / max(len(values) - 1, 1))
        assert stats.mean[g] == pytest.approx(float(mean), rel=1e-15, abs=0)
        assert stats.stddev[g] == pytest.approx(deviation, rel=4e-15, abs=0)


@given(grouped, st.floats(0, 100))
def test_percentiles_are_numpys(pairs: list[tuple[int, int]], percent: float) -> None:
    found = group_stats(*arrays(pairs), N_GROUPS).percentile(percent)
    for g, values in enumerate(by_group(pairs)):
        expected = float(np.percentile(values, percent)) if values else 0.0
        assert found[g] == pytest.approx(expected, rel=1e-12, abs=1e-9)


@given(grouped_widely)
def test_a_sum_beyond_64_bits_is_refused_and_no_other(pairs: list[tuple[int, int]]) -> None:
    stats = group_stats(*arrays(pairs), N_GROUPS)
    sums = [sum(values) for values in by_group(pairs)]
    if all(-(2**63) <= exact < 2**63 for exact in sums):
        assert stats.sum.tolist() == sums
        deviations = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in by_group(pairs)]
        assert stats.stddev.tolist() == pytest.approx(deviations, rel=1e-14)
    else:
        with pytest.raises(InputError, match="does not fit 64 bits"):
            _ = stats.sum


@given(st.sets(st.integers(-50, 2000), min_size=1), st.integers(0, 99))
def test_places_are_those_of_a_search(among, seed):
    """Few values in a wide range are searched for, many are looked up in a table."""
    ascending = np.array(sorted(among), np.int64)
    for count in (0, 1, 3000):
        values = np.random.default_rng(seed).choice(ascending, count)
        assert places(ascending, values).tolist() == np.searchsorted(ascending, values).tolist()
