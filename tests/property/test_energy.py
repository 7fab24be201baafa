"""The bounds of energy against a GPU whose power is known at every time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpline.derived.health.energy import COUNTER_AGE_NS, Meter
from warpline.ops.interval import union

MS = 1_000_000
SLICE_NS = 10 * MS
MOST_W = 1_400.0


@st.composite
def cases(draw: st.DrawFn) -> tuple[Meter, np.ndarray, np.ndarray, np.ndarray]:
    """Return readings, the true energy at each slice, and spans between the readings."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    slices = int(rng.integers(50, 400))
    power = rng.uniform(0, MOST_W, slices) * (rng.random(slices) < rng.random())
    true_j = np.concatenate(([0.0], np.cumsum(power * SLICE_NS / 1e9)))
    time_ns = np.arange(slices + 1) * SLICE_NS
    at_ns = np.unique(rng.integers(COUNTER_AGE_NS, time_ns[-1], int(rng.integers(2, 30))))
    at_ns = at_ns if len(at_ns) > 1 else np.array([COUNTER_AGE_NS, time_ns[-1]])
    # The counter shows the energy at its last update.
    age_ns = rng.integers(0, COUNTER_AGE_NS + 1, len(at_ns))
    shown = np.maximum.accumulate(np.interp(at_ns - age_ns, time_ns, true_j))
    edges = rng.integers(at_ns[0], at_ns[-1] + 1, (int(rng.integers(1, 40)), 2))
    edges.sort(axis=1)
    meter = Meter(at_ns, np.diff(shown), COUNTER_AGE_NS, is_counter=True, most_w=MOST_W)
    return meter, true_j, edges[:, 0], edges[:, 1]


@settings(max_examples=300, deadline=None)
@given(cases())
def test_the_true_energy_is_within_the_bounds(
    case: tuple[Meter, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    meter, true_j, start, end = case
    time_ns = np.arange(len(true_j)) * SLICE_NS
    spans = union(start, end)
    truth = float(np.diff(np.interp(np.array(spans), time_ns, true_j), axis=0).sum())
    used = meter.used(start, end)
    assert used.low <= used.central <= used.high
    assert used.low - 1e-6 <= truth <= used.high + 1e-6


@settings(max_examples=100, deadline=None)
@given(cases())
def test_parts_of_the_time_share_its_energy(
    case: tuple[Meter, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    meter, _, start, end = case
    spans = union(start, end)
    first, last = meter.at_ns[[0, -1]]
    gaps = np.append(first, spans.end), np.append(spans.start, last)
    together = meter.used(*spans).central + meter.used(*gaps).central
    assert np.isclose(together, meter.joules.sum())
