"""The plots: what they show, that their marks lead to events, and that they fit."""

from __future__ import annotations

import re
from itertools import product

import pytest
from support import browsing, plain_sums

import warpline

pytestmark = pytest.mark.shows("nsys/host_sync.bad")

TOPICS = ("Steps", "Kernels", "Launches", "Memory", "Copies", "Ranks", "Communication")


def topic(viewer, name):
    viewer.page.locator(".plots > nav button", has_text=name).click()
    viewer.find(f".plots > nav button[aria-current=page]:has-text('{name}')").wait_for()


def plot(viewer, title):
    found = viewer.page.locator("figure.plot", has=viewer.page.get_by_role("heading", name=title))
    found.first.wait_for()
    return found.first


def said(figure):
    return figure.locator(".plot-said").inner_text()


def rows_of(trace, table):
    result = warpline.stats(trace, table)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


def test_a_step_leads_to_its_time_on_the_gpu(show, trace):
    viewer = show("#p")
    figure = plot(viewer, "Step times")
    chart = figure.locator("svg")
    chart.focus()
    steps = rows_of(trace, "rank_steps")
    for step in steps[:3]:
        chart.press("ArrowRight")
        viewer.frame()
        assert said(figure).startswith(f"{step['step']}: ")
    chart.press("Enter")
    viewer.wait("model.page.value === 'timeline'")
    start, end = viewer.view
    origin = int(viewer.head["offset_ns"])
    assert start <= steps[2]["start_ns"] - origin
    assert end >= steps[2]["end_ns"] - origin
    assert end - start < 1.2 * steps[2]["device_ns"]


def test_the_bars_of_a_kernel_lead_to_its_longest(show, trace):
    viewer = show("#p")
    topic(viewer, "Kernels")
    figure = plot(viewer, "Distribution of kernel times")
    table = rows_of(trace, "kernel_durations")
    names = list(dict.fromkeys(row["name"] for row in table))
    assert len(viewer.page.locator(".kernel-choice option").all()) == len(names)
    viewer.page.locator(".kernel-choice").select_option(names[1])
    own = [row for row in table if row["name"] == names[1]]
    count = sum(row["instances"] for row in own)
    figure.get_by_text(f"{count:,} kernels").wait_for()
    box = figure.locator("svg").bounding_box()
    viewer.page.mouse.move(box["x"] + 66 + 3, box["y"] + 140)
    viewer.frame()
    assert f"{own[0]['instances']:,} of {count:,}" in said(figure)
    viewer.page.mouse.click(box["x"] + 66 + 3, box["y"] + 140)
    viewer.wait("model.selected.value !== null")
    assert viewer.page.evaluate("window.warpline.model.selected.value.id") == own[0]["event"]


def test_plots_fit_the_page(show):
    viewer = show("#p")
    for theme, width, name in product(("dark", "light"), (390, 1440), TOPICS):
        viewer.page.emulate_media(color_scheme=theme)
        viewer.page.set_viewport_size({"width": width, "height": 900})
        topic(viewer, name)
        viewer.frame()
        room = viewer.page.evaluate("document.querySelector('.plots-body').scrollWidth")
        assert room <= width
        for text in viewer.page.locator("figure.plot svg .tick").all_text_contents():
            assert "NaN" not in text
            assert "undefined" not in text


def test_a_topic_without_data_says_so(show):
    viewer = show("#p")
    topic(viewer, "Communication")
    viewer.page.get_by_text(
        "No data for collective_sizes: the trace contains no collectives of several ranks."
    ).wait_for()
    topic(viewer, "Ranks")
    viewer.page.get_by_text("the recording has one rank").wait_for()


def test_chosen_steps_have_their_plots_and_links(viewer, recording, tmp_path):
    path = tmp_path / "chosen.html"
    trace = warpline.open(recording("nsys/host_sync.bad"))
    warpline.report(trace, path, steps="forward")
    viewer.open(path, "#o")
    viewer.find(".wl-card:has-text('median step time') button").click()
    viewer.wait("model.page.value === 'tables' && model.table.value === 'steps:name=forward'")
    viewer.press("5")
    assert plot(viewer, "Step times").locator("path.bars").count()
    assert plot(viewer, "Idle time per step").locator("path.bars").count()


def test_plots_have_the_clock_of_the_timeline(viewer, report, recording):
    """A recording with events before time 0."""
    name = "nsys/rich_metrics_sampling"
    viewer.open(report(name), "#p")
    assert viewer.head["start_ns"] < -100e6
    topic(viewer, "Copies")
    figure = plot(viewer, "Copied bytes by direction")
    figure.locator("svg").focus()
    figure.locator("svg").press("ArrowRight")
    viewer.frame()
    copies = rows_of(warpline.open(recording(name)), "copy_rates")
    assert float(said(figure).split(" ms to ")[0]) == pytest.approx(
        copies[0]["start_ns"] / 1e6, abs=0.01
    )
    figure.locator("svg").press("Enter")
    viewer.wait("model.selected.value !== null")
    shown = viewer.find("[aria-label='Selected event'] dt:text-is('Start') + dd").inner_text()
    assert float(shown.split(" ms")[0]) * 1e6 < copies[0]["end_ns"]


def test_ranks_and_their_waits(viewer, report, recording):
    names = [f"nsys/ddp_serial.bad.rank{rank}" for rank in (0, 1)]
    viewer.open(report(*names), "#p")
    topic(viewer, "Ranks")
    steps = rows_of(warpline.open([recording(name) for name in names]), "rank_steps")
    viewer.page.get_by_text("The others wait for rank 1 most: 50.4 ms").wait_for()
    for title, column in (
        ("Step time by rank and step", "device_ns"),
        ("Delay behind the fastest rank", "behind_ns"),
        ("Waits for other ranks", "wait_ns"),
    ):
        heat = plot(viewer, title)
        known = [row for row in steps if row[column] is not None]
        assert heat.locator(".heat-cell").count() == len(known) == 10
        for number, row in list(enumerate(known))[:: 9 if column != "wait_ns" else 1]:
            heat.locator(".heat-cell").nth(number).hover()
            viewer.frame()
            where, _, time = said(heat).partition(" · click")[0].rpartition(": ")
            assert where == f"rank {row['rank']}, {row['step']}"
            assert plain_sums.says(time, row[column])
    topic(viewer, "Communication")
    matrix = plot(viewer, "Waits of ranks for each other")
    matrix.locator(".heat-cell").first.click()
    viewer.wait("model.selected.value !== null")
    assert re.match(r"kernel:\d+$", viewer.page.evaluate("window.warpline.model.selected.value.id"))
    assert browsing.strangers(viewer.requests) == []
