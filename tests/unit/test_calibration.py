"""Bounds of predictions: errors of measured pairs, and what is possible."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.programs import Program, rows

from warpline.estimate import Estimate, exactly
from warpline.replay import MEASURED, Calibration, predict
from warpline.replay.prediction import Baseline
from warpline.result.changes import RemoveHostTime, ScaleOperations
from warpline.result.savings import BOUNDS_TEXT
from warpline.trace import Run, Trace

NO_ERROR = Calibration(exactly(1), exactly(1), exactly(1))


def test_errors_never_make_a_saving_negative_or_longer_than_the_step() -> None:
    errors = NO_ERROR._replace(saved_odds=Estimate(0.01, 1, 100))
    for share in (0.001, 0.1, 0.5, 0.9, 0.999):
        low, central, high = errors.saving_ns(share * 1e6, 1e6)
        assert 0 < low < central < high < 1e6
        assert low / (1e6 - low) == pytest.approx(0.01 * central / (1e6 - central))
        assert high / (1e6 - high) == pytest.approx(100 * central / (1e6 - central))


def test_the_error_of_nothing_is_unknown() -> None:
    errors = NO_ERROR._replace(saved_odds=Estimate(0.5, 1, 2))
    for saving_ns in (-5.0, 0.0, 100.0, 130.0):
        assert errors.saving_ns(saving_ns, 100.0) == exactly(saving_ns)


def gaps() -> Trace:
    """Steps of 100 us: ten kernels of 4 us, launched every 10 us."""
    program = Program()
    for number in range(4):
        begin = number * 100_000
        for place in range(10):
            at = begin + place * 10_000
            program.launch(at, at + 3_000, (at + 3_500, at + 7_500))
        program.step(number, begin, begin + 99_000)
    return program.trace()


def shorter_gaps() -> RemoveHostTime:
    """2 us less between two launches."""
    starts = np.arange(40, dtype=np.int64) * 10_000 - 4_000
    return RemoveHostTime(0, starts, starts + 2_000)


def test_without_errors_there_are_no_bounds() -> None:
    found = predict(Run(gaps()), [shorter_gaps()], calibration=NO_ERROR)
    assert found.step_ns == exactly(80_000)
    assert found.saving_ns == exactly(20_000)
    assert found.saved_ratio == exactly(0.2)


def test_bounds_of_the_ratio_do_not_depend_on_the_speed_of_the_cpu() -> None:
    odds = NO_ERROR._replace(saved_odds=Estimate(0.5, 1, 2))
    also_speed = odds._replace(host_speed=Estimate(0.75, 1, 2))
    same = predict(Run(gaps()), [shorter_gaps()], calibration=odds)
    other = predict(Run(gaps()), [shorter_gaps()], calibration=also_speed)
    # One saved for four that remain: 0.5 or 2 for four.
    assert same.saved_ratio == other.saved_ratio
    assert same.saved_ratio == pytest.approx((0.5 / 4.5, 0.2, 2 / 6))
    assert same.step_ns == pytest.approx((100e3 * 4 / 6, 80e3, 100e3 * 4 / 4.5))
    of_same = [of / ns for of, ns in zip(other.step_ns, same.step_ns, strict=True)]
    assert of_same == pytest.approx([0.75, 1, 2])
    assert other.saving_ns.low == pytest.approx(0.75 * same.saving_ns.low)


def test_what_a_change_leaves_open_counts_where_that_is_more_than_errors() -> None:
    program = Program()
    for number in range(4):
        begin = number * 1_000_000
        program.launch(begin, begin + 3_000, (begin + 3_500, begin + 903_500))
        program.step(number, begin, begin + 990_000)
    trace = program.trace()
    change = ScaleOperations(rows(0, 1, 2, 3), Estimate(0.1, 0.5, 1.5))
    odds = NO_ERROR._replace(saved_odds=Estimate(0.9, 1, 1.1))
    found = predict(Run(trace), [change], calibration=odds)
    exact = predict(Run(trace), [change], calibration=NO_ERROR)
    assert found.step_ns == exact.step_ns
    assert found.step_ns.high > found.before_ns.central  # longer than without the fix
    assert found.saving_ns.low == found.saved_ratio.low == 0


def test_no_bound_is_below_the_kernels_that_remain() -> None:
    far = Calibration(Estimate(0.01, 1, 1), Estimate(0.9, 1, 1), Estimate(1, 1, 1e6))
    found = predict(Run(gaps()), [shorter_gaps()], calibration=far)
    assert found.step_ns.low == 0.9 * 10 * 4_000
    assert found.saving_ns.high == 100_000 - 10 * 4_000
    assert found.saved_ratio.high == 0.6


def test_no_bound_exceeds_the_most_that_a_rule_allows() -> None:
    far = NO_ERROR._replace(saved_odds=Estimate(1, 1, 1e6), host_speed=Estimate(1, 1, 3))
    baseline = Baseline(Run(gaps()), calibration=far)
    found = baseline.predict([shorter_gaps()], Estimate(5_000, 10_000, 25_000))
    assert found.saving_ns == Estimate(5_000, 10_000, 25_000)
    assert (found.step_ns.low, found.step_ns.central) == (75_000, 90_000)


def test_the_figures_are_those_of_the_measured_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmarks = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(benchmarks))
    from blind import calibrate

    folder = benchmarks / "blind" / "results"
    times = [calibrate.speeds(folder, files, 0.6, 1) for files in calibrate.SPEEDS.values()]
    low, high = np.quantile(np.concatenate(times), (0.1, 0.9))
    assert (low, high) == pytest.approx(
        (MEASURED.host_speed.low, MEASURED.host_speed.high), rel=0.05
    )
    sets = {name: calibrate.measured(folder, files) for name, files in calibrate.SETS.items()}
    earlier = json.loads((folder / "earlier.json").read_text())
    kinds = calibrate.all_odds(sets, earlier).values()
    odds = np.concatenate([values for kind in kinds for values in kind.values()])
    assert len(odds) == 47
    low, high = np.exp(np.quantile(np.log(odds), (0.1, 0.9)))
    assert (low, high) == pytest.approx(
        (MEASURED.saved_odds.low, MEASURED.saved_odds.high), rel=0.02
    )
    pairs = [pair for of_set in sets.values() for pair in of_set]
    steps, ratios = calibrate.inside(pairs, [calibrate.bounds(pair, MEASURED) for pair in pairs])
    assert (steps, ratios, len(pairs)) == (29, 22, 34)
    assert f"{len(pairs)} measured programs, they cover {steps}." in BOUNDS_TEXT
