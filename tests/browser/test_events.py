"""The table of events and the ways to extremes, compared with plain SQL."""

from __future__ import annotations

import re
import sqlite3
import statistics
from contextlib import closing

import pytest

pytestmark = pytest.mark.shows("nsys/host_sync.bad")

KERNELS = """
    SELECT k.start, k.end - k.start, value FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
    JOIN StringIds ON demangledName = id ORDER BY k.start"""
SPREAD = re.compile(r"([\d,]+) events? · min (.+) · median (.+) · max (.+)")


@pytest.fixture
def kernels(recording):
    """Start, duration and name of all kernels."""
    with closing(sqlite3.connect(recording("nsys/host_sync.bad"))) as database:
        return database.execute(KERNELS).fetchall()


@pytest.fixture
def events(show):
    """The events of stream 7 over the whole recording."""
    viewer = show("#t")
    rows = "model.recording.head.rows.flatMap((row, at) => row.kind === 'stream' ? [at] : [])"
    viewer.ask(f"(model.area.value = {{span: model.limits, rows: new Set({rows})}}) && 1")
    viewer.press("e")
    viewer.settle()
    viewer.find(".tab-body [role=status]").filter(has_text="median").wait_for()
    return viewer


def spread(viewer):
    found = SPREAD.fullmatch(viewer.find(".tab-body [role=status]").inner_text())
    assert found
    return found.groups()


def shown(ns):
    for size, unit in ((1e6, "ms"), (1e3, "us")):
        if ns >= size:
            value = ns / size
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{ns:g} ns"


def column(viewer, place):
    viewer.frame()
    cells = viewer.find(f".tab-body [role=row] > [role=cell]:nth-child({place})")
    return cells.all_inner_texts()


def test_the_spread_of_chosen_events_is_that_of_the_file(events, kernels):
    for name, least in (("CUDAFunctor_add", 0), ("vectorized_elementwise", 5_000), ("nvjet", 0)):
        ns = [length for _, length, full in kernels if name in full and length >= least]
        assert len(ns) > 10
        events.find("[aria-label='Filter events']").fill(f"{name} >{least}ns")
        events.frame()
        texts = (shown(min(ns)), shown(statistics.median(ns)), shown(max(ns)))
        assert spread(events) == (f"{len(ns):,}", *texts)
    events.find("[aria-label='Filter events']").fill("no such event")
    events.find(".tab-body [role=status]").filter(has_text="No events").wait_for()


def test_events_are_sorted_by_each_column(events, kernels):
    events.find("[aria-label='Filter events']").fill("nvjet")
    ns = sorted((length for _, length, full in kernels if "nvjet" in full), reverse=True)
    heading = events.find(".tab-body [role=columnheader] button").filter(has_text="Duration")
    heading.click()
    first = column(events, 5)
    assert len(first) > 5
    assert first == [shown(each) for each in ns[: len(first)]]
    heading.click()
    assert column(events, 5)[:5] == [shown(each) for each in ns[::-1][:5]]
    names = sorted({full for _, _, full in kernels if "nvjet" in full})
    events.find(".tab-body [role=columnheader] button").filter(has_text="Name").click()
    assert column(events, 1)[0] == names[0]
    events.find(".list [role=cell] button").first.click()
    events.wait("model.selected.value !== null")
    assert events.ask("model.fullNameOf(model.selected.value)") == names[0]


def test_names_have_their_spread(events, kernels):
    events.find("[role=tab]").filter(has_text="GPU operations").click()
    events.settle()
    events.find(".tab-body [role=cell]").filter(has_text="us").first.wait_for()
    ns: dict[str, list[int]] = {}
    for _, length, full in kernels:
        ns.setdefault(full, []).append(length)
    full = max(ns, key=lambda one: sum(ns[one]))
    line = events.find(".tab-body [role=row]").nth(1).locator("[role=cell]").all_inner_texts()
    each = ns[full]
    values = (statistics.mean(each), min(each), statistics.median(each), max(each))
    assert line[4:8] == [shown(value) for value in values]


