"""Joins on numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from warpline.errors import SchemaError
from warpline.ops.arrays import I64
from warpline.ops.join import Duplicates, lookup, lookup_rows

# Tables with dense keys are joined by slots, those with sparse keys by search.
SPREAD = pytest.mark.parametrize("spread", [1, 10**15], ids=["near", "far"])


def at(*values: int) -> I64:
    return np.array(values, np.int64)


@SPREAD
def test_each_key_finds_its_row(spread: int) -> None:
    found = lookup(at(7, 3, 5) * spread, at(3, 5, 7) * spread)
    assert found.found.all()
    assert found.row.tolist() == [2, 0, 1]


@SPREAD
def test_a_key_that_the_table_lacks_is_not_found(spread: int) -> None:
    found = lookup(at(2, 4, 8) * spread, at(3, 4, 7) * spread)
    assert found.found.tolist() == [False, True, False]
    assert found.row.tolist() == [0, 1, 0]


@SPREAD
@pytest.mark.parametrize(("duplicates", "row"), [("first", 1), ("last", 3)])
def test_the_policy_decides_between_duplicates(
    spread: int, duplicates: Duplicates, row: int
) -> None:
    found = lookup(at(4) * spread, at(9, 4, 1, 4) * spread, duplicates=duplicates)
    assert found.row.tolist() == [row]


def test_empty_sides() -> None:
    assert lookup(at(), at(1)).row.tolist() == []
    assert lookup(at(1, 2), at()).found.tolist() == [False, False]


def test_correlations_join_within_their_process_only() -> None:
    kernels = at(0, 1, 1), at(7, 7, 8)
    calls = at(1, 0), at(7, 7)
    found = lookup_rows(kernels, calls)
    assert found.row.tolist() == [1, 0, 0]
    assert found.found.tolist() == [True, True, False]


def test_columns_too_wide_to_pack_are_joined_all_the_same() -> None:
    wide = at(-(2**63), 2**63 - 1)
    found = lookup_rows((wide, wide), (wide[::-1], wide[::-1]))
    assert found.row.tolist() == [1, 0]
    assert found.found.all()


def test_narrow_and_wide_columns_join() -> None:
    narrow = np.array([3, 4], np.int32)
    assert lookup_rows((narrow, at(1, 1)), (at(4, 3), narrow * 0 + 1)).row.tolist() == [1, 0]


def test_different_numbers_of_key_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="2 key columns with 1"):
        lookup_rows((at(1), at(1)), (at(1),))
    with pytest.raises(SchemaError, match="0 key columns"):
        lookup_rows((), ())
    with pytest.raises(SchemaError, match="different lengths"):
        lookup_rows((at(1), at(1, 2)), (at(1), at(1, 2)))


@pytest.mark.parametrize(("duplicates", "rows"), [("first", [0, 1, 2]), ("last", [5, 1, 4])])
def test_dense_keys_are_found_across_blocks(
    monkeypatch: pytest.MonkeyPatch, duplicates: Duplicates, rows: list[int]
) -> None:
    monkeypatch.setattr("warpline.ops.join._ROWS_PER_BLOCK", 2)
    found = lookup(at(5, 6, 4, 9), at(5, 6, 4, 7, 4, 5), duplicates=duplicates)
    assert found.row.tolist() == [*rows, 0]
    assert found.found.tolist() == [True, True, True, False]
