"""Change points of many runs."""

import numpy as np
import pytest

import warpline
from warpline.comparison import limits
from warpline.comparison.summary import timed
from warpline.comparison.trend import trend
from warpline.lazy import lazy

STEP = limits.parse_metric("step")


def series(values):
    return [(f"{n:04}.json", timed(f"commit {n}", [value])) for n, value in enumerate(values)]


def changes(values):
    pytest.importorskip("ruptures")
    return trend(series(values), STEP).changes


def noise(seed, count, sd=0.01):
    return 1e8 * np.random.default_rng(seed).normal(1.0, sd, count)


def test_a_lasting_change_is_found_where_it_begins():
    values = noise(1, 60)
    values[40:] *= 1.06
    (found,) = changes(values)
    assert abs(found.index - 40) <= 1
    assert found.file == f"{found.index:04}.json"
    assert found.low < 1.06 < found.high


def test_two_changes_make_three_segments():
    values = noise(2, 90)
    values[30:60] *= 1.08
    found = changes(values)
    assert [item.ratio > 1 for item in found] == [True, False]
    points = trend(series(values), STEP).points
    assert [points[place].segment for place in (0, 45, 89)] == [0, 1, 2]


def test_an_outlier_is_no_change_and_hides_none():
    values = noise(3, 60)
    values[20] *= 2.0
    assert not changes(values)
    values[40:] *= 1.06
    assert [abs(item.index - 40) <= 1 for item in changes(values)] == [True]


def test_changes_within_the_tolerance_do_not_count():
    values = noise(4, 100, sd=0.001)
    values[50:] *= 1.01
    assert not changes(values)
    assert len(trend(series(values), STEP, tolerance=0.005).changes) == 1


def test_without_a_change_hardly_any_is_found():
    found = sum(bool(changes(noise(seed, 40, sd=0.02))) for seed in range(200))
    assert found <= 4  # 2%


def test_series_that_repeat_exactly():
    assert not changes(np.full(20, 1e8))
    values = np.full(20, 1e8)
    values[10:] = 1.5e8
    assert [item.index for item in changes(values)] == [10]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_points_have_no_change(count):
    assert not trend(series(1e8 * np.arange(1, count + 1)), STEP).changes


def test_files_are_ordered_by_time():
    late = ("late", timed("late", [1.0]))
    early = ("early", timed("early", [2.0]))
    assert [point.file for point in trend([late, early], STEP).points] == ["late", "early"]
    dated = [
        (name, type(side)(**{**vars(side), "recorded_utc": when}))
        for (name, side), when in ((late, "2026-02-01T00:00:00Z"), (early, "2026-01-01T00:00:00Z"))
    ]
    assert [point.file for point in trend(dated, STEP).points] == ["early", "late"]


def test_files_without_the_metric_are_left_out():
    with pytest.raises(warpline.UsageError, match="no file has memory-peak"):
        trend(series([1.0, 2.0]), limits.parse_metric("memory-peak"))


def test_the_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("warpline.comparison.trend.ruptures", lazy("absent_ruptures"))
    with pytest.raises(warpline.UsageError, match="ruptures") as caught:
        trend(series(noise(1, 20)), STEP)
    assert "warpline[trend]" in str(caught.value.hint)
