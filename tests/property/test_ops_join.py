"""Joins against dictionaries."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.ops.arrays import I64
from warpline.ops.join import Duplicates, Lookup, lookup, lookup_rows

Row = tuple[int, int, int]

near = st.integers(-5, 12)
far = st.sampled_from([-(2**63), -(2**40), -1, 0, 1, 7, 2**40, 2**63 - 1])
keys = st.lists(near, max_size=20) | st.lists(near | far, max_size=20)
few = st.integers(0, 2)
row_keys = st.lists(st.tuples(few, few, few), max_size=12) | st.lists(
    st.tuples(few | far, few | far, few), max_size=12
)

both_policies = pytest.mark.parametrize("duplicates", ["first", "last"])


def model(
    wanted: Iterable[Hashable], table: Iterable[Hashable], duplicates: Duplicates
) -> list[int | None]:
    rows: dict[Hashable, int] = {}
    for row, key in enumerate(table):
        if duplicates == "last" or key not in rows:
            rows[key] = row
    return [rows.get(key) for key in wanted]


def plain(found: Lookup) -> list[int | None]:
    assert found.row.dtype == np.int64
    assert not found.row[~found.found].any()
    return [
        row if ok else None
        for row, ok in zip(found.row.tolist(), found.found.tolist(), strict=True)
    ]


def columns(rows: list[Row]) -> list[I64]:
    return list(np.array(rows, np.int64).reshape(-1, 3).T)


@both_policies
@given(wanted=keys, table=keys)
def test_lookup(wanted: list[int], table: list[int], duplicates: Duplicates) -> None:
    found = lookup(np.array(wanted, np.int64), np.array(table, np.int64), duplicates=duplicates)
    assert plain(found) == model(wanted, table, duplicates)


@both_policies
@given(wanted=row_keys, table=row_keys)
def test_lookup_rows(wanted: list[Row], table: list[Row], duplicates: Duplicates) -> None:
    found = lookup_rows(columns(wanted), columns(table), duplicates=duplicates)
    assert plain(found) == model(wanted, table, duplicates)
