"""Arrays of one repeated value, and columns that keep it once."""

from __future__ import annotations

import numpy as np
import pytest

from warpline.ops.arrays import is_repeated, joined, repeated, taken
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column, null_column

_ROWS = np.array([3, 0, 3], np.int64)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_repeated_values_take_the_memory_of_one(count: int) -> None:
    values = repeated(np.array([7], np.int32), count)
    assert is_repeated(values)
    assert values.tolist() == [7] * count


def test_other_arrays_are_not_repeated() -> None:
    assert not is_repeated(np.full(5, 7))
    assert not is_repeated(np.zeros(1))


def test_taken_equals_indexing() -> None:
    values = np.array([5, 6, 7, 8])
    assert taken(values, _ROWS).tolist() == [8, 5, 8]
    of_one = taken(repeated(np.array([7]), 4), _ROWS)
    assert is_repeated(of_one)
    assert of_one.tolist() == [7, 7, 7]
    by_one = taken(values, repeated(np.array([2]), 3))
    assert is_repeated(by_one)
    assert by_one.tolist() == [7, 7, 7]


def test_joined_keeps_one_value_once() -> None:
    ones, twos = repeated(np.array([1]), 2), repeated(np.array([2]), 2)
    none = np.zeros(0, np.int64)
    assert is_repeated(joined([ones, none, ones]))
    assert joined([ones, none, ones]).tolist() == [1, 1, 1, 1]
    assert joined([ones, twos]).tolist() == [1, 1, 2, 2]
    assert joined([ones, np.array([1])]).tolist() == [1, 1, 1]
    assert joined([none]).tolist() == []


@pytest.mark.parametrize("rows", [_ROWS, _ROWS[:0]])
def test_taking_rows_keeps_a_column_of_one_value_small(rows: np.ndarray) -> None:
    valid = repeated(np.array([False]), 4)
    column = ColumnData(repeated(np.array([0]), 4), valid).take(rows)
    assert column.valid is not None
    assert is_repeated(column.values)
    assert is_repeated(column.valid)
    assert column.to_list() == [None] * len(rows)


def test_columns_made_of_one_value_stay_small() -> None:
    spec = TABLES["kernel"].column("graph_node_id")
    wide = make_column(spec, repeated(np.array([3], np.int8), 4))
    assert is_repeated(wide.values)
    assert wide.values.dtype == spec.dtype.value
    assert wide.to_list() == [3] * 4
    nulls = make_column(spec, np.arange(4), np.zeros(4, np.bool_))
    assert nulls.to_list() == null_column(spec, 4).to_list() == [None] * 4
    assert is_repeated(nulls.values)
