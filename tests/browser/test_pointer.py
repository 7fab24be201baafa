"""What follows the mouse: time on the ruler, tooltips, values of counters, numbers of a drag."""

from __future__ import annotations

import re

import pytest
from support import browsing

import warpline

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")
FACTORS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(text):
    number, unit = text.split(" ")
    return float(number) * FACTORS[unit]


def point(viewer, row_id, part):
    """Point at a part of a row's width and return the time there."""
    x, y, width, height = viewer.row_box(row_id)
    viewer.page.mouse.move(x + part * width, y + height / 2)
    viewer.wait("model.pointed.value !== null")
    viewer.frame()
    start, end = viewer.view
    return start + part * (end - start)


def test_the_ruler_shows_the_time_under_the_mouse(opened):
    opened.press("0", "o")  # relative to the start of the recording
    for part in (0.03, 0.4, 0.97):
        time = point(opened, "gpu0/stream0", part)
        start, end = opened.view
        canvas = opened.find("canvas[role=application]").bounding_box()
        shown = nanoseconds(opened.find(".cursor-time").inner_text())
        assert shown == pytest.approx(time - opened.head["start_ns"], abs=2 * (end - start) / 1000)
        line, label = (opened.find(one).bounding_box() for one in (".cursor-line", ".cursor-time"))
        assert line["x"] == pytest.approx(canvas["x"] + part * canvas["width"], abs=1)
        assert (line["y"], line["height"]) == (canvas["y"], canvas["height"])  # over all rows
        assert (
            canvas["x"]
            <= label["x"]
            <= label["x"] + label["width"]
            <= canvas["x"] + canvas["width"]
        )
        opened.page.mouse.move(5, 5)
        opened.wait("model.pointed.value === null")
        opened.frame()
        assert opened.find(".cursor-line").count() == 0


def test_an_event_has_a_tooltip_inside_the_drawing_area(opened, ask_file):
    ((start, end, name),) = ask_file(
        "SELECT start, end, (SELECT value FROM StringIds WHERE id = demangledName)"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY end - start DESC LIMIT 1"
    )
    opened.page.evaluate(
        f"warpline.model.show({{ start: {start - 10 * (end - start)}, end: {end + 200} }})"
    )
    opened.frame()
    low, high = opened.view
    point(opened, "gpu0/stream0", ((start + end) / 2 - low) / (high - low))
    opened.find(".tooltip").wait_for()
    text = opened.find(".tooltip").inner_text()
    assert re.sub(r"\s", "", name)[:100] in re.sub(r"\s", "", text)
    assert f"{(end - start) / 1000:.0f} us" in text
    assert "stream" in text
    box, canvas = (
        opened.find(one).bounding_box() for one in (".tooltip", "canvas[role=application]")
    )
    assert box["x"] >= canvas["x"]
    assert box["x"] + box["width"] <= canvas["x"] + canvas["width"]
    assert box["y"] + box["height"] <= canvas["y"] + canvas["height"]


def test_a_drag_shows_its_length_and_busy_share_and_the_tables_follow(opened, ask_file):
    operations = ask_file(browsing.OPERATIONS)
    x, y, width, height = opened.row_box("gpu0/state")
    mouse = opened.page.mouse
    mouse.move(x + 0.3 * width, y + height / 2)
    mouse.down()
    for part in (0.4, 0.55):
        mouse.move(x + part * width, y + height / 2, steps=3)
        opened.wait("document.querySelector('.tooltip')?.textContent.includes('busy')")
        opened.settle()  # before the mouse is released
        start, end = opened.area
        share = 100 * browsing.busy_ns(operations, start, end) / (end - start)
        text = opened.find(".tooltip").inner_text()
        length, _, rest = text.partition("\n")
        assert nanoseconds(length) == pytest.approx(end - start, rel=0.006)
        assert f"{share:.1f}% busy" in rest
        busy = sum(
            nanoseconds(time) for _, time, _ in opened.table("Busy time by category").values()
        )
        assert busy == pytest.approx(browsing.busy_ns(operations, start, end), rel=0.01)
    mouse.up()
    opened.frame()
    assert "% busy" not in (opened.find(".cursor").inner_text())


@pytest.mark.shows("nsys/rich_metrics_sampling")
def test_a_counter_has_an_axis_and_the_value_under_the_mouse(viewer, report, recording):
    viewer.open(report("nsys/rich_metrics_sampling"))
    trace = warpline.open(recording("nsys/rich_metrics_sampling"))
    columns = trace.columns("counter", "time_ns", "metric_id", "value")
    times, metrics, values = (columns[key].values for key in columns)
    rows = [row for row in viewer.head["rows"] if row["sampled"] and (row["max"] or 0) > 0]
    row = next(one for one in rows if "%" in (one["title"] or ""))
    chosen = metrics == int(row["id"].rpartition("/")[2])
    viewer.page.evaluate(
        f"warpline.model.goToRow(warpline.model.recording.rowOf.get('{row['id']}'))"
    )
    viewer.frame()
    axis = viewer.find(f".row-label[data-row='{row['id']}'] .axis").inner_text().split("\n")
    assert axis == ["100%", "0%"]
    # One sample over many pixels: its value, without a mean.
    own = times[chosen]
    place = int(values[chosen].argmax())
    start, end = int(own[place]), int(own[place + 1])
    viewer.page.evaluate(
        f"warpline.model.show({{ start: {start - 3 * (end - start)}, end: {end} }})"
    )
    viewer.frame()
    point(viewer, row["id"], 0.9)
    viewer.find(".tooltip").wait_for()
    text = viewer.find(".tooltip").inner_text()
    assert text.split("\n")[0] == f"{values[chosen][place]:.1f}%"
    assert "mean" not in text
    assert row["label"] in text
