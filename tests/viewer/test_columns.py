"""Columns of a container, decoded value by value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.viewer_container import decode

from warpline.viewer import columns

SMALL = st.integers(0, 2**53)
ANY = st.integers(-(2**52), 2**52)


def read(packed):
    count = len(packed.data) // packed.planes
    return decode(packed.data, count, packed.head())


@given(st.lists(SMALL))
def test_plain(values):
    assert read(columns.plain("x", np.array(values, np.int64))) == values


@given(st.lists(ANY))
def test_delta(values):
    assert read(columns.delta("x", np.array(values, np.int64))) == values


@given(st.lists(st.one_of(st.none(), SMALL)))
def test_missing_values(values):
    valid = np.array([value is not None for value in values], np.bool_)
    filled = np.array([7 if value is None else value for value in values], np.int64)
    assert read(columns.optional("x", filled, valid)) == values
    assert read(columns.optional_delta("x", filled, valid)) == values


@given(st.lists(st.one_of(st.none(), ANY, st.integers(-(2**63), 2**63 - 1))))
def test_the_smallest_encoding_says_the_same(values):
    valid = np.array([value is not None for value in values], np.bool_)
    filled = np.array([0 if value is None else value for value in values], np.int64)
    packed = columns.smallest("x", filled, None if valid.all() else valid)
    found = read(packed)
    if packed.encoding == "float64":
        shown = [None if math.isnan(value) else value for value in found]
        assert shown == [None if value is None else float(value) for value in values]
    else:
        assert found == values


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_single_precision(values):
    assert read(columns.float32("x", np.array(values))) == values


def test_the_fewest_planes():
    assert columns.plain("x", np.array([0, 255])).planes == 1
    assert columns.plain("x", np.array([256])).planes == 2
    assert columns.plain("x", np.array([], np.int64)).planes == 1
    # Large values with small differences: the delta encoding is smaller.
    steady = np.arange(10**9, 10**9 + 3000)
    assert columns.smallest("x", steady, None).planes == 4
    falling = np.array([5, -3])
    assert columns.smallest("x", falling, None).head() == {
        "name": "x",
        "planes": 1,
        "encoding": "delta",
    }


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="7 bytes"):
        columns.plain("x", np.array([2**56]))
