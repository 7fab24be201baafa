"""Other navigation: the palette, shortcuts for pages, and the links of the overview."""

from __future__ import annotations

import re

import pytest

import warpline

pytestmark = pytest.mark.shows("nsys/host_sync.bad")


def choose(viewer, typed):
    """Open the palette, type, and run the first command; return its text."""
    viewer.press("Control+k")
    viewer.wait("document.activeElement.getAttribute('role') === 'combobox'")
    viewer.page.keyboard.type(typed)
    viewer.frame()
    first = viewer.find(".palette [role=option][aria-selected=true]").inner_text()
    viewer.press("Enter")
    viewer.find(".palette").wait_for(state="detached")
    return " ".join(first.split())


def test_the_palette_leads_to_tables_rows_findings_and_actions(opened):
    assert "CUDA API summary" in choose(opened, "cuda_api_sum")
    opened.wait("model.page.value === 'tables'")
    assert opened.find(".tables-body h2").inner_text() == "CUDA API summary"
    assert choose(opened, "finding F1").startswith("Finding")
    opened.wait("model.finding.value === 'F1' && model.page.value === 'timeline'")
    choose(opened, "show the whole recording")
    opened.wait("model.view.value.start === model.limits.start")
    start, end = opened.view
    choose(opened, "zoom in fast")
    assert opened.view[1] - opened.view[0] == pytest.approx(0.25 * (end - start))
    hidden = opened.find(".row-label[data-row='gpu0/memory']")
    hidden.get_by_role("button", name="Hide").click()
    hidden.wait_for(state="detached")
    assert "memory" in choose(opened, "go to driver memory")
    hidden.wait_for()


def test_escape_leaves_the_palette_and_nothing_else(opened):
    opened.press("n")
    opened.wait("model.selected.value !== null")
    before = opened.selected
    opened.press("Control+k")
    opened.wait("document.activeElement.getAttribute('role') === 'combobox'")
    opened.page.keyboard.type("zzzz")
    opened.frame()
    assert "No matches" in opened.find(".palette").inner_text()
    opened.press("Enter", "Escape")
    opened.find(".palette").wait_for(state="detached")
    assert opened.selected == before


def test_g_and_a_letter_turn_the_page(opened):
    pages = {"go": "overview", "gt": "timeline", "gl": "tables", "ge": "environment"}
    for keys, page in pages.items():
        opened.press("4" if page != "environment" else "3")
        opened.press(*keys)
        assert opened.ask("model.page.value") == page
        current = opened.find("nav[aria-label=Pages] [aria-current=page]").inner_text()
        assert current.lower() == page


def test_single_keys_can_be_turned_off(opened):
    """WCAG 2.1.4: speech input presses keys by accident."""
    whole = opened.view
    opened.find("header.bar").get_by_role("button", name="Keyboard and mouse").click()
    opened.find("dialog[open] input[type=checkbox]").uncheck()
    opened.find("dialog[open]").get_by_role("button", name="Close").click()
    opened.press("w", "d", "n", "4")
    assert opened.view == whole
    assert opened.ask("model.page.value") == "timeline"
    choose(opened, "zoom in")  # the palette still works
    assert opened.view != whole


def test_the_help_names_what_the_keys_do(opened):
    opened.press("?")
    shown = opened.find("dialog[open]").inner_text()
    for text in ("Zoom in", "Next finding", "Follow the arrow back", "bookmark", "Copy a link"):
        assert text in shown
    opened.press("Escape")
    opened.find("dialog[open]").wait_for(state="detached")


def test_every_control_of_the_overview_leads_somewhere(show):
    viewer = show("#o")
    static = "#warpline-static"
    controls = viewer.find(
        f"{static} :is([data-finding], [data-event], [data-window], [data-table], [data-part])"
    )
    count = controls.count()
    assert count > 10
    for place in range(0, count, max(1, count // 12)):
        viewer.press("1")
        before = viewer.ask("JSON.stringify([model.page.value, model.address()])")
        controls.nth(place).dispatch_event("click")
        viewer.wait(f"JSON.stringify([model.page.value, model.address()]) !== {before!r}")
        assert viewer.ask("model.page.value") != "overview"


def test_a_part_of_the_step_lights_what_it_is_made_of(show, trace):
    viewer = show("#o")
    (breakdown,) = warpline.analyze(trace).breakdown
    part = max((one for one in breakdown.parts if one.kind == "idle"), key=lambda one: one.ns)
    viewer.find("#warpline-static").get_by_role("button", name=part.category).first.click()
    viewer.wait("model.page.value === 'timeline' && model.selected.value !== null")
    assert viewer.ask("model.nameOf(model.selected.value)") == part.category
    assert viewer.ask("model.mode.value") == "cause"
    assert viewer.walk(">").startswith("gpu0/state#")
    assert viewer.ask("model.nameOf(model.selected.value)") == part.category


def test_the_flame_graph_of_an_area_has_the_ranges_times(viewer, report, recording):
    viewer.open(report("bundled/pageable_h2d.bad"))
    trace = warpline.open(recording("bundled/pageable_h2d.bad"))
    columns = trace.columns("range", "start_ns", "end_ns", "name_id")
    lengths = (columns["end_ns"].values - columns["start_ns"].values).tolist()
    names = [trace.strings.text(name) for name in columns["name_id"].to_list()]
    viewer.press("0")
    viewer.find("#warpline-tab-flame").click()
    viewer.settle()
    for pattern in ("step_", "data", "forward"):
        own = [ns for ns, name in zip(lengths, names, strict=True) if name.startswith(pattern)]
        said = viewer.find(f".flame-box[aria-label^={pattern}]").get_attribute("aria-label")
        found = re.search(r"CPU time ([\d.]+) ms, .* (\d+) times$", said or "")
        assert found, said
        assert float(found[1]) == pytest.approx(sum(own) / 1e6, rel=6e-3)
        assert int(found[2]) == len(own) == 6
