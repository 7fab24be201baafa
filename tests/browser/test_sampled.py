"""Sampled metrics and states on the timeline: folded at first, with axes, values, and means."""

from __future__ import annotations

import json

import pytest
from support import sampled
from support.browsing import COLOR_RULES, strangers, violations
from support.health import MS

import warpline
from warpline.cli import main
from warpline.derived.metrics.series import metric_series

GROUPS = ("gpu0/metrics", "gpu0/health", "machine")
HZ = 1_000
# Of what is recorded, in what is shown, by unit: percent, bytes of a sample, Hz.
SCALES = {"ratio": 0.01, "bytes_per_s": HZ, "hz": 1, "percent": 1}
SM_ACTIVE = sampled.METRICS[1].name


@pytest.fixture(scope="module")
def trace():
    return sampled.sampled(hz=HZ, steps=4)


@pytest.fixture(scope="module")
def page(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("sampled") / "sampled.html"
    warpline.report(trace, path)
    return path


@pytest.fixture
def opened(viewer, page):
    viewer.open(page)
    return viewer


def shown(viewer):
    rows = viewer.find(".row-label").evaluate_all("all => all.map(one => one.dataset.row)")
    return set(rows)


def row_of(viewer, title):
    return next(row for row in viewer.head["rows"] if title in (row["title"], row["label"]))


def select(viewer, start, end):
    area = f"{{ span: {{ start: {start}, end: {end} }}, rows: null }}"
    viewer.page.evaluate(f"() => {{ warpline.model.area.value = {area} }}")
    viewer.settle()
    viewer.wait("!document.querySelector('.tab-inside.pending')")


def test_three_short_headers_at_first(opened):
    assert shown(opened) & {row["id"] for row in opened.head["rows"] if row["sampled"]} == set()
    for group in GROUPS:
        label = opened.find(f".row-label[data-row='{group}']")
        assert label.locator(".fold").get_attribute("aria-expanded") == "false"
        assert opened.row_box(group)[3] <= 24


def test_the_keyboard_expands_a_group(opened):
    fold = opened.find(".row-label[data-row='gpu0/metrics'] .fold")
    fold.focus()
    opened.press("Enter")
    row = row_of(opened, SM_ACTIVE)
    assert row["id"] in shown(opened)
    label = opened.find(f".row-label[data-row='{row['id']}']")
    assert label.locator(".axis").inner_text().split("\n") == ["100%", "0%"]
    assert SM_ACTIVE in label.get_attribute("title")


def test_axe_objects_to_nothing(opened):
    opened.find(".row-label[data-row='gpu0/metrics'] .fold").click()
    opened.settle()
    for part in (".gutter", ".means"):
        assert violations(opened, part) == []
    opened.press("t")
    for part in (".gutter", ".means"):
        assert violations(opened, part, COLOR_RULES) == []


def mean(series, start, end):
    """Return the mean of a metric in a time range, sample by sample."""
    total = covered = 0.0
    samples = zip(series.start_ns.tolist(), series.end_ns.tolist(), series.value, strict=True)
    for low, high, value in samples:
        inside = max(0, min(high, end) - max(low, start))
        total += inside * value
        covered += inside
    return total / covered


def means_shown(viewer):
    rows = viewer.find(".means tr[data-row]").evaluate_all(
        "all => all.map(row => [row.dataset.row, row.dataset.low, row.dataset.high])"
    )
    return {row: (float(low), float(high)) for row, low, high in rows}


def test_a_selection_shows_the_means_of_the_metrics(opened, trace):
    for span in ((310 * MS, 420 * MS), (430_123_457, 431_987_654), None):
        steps = opened.head["steps"][0]
        start, end = span or (steps["start_ns"][2], steps["end_ns"][2])
        if span is None:  # a click on a step selects its time
            opened.click("gpu0/steps", (start + end) / 2)
            opened.wait(f"model.area.value?.span.start === {start}")
            opened.settle()
            opened.wait("!document.querySelector('.tab-inside.pending')")
        else:
            select(opened, start, end)
        found = means_shown(opened)
        for series in metric_series(trace):
            row = row_of(opened, series.name)
            low, high = found[row["id"]]
            expected = mean(series, start, end) * SCALES[row["unit"]]
            assert low == high == pytest.approx(expected, rel=1e-5)
        sm_active = next(one for one in metric_series(trace) if one.name == SM_ACTIVE)
        cells = opened.find(f".means tr[data-row='{row_of(opened, SM_ACTIVE)['id']}'] td.number")
        assert cells.first.inner_text() == f"{mean(sm_active, start, end):.1f}%"


def test_the_mouse_shows_value_unit_and_time_of_a_sample(opened, trace):
    row = row_of(opened, "power")
    opened.page.evaluate(
        f"() => warpline.model.goToRow(warpline.model.recording.rowOf.get('{row['id']}'))"
    )
    opened.page.evaluate("() => warpline.model.show({ start: 300e6, end: 400e6 })")
    opened.frame()
    x, y, width, height = opened.row_box(row["id"])
    opened.page.mouse.move(x + width / 2, y + height / 2)
    opened.find(".tooltip").wait_for()
    text = opened.find(".tooltip").inner_text()
    watts = trace["gpu_health"].filter(start_ns=300 * MS)["power_w"][0]
    assert text.split("\n")[0] == f"{watts:.0f} W"
    assert "100 ms from" in text


def test_joined_samples_are_named(viewer, trace, tmp_path):
    path = tmp_path / "small.html"
    whole = warpline.report(trace, tmp_path / "whole.html").stat().st_size
    warpline.report(trace, path, max_bytes=whole - 20_000)
    viewer.open(path)
    row = row_of(viewer, SM_ACTIVE)
    viewer.page.evaluate(
        f"() => warpline.model.goToRow(warpline.model.recording.rowOf.get('{row['id']}'))"
    )
    viewer.frame()
    title = viewer.find(f".row-label[data-row='{row['id']}']").get_attribute("title")
    assert "means with their range" in title
    viewer.settle()
    assert "means with their range" in viewer.find(".means p").first.inner_text()
    start, end = 310 * MS + 70_000, 420 * MS
    select(viewer, start, end)
    for series in metric_series(trace):
        row = row_of(viewer, series.name)
        low, high = means_shown(viewer)[row["id"]]
        exact = mean(series, start, end) * SCALES[row["unit"]]
        assert low * (1 - 1e-6) <= exact <= high * (1 + 1e-6)


def test_two_recordings_have_axes_in_common(viewer, tmp_path):
    files = [tmp_path / f"{name}.warpline" for name in ("before", "after")]
    warpline.export(sampled.sampled(hz=500, steps=4), files[0], "warpline")
    warpline.export(sampled.sampled(hz=500, steps=3), files[1], "warpline")
    path = tmp_path / "diff.html"
    assert main(["report", "--side-by-side", *map(str, files), "-o", str(path)]) == 0
    viewer.page.goto(path.as_uri())
    viewer.page.get_by_text("Timelines", exact=True).click()
    axes = []
    for frame in viewer.page.frames[1:]:
        viewer.wait_in(frame, "marks('warpline-full') > 0")
        frame.evaluate("() => { warpline.model.collapsed.value = new Set() }")
        viewer.frame()
        text = frame.evaluate(
            """() => JSON.stringify(Object.fromEntries(warpline.model.recording.head.rows
                .filter((row) => row.kind === "counter").map((row) => [row.id,
                warpline.model.axes.value.get(row.id) ?? row.axis_max])))"""
        )
        axes.append(json.loads(text))
    assert axes[0] == axes[1]
    assert len(axes[0]) > len(sampled.METRICS)
    assert strangers(viewer.requests) == []