def test_columns_are_resized_by_mouse_and_keys(events):
    edge = events.find(".tab-body [role=columnheader] .edge").first
    head = events.find(".tab-body [role=columnheader]")
    widths = [
        box["width"]
        for box in head.evaluate_all("all => all.map((e) => e.getBoundingClientRect())")
    ]
    box = edge.bounding_box()
    events.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    events.page.mouse.down()
    events.page.mouse.move(box["x"] - 120, box["y"] + 5, steps=4)
    events.page.mouse.up()
    events.frame()
    after = [
        box["width"]
        for box in head.evaluate_all("all => all.map((e) => e.getBoundingClientRect())")
    ]
    assert after[0] == pytest.approx(widths[0] - 120, abs=12)
    assert after[1:] == pytest.approx(widths[1:], abs=1)
    cells = events.find(".tab-body [role=row]").nth(2).locator("[role=cell]")
    assert cells.first.bounding_box()["width"] == pytest.approx(after[0], abs=1)
    head.first.get_by_role("button").focus()
    events.page.keyboard.press("Shift+ArrowRight")
    events.frame()
    assert head.first.bounding_box()["width"] == pytest.approx(after[0] + 16, abs=1)
    edge.dblclick()
    events.frame()
    assert head.first.bounding_box()["width"] == pytest.approx(widths[0], abs=1)


def test_keys_lead_to_the_longest_kernel_and_gap_and_the_slowest_step(show, kernels):
    viewer = show("#o")
    viewer.press("x", "k")
    viewer.wait("model.selected.value !== null")
    start, length, full = max(kernels, key=lambda one: (one[1], -one[0]))
    found = viewer.ask("({...model.selected.value})")
    assert (found["start"], found["end"] - found["start"]) == (start, length)
    assert viewer.ask("model.fullNameOf(model.selected.value)") == full
    view_start, view_end = viewer.view
    assert view_start < start < start + length < view_end
    viewer.press("x", "i")
    viewer.wait("model.selected.value.id.startsWith('gpu0/state#')")
    found = viewer.ask("({...model.selected.value})")
    idle = viewer.ask(
        "(({ count, busy, before }) => Math.max(...Array.from({ length: count }, (_, i) =>"
        " i > 0 && i < count - 1 && busy[i + 1] === busy[i] ? before[i + 1] - before[i] : 0))"
        ")(model.recording.rows[model.recording.rowOf.get('gpu0/state')].events)"
    )
    assert found["end"] - found["start"] == idle
    (steps,) = viewer.head["steps"]
    lengths = [
        (end - begin, -at)
        for at, (begin, end) in enumerate(zip(steps["start_ns"], steps["end_ns"], strict=True))
        if not steps["excluded"][at]
    ]
    slowest = -max(lengths)[1]
    viewer.press("x", "s")
    viewer.wait(f"model.step.value === {slowest} && model.area.value !== null")
    assert viewer.area == (steps["start_ns"][slowest], steps["end_ns"][slowest])
    assert viewer.selected == f"gpu0/steps#{slowest}"


def test_the_longest_of_the_selected_area(events, kernels):
    middle = kernels[len(kernels) // 2][0]
    events.ask(
        f"(model.area.value = {{span: {{start: {middle}, end: {middle} + 2e6}}, rows: null}}) && 1"
    )
    inside = [one for one in kernels if one[0] < middle + 2e6 and one[0] + one[1] > middle]
    events.press("Control+k")
    events.page.keyboard.type("longest kernel")
    events.page.keyboard.press("Enter")
    events.wait("model.selected.value !== null")
    found = events.ask("({...model.selected.value})")
    assert found["end"] - found["start"] == max(length for _, length, _ in inside)
    assert "in the selected area" in events.ask("model.told.value")
