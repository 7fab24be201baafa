"""Sampled metrics, and the state of GPUs and machine, as rows of the page."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from support import sampled
from support.health import MS
from support.viewer_container import Decoded

from warpline.derived.metrics.series import metric_series
from warpline.viewer import sample_groups
from warpline.viewer.axes import axis_max, round_up
from warpline.viewer.pack import report_bytes
from warpline.viewer.rows import Events, Row

from .conftest import packed


@pytest.fixture(scope="module")
def trace():
    return sampled.sampled(hz=2_000, steps=4)


@pytest.fixture(scope="module")
def whole(trace):
    return packed(trace)[1]


@pytest.fixture(scope="module")
def page(whole):
    return decoded(whole)


def decoded(container):
    return Decoded(container.head, [block.data for block in container.blocks])


def rows_under(page, parent):
    return {
        row["title"] or row["label"]: row for row in page.head["rows"] if row["parent"] == parent
    }


def has_value(event):
    return event.value is not None and not math.isnan(event.value)


def held(page, row):
    """Return start, end and value of each sample that has one."""
    events = page.events(row["id"])
    return [
        (one.start_ns, other.start_ns, one.value)
        for one, other in itertools.pairwise(events)
        if has_value(one)
    ]


def test_groups_are_folded_and_below_their_gpu(page):
    groups = {row["id"]: row for row in page.head["rows"] if row["kind"] == "group"}
    for group, parent in (("gpu0/metrics", "gpu0"), ("gpu0/health", "gpu0"), ("machine", None)):
        assert groups[group]["collapsed"]
        assert groups[group]["parent"] == parent
    rows = page.head["rows"]
    assert [row["id"] for row in rows if row["parent"] is None] == ["gpu0", "process0", "machine"]


def test_a_recording_without_samples_has_no_such_groups(read):
    page = read(sampled.program(2).program.trace())
    assert not [row["id"] for row in page.head["rows"] if row["collapsed"] or row["sampled"]]


def test_metrics_have_every_sample_and_gaps(trace, page):
    rows = rows_under(page, "gpu0/metrics")
    series = metric_series(trace)
    assert rows.keys() == {one.name for one in series}
    for one in series:
        row = rows[one.name]
        found = held(page, row)
        assert [start for start, _, _ in found] == one.start_ns.tolist()
        assert [end for _, end, _ in found] == one.end_ns.tolist()
        assert row["sampled"]
        assert not row["hidden"]
        assert row["max"] <= row["axis_max"]
        assert row["count"] == len(page.events(row["id"]))
    blocks = held(page, rows[sampled.METRICS[0].name])
    assert [
        (end, start) for (_, end, _), (start, _, _) in itertools.pairwise(blocks) if end < start
    ] == [sampled.GAP_NS]


def test_states_have_the_axes_of_the_gpu(page):
    rows = rows_under(page, "gpu0/health")
    assert (rows["SM clock"]["axis_max"], rows["SM clock"]["unit"]) == (sampled.HIGHEST_HZ, "hz")
    assert (rows["power"]["axis_max"], rows["power"]["unit"]) == (sampled.POWER_LIMIT_W, "w")
    assert rows["memory in use"]["axis_max"] == sampled.MEMORY
    assert rows["temperature"]["axis_max"] == 60
    limits = [
        (e.start_ns // MS, e.end_ns // MS, e.name) for e in page.events("gpu0/health/clock_limits")
    ]
    assert limits == [(1_200, limits[0][1], "SW power cap: the GPU is at its power limit")]
    assert rows["clock limits"]["kind"] == "limit"


def test_errors_are_marks(page):
    (error,) = page.events("gpu0/health/errors")
    assert (error.start_ns, error.end_ns, error.name, error.category) == (
        sampled.ERROR_NS,
        sampled.ERROR_NS,
        "Xid 63",
        "gpu-error",
    )


def test_the_machine_and_its_processes(page):
    rows = rows_under(page, "machine")
    assert [*rows][:3] == ["CPU cores in use", "memory in use", "read from disks"]
    assert "CPU cores in use: process 1" in rows
    assert rows["memory in use"]["axis_max"] == 256 << 30


@pytest.mark.parametrize(
    ("highest", "natural", "unit", "expected"),
    [
        (61.2, None, "c", 80),
        (59.9, None, "c", 60),
        (0.0, None, "none", 1),
        (3.5e9, None, "bytes_per_s", 4e9),
        (3.5 * 2**30, None, "bytes", 4 * 2**30),
        (1_010 * 2**20, None, "bytes", 2**30),
        (650.0, 700.0, "w", 700),
        (721.0, 700.0, "w", 800),
        (1.0, 100.0, "percent", 100),
        (1.02, 1.0, "ratio", 1),
        (1.2, 1.0, "ratio", 1.5),
        (1.2, 192.0, "none", 1.5),
        (-3.0, None, "none", 1),
    ],
)
def test_axes_end_at_what_is_natural_or_round(highest, natural, unit, expected):
    assert axis_max(highest, natural, unit) == expected


def test_a_round_number_is_never_below_the_value():
    for value in np.random.default_rng(1).lognormal(0, 9, 2_000).tolist():
        for unit in ("bytes", "w"):
            assert value * (1 - 1e-9) <= round_up(value, unit) <= 2 * value


def test_a_page_with_too_many_samples_has_their_means_and_ranges(trace, page, monkeypatch):
    every = page
    monkeypatch.setattr(sample_groups, "JOIN_FROM", 10_000)
    monkeypatch.setattr(sample_groups, "_JOINED", 4_000)
    monkeypatch.setattr(sample_groups, "_LEAST_JOINED", 400)
    page = decoded(packed(trace)[1])
    joined = 0
    for row_id, row in page.rows.items():
        if not row["sampled"]:
            continue
        whole, kept = every.events(row_id), page.events(row_id)
        assert row["count"] == len(whole)
        assert len(kept) <= 500
        check_groups(page, row, whole, kept)
        joined += len(kept) < len(whole)
    assert joined == len(sampled.METRICS)
    assert page.head["thinned"] is None  # no event was omitted


def test_the_complete_time_ranges_keep_their_samples():
    start = np.arange(0, 100_000, 10)
    value = np.sin(start / 500.0)
    value[4_000] = np.nan
    name = np.zeros(len(start), np.int64)
    events = Events(start, np.append(start[1:], start[-1:]), name, value=value)
    row = Row("c", None, "c", "counter", is_sampled=True, events=events)
    window = (np.array([20_000]), np.array([21_000]))
    few = sample_groups.fewer(row, 500, window)
    starts = few.events.start_ns
    assert few.recorded == len(start)
    assert len(starts) <= 510
    inside = starts[(starts >= 20_000) & (starts < 21_000)]
    assert inside.tolist() == list(range(20_000, 21_000, 10))
    assert 21_000 in starts  # what follows is not joined to them
    assert {40_000, 40_010} <= set(starts.tolist())  # nor across a gap
    # If they alone are too many, they are joined as well.
    everything = (np.array([0]), np.array([100_000]))
    assert len(sample_groups.fewer(row, 500, everything).events) <= 510


def check_groups(page, row, whole, kept):
    """Compare each joined sample with those that it stands for."""
    columns = [page.columns(part) for part in row["parts"]]
    least, most = (
        [value for part in columns for value in part.get(name, part["value"])]
        for name in ("least", "most")
    )
    starts = np.array([each.start_ns for each in whole])
    values = np.array([math.nan if each.value is None else each.value for each in whole])
    lengths = np.append(np.diff(starts), 0)
    edges = np.searchsorted(starts, [each.start_ns for each in kept]).tolist()
    assert starts[edges].tolist() == [each.start_ns for each in kept]
    for place, (low, high) in enumerate(itertools.pairwise([*edges, len(whole)])):
        own = values[low:high]
        if np.isnan(own).any():
            assert len(own) == 1
            assert not has_value(kept[place])
            continue
        mean = (own * lengths[low:high]).sum() / lengths[low:high].sum()
        assert kept[place].value == pytest.approx(mean, rel=1e-6)
        assert least[place] == pytest.approx(own.min(), rel=1e-6)
        assert most[place] == pytest.approx(own.max(), rel=1e-6)


def test_a_small_report_joins_samples_and_says_so(trace, whole, page):
    small = packed(trace, max_bytes=report_bytes(whole) // 2)[1]
    assert report_bytes(small) <= report_bytes(whole) // 2
    found, less = decoded(small), 0
    for row_id, row in found.rows.items():
        if row["sampled"]:
            check_groups(found, row, page.events(row_id), found.events(row_id))
            less += len(found.events(row_id)) < row["count"]
    assert less >= len(sampled.METRICS)
    thinned = small.head["thinned"]
    assert thinned is None or "means and ranges" in thinned["text"]
