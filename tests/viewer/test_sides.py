"""The page that compares two recordings, without a browser."""

from __future__ import annotations

import re

import pytest

import warpline
from warpline import api
from warpline.errors import UsageError
from warpline.viewer.sides import common_axes, first_view, step_dots


def steps(*spans, excluded=()):
    starts, ends = zip(*spans, strict=True)
    out = [place in excluded for place in range(len(spans))]
    return {"steps": [{"start_ns": starts, "end_ns": ends, "excluded": out}]}


def test_the_first_view_is_the_first_step_that_counts_on_both_sides():
    before = steps((0, 900), (1000, 1500), (1500, 2000), excluded=(0,))
    after = steps((50, 90), (100, 200), (300, 1300), excluded=(1,))
    assert first_view(before, after) == {"step": 2, "start": -20.0, "end": 1020.0}


@pytest.mark.parametrize("other", [{"steps": []}, steps((0, 5), excluded=(0,))])
def test_without_a_common_step_both_show_all(other):
    assert first_view(steps((0, 5), (5, 9)), other) is None


def head(*rows):
    keys = ("id", "parent", "label", "title", "kind", "axis_max")
    return {"rows": [dict(zip(keys, row, strict=True)) for row in rows]}


def test_counters_of_both_sides_have_one_axis():
    before = head(
        ("gpu0/metrics/3", "gpu0/metrics", "SM active", "sm__cycles", "counter", 100.0),
        ("gpu0/health/power", "gpu0/health", "power", None, "counter", 700.0),
        ("gpu0/state", "gpu0", "busy / idle", None, "state", None),
    )
    after = head(
        ("gpu0/metrics/9", "gpu0/metrics", "SM active", "sm__cycles", "counter", 40.0),
        ("gpu0/health/power", "gpu0/health", "power", None, "counter", 800.0),
        ("gpu1/health/power", "gpu1/health", "power", None, "counter", 900.0),
    )
    assert common_axes(before, after) == (
        {"gpu0/health/power": 800.0},
        {"gpu0/metrics/9": 100.0},
    )


def places(plot):
    return [float(place) for place in re.findall(r'cx="([0-9.]+)%"', plot)]


def test_dots_are_at_the_times_of_the_steps():
    plot = step_dots([100, 200], [150, 300])
    assert plot is not None
    assert places(plot) == pytest.approx([8, 53, 30.5, 98])


def test_many_steps_are_thinned_evenly_and_long_ones_clipped():
    plot = step_dots([float(1000 + ns) for ns in range(1000)], [1_000_000.0, 1500.0, 1500.0])
    assert plot is not None
    assert len(places(plot)) == 403
    assert "400 dots per side" in plot
    assert "1 longer step drawn at the right edge" in plot
    assert max(places(plot)) == 98


def test_no_steps_no_plot():
    assert step_dots([], [1.0]) is None


@pytest.fixture
def pair(repository):
    folder = repository / "src" / "warpline" / "data"
    return [folder / f"pageable_h2d.{name}.sqlite" for name in ("bad", "fixed")]


def test_a_size_that_cannot_be_met_is_an_error(pair):
    with pytest.raises(UsageError, match="the limit is"):
        api.make_side_by_side(*pair, max_bytes=100_000)


def test_each_side_is_a_complete_report_of_its_own(pair):
    content = "".join(api.make_side_by_side(*pair))
    assert content.count("srcdoc='") == 2
    assert warpline.compare(*pair).sentence in content


def test_hostile_names_stay_text(tmp_path, pair):
    hostile = tmp_path / "'><script>alert(1)<&.sqlite"
    hostile.write_bytes(pair[0].read_bytes())
    content = "".join(api.make_side_by_side(hostile, pair[1]))
    assert "<script>alert" not in content
