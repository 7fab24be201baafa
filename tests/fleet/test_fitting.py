"""Clocks: offset and drift by the ends of collectives, and which pairs they are."""

from __future__ import annotations

import numpy as np
import pytest

from warpline.fleet.fitting import line_between, pair
from warpline.ops.arrays import F64, I64


def ends(rng: np.random.Generator, count: int = 400) -> I64:
    """Return the ends of collectives: irregular, as steps vary."""
    steps = rng.integers(200_000, 5_000_000, count)
    found: I64 = np.cumsum(steps).astype(np.int64)
    found += 40_000_000
    return found


def on_clock(true: I64, rng: np.random.Generator, offset_ns: float, drift: float) -> I64:
    noise = np.abs(rng.normal(0, 400, len(true)))
    own: I64 = np.rint(true + offset_ns + drift * true + noise).astype(np.int64)
    return own


@pytest.mark.parametrize("offset_ns", [-50e6, -3e3, 0.0, 50e6])
@pytest.mark.parametrize("drift", [-1e-4, 0.0, 1e-4])
def test_offset_and_drift_are_found(offset_ns: float, drift: float) -> None:
    rng = np.random.default_rng(3)
    true = ends(rng)
    own = on_clock(true, rng, offset_ns, drift)
    found = pair(true, own)
    assert found is not None
    assert found.first.tolist() == found.second.tolist() == list(range(len(true)))
    predicted = own[0] + (true - true[0]) + found.line.at((true - true[0]).astype(float))
    assert np.abs(predicted - own).max() < 3_000
    assert found.line.drift == pytest.approx(drift, abs=1e-6)
    assert found.line.spread_ns < 1_500


@pytest.mark.parametrize("shift", [1, 37, -120])
def test_recordings_may_begin_at_different_collectives(shift: int) -> None:
    rng = np.random.default_rng(4)
    true = ends(rng)
    own = on_clock(true, rng, 20e6, 1e-4)
    first, second = (true, own[shift:]) if shift > 0 else (true[-shift:], own)
    found = pair(first, second)
    assert found is not None
    assert set((found.first - found.second).tolist()) == {shift}


def test_call_numbers_decide() -> None:
    rng = np.random.default_rng(5)
    true = ends(rng, 100)
    own = on_clock(true, rng, 1e6, 0.0)
    kept = np.flatnonzero(rng.random(100) < 0.7)
    found = pair(true, own[kept], (np.arange(100), kept))
    assert found is not None
    assert found.first.tolist() == kept.tolist()


def test_other_collectives_are_not_paired() -> None:
    rng = np.random.default_rng(6)
    assert pair(ends(rng), ends(rng)) is None
    assert pair(ends(rng)[:2], ends(rng)[:2]) is None


def test_equal_steps_are_ambiguous() -> None:
    regular = np.arange(200) * 1_000_000
    assert pair(regular, regular[:150] + 7_000_000) is None


def test_few_wrong_ends_do_not_move_the_line() -> None:
    time: F64 = np.asarray(np.arange(200) * 1e6, np.float64)
    ahead: F64 = np.asarray(5_000 + 1e-5 * time, np.float64)
    ahead[::20] += 40_000
    line = line_between(time, ahead)
    assert line is not None
    assert line.offset_ns == pytest.approx(5_000, abs=50)
    assert line.drift == pytest.approx(1e-5, abs=1e-6)
