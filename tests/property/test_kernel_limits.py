"""Predictions for any counters: their order, their bounds, and the sum of savings."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpline.derived.kernel_limits.ceilings import CHOSEN
from warpline.derived.kernel_limits.demands import Demands
from warpline.derived.kernel_limits.prediction import Change, predict
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES

SHARES = st.lists(st.floats(0, 1), min_size=len(RESOURCES), max_size=len(RESOURCES))
NAMES = st.sampled_from([resource.name for resource in RESOURCES])


@st.composite
def demands(draw):
    used = np.array([draw(SHARES)])
    time_ns = draw(st.floats(1, 1e9))
    imbalance = draw(st.floats(1, 200))
    return Demands(np.array([time_ns]), used, np.array([imbalance]), np.ones(1, np.bool_))


@st.composite
def changes(draw):
    kept = draw(st.dictionaries(NAMES, st.floats(0, 1)))
    return Change.of(
        1,
        {name: np.array([part]) for name, part in kept.items()},
        hides=np.array([draw(st.floats(1, 100))]),
        balances=draw(st.booleans()),
    )


@given(demands(), changes())
def test_bounds(now, change):
    found = predict(now, change)
    times = [float(column[0]) for column in (found.low_ns, found.likely_ns, found.high_ns)]
    assert all(math.isfinite(time) for time in times)
    assert 0 <= times[0] <= times[1] <= times[2] <= now.time_ns[0]
    assert 0 <= found.limiter[0] < len(RESOURCES)


@given(demands(), changes(), changes())
def test_one_more_repair_never_takes_longer(now, first, second):
    one, both = predict(now, first), predict(now, first.then(second))
    for name in ("low_ns", "likely_ns", "high_ns"):
        assert getattr(both, name)[0] <= getattr(one, name)[0] * (1 + 1e-9)


@given(demands(), changes(), changes())
def test_the_order_of_repairs_is_irrelevant(now, first, second):
    one, other = predict(now, first.then(second)), predict(now, second.then(first))
    assert one.likely_ns[0] == other.likely_ns[0]


@given(demands(), changes())
def test_no_time_is_shorter_than_the_next_limiter_takes(now, change):
    share = (now.used * change.kept).max()
    floor = min(share * now.time_ns[0] + CHOSEN.start_ns.best, now.time_ns[0])
    assert predict(now, change).low_ns[0] >= floor * (1 - 1e-9)


def test_what_is_alike_changes_alike():
    assert len(PLACE) == len(RESOURCES), "names are unique"
