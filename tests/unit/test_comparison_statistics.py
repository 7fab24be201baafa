"""Statistics of step times, against published tables and simulations with fixed numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.comparison.statistics import (
    UNSEEN_SD,
    RatioEstimate,
    Spread,
    false_discovery,
    runs_needed,
    step_difference,
    step_ratio,
    student,
    verdict,
)
from warpline.comparison.statistics.blocks import block_length, block_mean

RNG = np.random.default_rng


@pytest.mark.parametrize(
    ("probability", "df", "expected"),
    [  # any printed table of Student's t
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 9, 2.262),
        (0.995, 9, 3.250),
        (0.95, 30, 1.697),
        (0.995, 120, 2.617),
        (0.975, float("inf"), 1.960),
    ],
)
def test_quantiles_are_those_of_the_tables(probability, df, expected):
    value = student.quantile(probability, df)
    assert value == pytest.approx(expected, abs=6e-4)
    assert student.two_sided_p(value, df) == pytest.approx(2 * (1 - probability))


def test_a_mean_of_independent_steps_has_the_usual_variance():
    found = [block_mean(RNG(seed).normal(100.0, 3.0, 400)).variance for seed in range(200)]
    assert np.mean(found) == pytest.approx(9.0 / 400, rel=0.05)


def test_steps_that_resemble_each_other_say_less():
    ratios = []
    for seed in range(100):
        noise = RNG(seed).normal(0.0, 1.0, 2000)
        steps = np.empty(2000)
        last = 0.0
        for place, value in enumerate(noise):
            last = steps[place] = 0.6 * last + value
        ratios.append(block_mean(100.0 + steps).variance * 2000 * (1 - 0.6) ** 2)
    # The variance of such a mean is that of the noise, divided by (1 - 0.6)**2 and the number.
    assert 0.8 < np.mean(ratios) < 1.05
    assert block_length(RNG(0).normal(0.0, 1.0, 2000)) < block_length(steps)


def _runs(seed, level, *, runs=10, steps=30, between=0.01, within=0.03):
    rng = RNG(seed)
    levels = level * np.exp(rng.normal(0.0, between, runs))
    return [own * np.exp(rng.normal(0.0, within, steps)) for own in levels]


def test_a_slowdown_is_found_and_nothing_is_not():
    before = _runs(1, 100.0)
    estimate = step_ratio(before, _runs(2, 105.0), paired=True)
    assert estimate.low < 1.05 < estimate.high
    assert estimate.sees_between_runs
    assert verdict(estimate) == "slower"
    assert verdict(step_ratio(_runs(2, 105.0), before)) == "faster"
    assert verdict(step_ratio(before, _runs(2, 100.0))) in {"same", "undecided"}
    assert verdict(step_ratio(before, _runs(2, 100.0, runs=60)), 0.03) == "same"


def test_pairs_cancel_what_their_runs_share():
    drift = np.linspace(1.0, 1.5, 8)
    before = [own * share for own, share in zip(_runs(3, 100.0, runs=8), drift, strict=True)]
    after = [own * share for own, share in zip(_runs(4, 104.0, runs=8), drift, strict=True)]
    assert verdict(step_ratio(before, after, paired=True)) == "slower"
    assert verdict(step_ratio(before, after)) == "undecided"


def test_one_run_on_each_side_says_that_it_does_not_see_other_runs():
    before, after = _runs(5, 100.0, runs=1), _runs(6, 103.0, runs=1)
    estimate = step_ratio(before, after)
    assert not estimate.sees_between_runs
    # Never narrower than two runs that vary by UNSEEN_SD.
    assert np.log(estimate.high / estimate.low) / 2 >= 1.96 * np.sqrt(2) * UNSEEN_SD
    assert verdict(estimate) == "undecided"
    assert verdict(step_ratio(before, _runs(6, 120.0, runs=1))) == "slower"


def test_one_step_on_each_side_shows_nothing():
    estimate = step_ratio([[10.0]], [[20.0]])
    assert (estimate.low, estimate.high, estimate.p) == (0.0, np.inf, 1.0)
    assert verdict(estimate) == "undecided"
    assert runs_needed(estimate) is None


def test_runs_that_agree_by_chance_are_as_uncertain_as_their_steps():
    steps = _runs(7, 100.0, runs=1)[0]
    estimate = step_ratio([steps, steps, steps], [steps * 1.001] * 3)
    assert estimate.p > 0.01


def test_several_runs_against_one_use_the_variation_of_the_several():
    before = _runs(8, 100.0, between=0.02)
    estimate = step_ratio(before, _runs(9, 101.0, runs=1))
    assert estimate.sees_between_runs
    assert estimate.spread.sd == pytest.approx(0.02, rel=0.5)


def test_a_difference_may_begin_at_zero():
    estimate = step_difference([[0.0, 0.0]] * 4, [[3.0, 3.1], [3.2, 3.0], [3.1, 3.0], [3.0, 3.2]])
    assert estimate.delta == pytest.approx(3.075)
    assert 2.9 < estimate.low < estimate.high < 3.3
    assert estimate.p < 1e-3


@pytest.mark.parametrize(
    ("before", "after", "paired", "message"),
    [
        ([], [[1.0]], False, "needs a run"),
        ([[1.0]], [[]], False, "each run a step"),
        ([[1.0], [1.0]], [[1.0]], True, "cannot be paired"),
        ([[0.0]], [[1.0]], False, "positive"),
    ],
)
def test_unfit_runs_are_refused(before, after, paired, message):
    with pytest.raises(ValueError, match=message):
        step_ratio(before, after, paired=paired)


_SIDE = st.lists(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=6), min_size=1, max_size=5)


@given(_SIDE, _SIDE, st.floats(0.001, 0.5))
def test_exchanging_the_sides_exchanges_the_verdict(before, after, tolerance):
    there, back = step_ratio(before, after), step_ratio(after, before)
    assert there.low <= there.ratio <= there.high
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert back.p == pytest.approx(there.p, rel=1e-6, abs=1e-12)
    swapped = {"faster": "slower", "slower": "faster"}
    decided = verdict(there, tolerance)
    if abs(abs(np.log(there.ratio)) - np.log1p(tolerance)) > 1e-9 and abs(there.p - 0.01) > 1e-9:
        assert verdict(back, tolerance) == swapped.get(decided, decided)


@given(_SIDE, _SIDE, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(before, after, unit):
    there = step_ratio(before, after)
    scaled = [[[step * unit for step in run] for run in side] for side in (before, after)]
    other = step_ratio(*scaled)
    assert other.ratio == pytest.approx(there.ratio)
    assert other.low == pytest.approx(there.low, rel=1e-4)


def test_the_number_of_runs_that_is_needed_decides():
    decided = 0
    for seed in range(200):
        estimate = RatioEstimate(1.03, 0.0, 9.0, 1.0, True, Spread((3, 3), True, 0.01, 2.0))
        runs = runs_needed(estimate)
        assert runs is not None
        assert 2 < runs < 10
        rng = RNG(seed)
        before = np.full(runs, 100.0)
        after = 103.0 * np.exp(rng.normal(0.0, 0.01, runs))
        found = step_ratio([*before[:, None]], [*after[:, None]], paired=True)
        decided += verdict(found) == "slower"
    assert decided > 150  # 80% are promised


@pytest.mark.parametrize(
    ("ratio", "sd", "runs"), [(1.02, 0.01, None), (1.0, 0.0, 2), (1.0, float("inf"), None)]
)
def test_the_number_of_runs_at_the_edges(ratio, sd, runs):
    estimate = RatioEstimate(ratio, 0.0, 9.0, 1.0, True, Spread((3, 3), True, sd, 2.0))
    assert runs_needed(estimate) == runs


def test_false_discoveries_are_limited():
    p = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216]
    assert false_discovery(p, 0.05).tolist() == [True] * 2 + [False] * 8
    assert false_discovery(p, 0.25).all()
    assert false_discovery([], 0.05).tolist() == []
    shares = []
    for seed in range(200):
        noise = RNG(seed).uniform(size=90)
        shown = false_discovery(np.concatenate((noise, np.full(10, 1e-6))), 0.1)
        shares.append(shown[:90].sum() / shown.sum())
    assert np.mean(shares) < 0.1


def _flagged(trials, runs, slowdown, *, paired):
    """Return how many of resampled pairs of sides are called slower or faster."""
    rng, found = RNG(runs), 0
    for _ in range(trials):
        levels = np.exp(rng.normal(0.0, rng.choice([0.0, 0.003, 0.01]), 2 * runs))
        made = []
        for level in levels.tolist():
            noise = rng.normal(0.0, 0.02, 30)
            noise[1:] += 0.6 * noise[:-1]  # successive steps resemble each other
            noise += (rng.random(30) < 0.02) * rng.exponential(0.3, 30)  # outliers
            made.append(level * np.exp(noise))
        before, after = made[:runs], [steps * (1.0 + slowdown) for steps in made[runs:]]
        found += verdict(step_ratio(before, after, paired=paired)) in {"faster", "slower"}
    return found


@pytest.mark.parametrize(("runs", "paired"), [(1, False), (3, True), (5, False), (10, True)])
def test_runs_of_one_program_are_hardly_ever_called_different(runs, paired):
    assert _flagged(300, runs, 0.0, paired=paired) <= 3  # 1%; benchmarks/compare measures more


def test_a_slowdown_of_five_percent_is_found_in_ten_pairs():
    assert _flagged(60, 10, 0.05, paired=True) >= 54  # 90%
