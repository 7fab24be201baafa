"""Lanes: no overlaps, and nesting preserved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.viewer.lanes import MAX_LANES, TOO_DEEP, lanes

INTERVALS = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(0, 30), st.integers(0, 2)), max_size=40
)


def arrays(intervals):
    start = np.array([start for start, _, _ in intervals], np.int64)
    length = np.array([length for _, length, _ in intervals], np.int64)
    group = np.array([group for _, _, group in intervals], np.int64)
    return start, start + length, group


@given(INTERVALS)
def test_no_two_of_a_lane_overlap(intervals):
    start, end, group = arrays(intervals)
    lane = lanes(start, end, group)
    assert (lane >= 0).all()
    for one in range(len(start)):
        for other in range(one):
            if (group[one], lane[one]) == (group[other], lane[other]):
                assert end[one] <= start[other] or end[other] <= start[one]


@given(INTERVALS)
def test_what_overlaps_nothing_stays_on_top(intervals):
    start, end, group = arrays(intervals)
    end += 1  # an instant is inside an interval that starts there
    lane = lanes(start, end, group)
    for row in range(len(start)):
        others = (group == group[row]) & (np.arange(len(start)) != row)
        apart = (end <= start[row]) | (start >= end[row])
        if apart[others].all():
            assert lane[row] == 0


def test_nested_calls_stand_below_each_other():
    start, end = np.array([0, 2, 3, 20, 21]), np.array([10, 8, 5, 30, 22])
    assert lanes(start, end, np.zeros(5, np.int64)).tolist() == [0, 1, 2, 0, 1]


def test_partial_overlaps_take_the_first_free_lane():
    start, end = np.array([0, 5, 10, 12]), np.array([10, 15, 12, 20])
    assert lanes(start, end, np.zeros(4, np.int64)).tolist() == [0, 1, 0, 0]


@given(INTERVALS)
def test_lanes_are_the_same_without_the_native_core(intervals):
    start, end, group = arrays(intervals)
    expected = lanes(start, end, group).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warpline.native.core", lambda: None)
        assert lanes(start, end, group).tolist() == expected


@pytest.mark.parametrize("crosses", [False, True])
@pytest.mark.parametrize("is_native", [False, True])
def test_events_beyond_the_last_lane_are_too_deep(monkeypatch, is_native, crosses):
    if not is_native:
        monkeypatch.setattr("warpline.native.core", lambda: None)
    count = MAX_LANES + 3
    start = np.arange(count)
    end = 10**6 + (start if crosses else -start)
    expected = [*range(MAX_LANES), *[TOO_DEEP] * 3]
    assert lanes(start, end, np.zeros(count, np.int64)).tolist() == expected


def test_a_hostile_depth_ends():
    count = MAX_LANES + 40
    start = np.arange(count)
    lane = lanes(start, np.full(count, 10**6), np.zeros(count, np.int64))
    assert lane.max() == MAX_LANES - 1
    assert (lane == TOO_DEEP).sum() == 40
