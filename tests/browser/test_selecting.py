"""Statistics of an area compared with `warpline stats` and with plain sums over the file."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from support import browsing

import warpline
from warpline.presentation.kernel_names import short_names

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")
FACTORS = {"ns": 1, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(text):
    """Return a time from the page's text, and its rounding error."""
    found = re.fullmatch(r"([\d.,]+) ?(\w+)", text)
    assert found, text
    number, unit = found.groups()
    decimals = len(number.partition(".")[2])
    factor = FACTORS[unit]
    return pytest.approx(float(number.replace(",", "")) * factor, abs=factor * 10**-decimals)


def kernels_of_page(viewer):
    """Return count and time by name of the GPU operations except copies and memsets."""
    table = viewer.table("GPU operations by name")
    return {
        name: (int(count), nanoseconds(time))
        for name, (count, time, _) in table.items()
        if not name.startswith(("[CUDA", "Host-to-Device", "Device-to-"))
    }


def kernels_of_stats(trace):
    result = warpline.stats(trace, "cuda_gpu_kern_sum")
    columns = [field.name for field in result.fields]
    rows = [dict(zip(columns, row, strict=True)) for row in result.rows()]
    short = short_names(row["name"] for row in rows)
    return {short[row["name"]]: (row["instances"], row["total_ns"]) for row in rows}


@pytest.fixture
def operations(ask_file):
    """Start and end of every GPU operation, from the file itself."""
    return ask_file(browsing.OPERATIONS)


def select_step(viewer, place):
    """Select the time range of a step on the GPU."""
    (steps,) = viewer.head["steps"]
    viewer.click("gpu0/phase0", (steps["start_ns"][place] + steps["end_ns"][place]) / 2)
    viewer.press("r")
    viewer.wait("model.area.value !== null")
    viewer.settle()


def busy_of_page(viewer):
    (text,) = viewer.find("[data-busy-ns]").evaluate_all("all => all.map(e => e.dataset.busyNs)")
    return int(text)


@pytest.mark.parametrize("place", [0, 3])
def test_an_area_that_cuts_nothing_equals_stats(opened, trace, operations, place):
    select_step(opened, place)
    start, end = opened.area
    assert not [one for one in operations if one[0] < start < one[1] or one[0] < end < one[1]]
    expected = kernels_of_stats(trace.window(start, end))
    assert sum(count for count, _ in expected.values()) >= 20
    assert kernels_of_page(opened) == expected
    assert busy_of_page(opened) == browsing.busy_ns(operations, start, end)
    share = f"{100 * busy_of_page(opened) / (end - start):.1f}% of the selection busy"
    assert share in opened.find("[data-testid=selection-sums]").inner_text()


def test_idle_time_by_cause_equals_analyze(opened, trace):
    page: Counter[str] = Counter()
    counted = [place for place, out in enumerate(opened.head["steps"][0]["excluded"]) if not out]
    starts, ends = (opened.head["steps"][0][key] for key in ("start_ns", "end_ns"))
    for place in counted:
        opened.page.goto(f"{opened.page.url.partition('#')[0]}#t?a={starts[place]},{ends[place]}")
        opened.wait(f"model.area.value.span.end === {ends[place]}")
        opened.settle()
        for title in ("Idle time by cause", "Busy time by category"):
            for name, (_, time, _) in opened.table(title).items():
                page[name] += nanoseconds(time).expected
    (breakdown,) = warpline.analyze(trace).breakdown
    expected = {part.category: part.ns for part in breakdown.parts if part.ns}
    assert {name for name, time in expected.items() if time > 10_000} >= {"pageable-copy", "gemm"}
    assert page == {name: pytest.approx(time, rel=1e-3) for name, time in expected.items()}


def test_a_drag_selects_an_area_whose_sums_are_clipped(opened, operations):
    for left, right in ((0.31, 0.36), (0.2185, 0.2211), (0.05, 0.93)):
        x, y, width, height = opened.row_box("gpu0/state")
        below = opened.row_box("gpu0/stream0")
        whole = opened.view
        mouse = opened.page.mouse
        mouse.move(x + left * width, y + height / 2)
        mouse.down()
        mouse.move(x + right * width, below[1] + below[3] / 2, steps=4)
        mouse.up()
        opened.settle()
        pixel = (whole[1] - whole[0]) / width
        start, end = opened.area
        assert (start, end) == pytest.approx(
            tuple(whole[0] + part * width * pixel for part in (left, right)), abs=2 * pixel
        )
        inside = [one for one in operations if one[0] < end and one[1] > start]
        assert [
            one for one in inside if one[0] < start or one[1] > end
        ]  # the edges cut some events
        assert busy_of_page(opened) == browsing.busy_ns(operations, start, end)
        clipped = sum(min(last, end) - max(first, start) for first, last, _ in inside)
        work = opened.table("GPU operations by name")
        assert sum(int(count) for count, _, _ in work.values()) == len(inside)
        times = [nanoseconds(time).expected for _, time, _ in work.values()]
        assert sum(times) == pytest.approx(clipped, rel=2e-3)


def test_a_range_counts_once_and_its_time_on_the_gpu_apart(opened, ask_file):
    opened.press("0")
    opened.settle()
    ranges = ask_file("SELECT text, COUNT(*), SUM(end - start) FROM NVTX_EVENTS GROUP BY text")
    shown = opened.table("Ranges")
    for text, count, time in ranges:
        assert int(shown[text][0]) == count
        assert nanoseconds(shown[text][1]) == time
    forward = {text: count for text, count, _ in ranges}["forward"]
    assert int(opened.table("Ranges on the GPU")["forward"][0]) == forward


def test_only_the_rows_under_the_drag_are_summed(opened):
    x, y, width, height = opened.row_box("gpu0/stream0")
    opened.page.mouse.move(x + 0.3 * width, y + 2)
    opened.page.mouse.down()
    opened.page.mouse.move(x + 0.6 * width, y + height - 2, steps=4)
    opened.page.mouse.up()
    opened.settle()
    assert opened.find("[data-busy-ns]").count() == 0  # the state row is not selected
    assert "1 row " in opened.find("[data-testid=selection-sums]").inner_text()
    assert opened.table("GPU operations by name")
    assert not opened.table("Ranges")
    opened.press("Escape")
    opened.settle()
    assert opened.find("[data-busy-ns]").count() == 1
    assert opened.table("Ranges")


def test_a_step_is_selected_by_keys_alone(opened, trace):
    opened.find("canvas[role=application]").focus()
    opened.walk(".")  # the first event in view
    for _ in range(40):
        if opened.ask("model.recording.head.rows[model.selected.value.row].kind") == "range":
            break
        opened.walk("ArrowDown")
    opened.press("r")
    opened.settle()
    row = int(opened.selected.removeprefix("range:"))
    columns = trace.columns("range", "start_ns", "end_ns")
    start, end = opened.area
    assert (start, end) == (columns["start_ns"].values[row], columns["end_ns"].values[row])
    opened.press("f")
    assert opened.view[0] <= start < end <= opened.view[1]
    assert opened.view[1] - opened.view[0] < 3 * (end - start)
