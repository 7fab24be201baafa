"""The page of a fleet: its maps by pointer and keys, its colors, names, and no script."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.browsing import violations
from support.fleet_pages import PIXEL, show
from support.fleets import Meeting, simulate, summary

from warpline import api
from warpline.fleet.verdict import verdict_of

MS = 1_000_000
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"
LATE = 200  # of 300 ranks: two ranks share a row
LEFT, HIGH = 128, 5  # px: of the labels, and of a row of 150


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of 300 ranks, one of which is 2 ms late in each of 5 steps."""
    count = 300
    work = tuple(3 * MS if rank == LATE else MS for rank in range(count))
    recorded = simulate(count, [[Meeting("world", tuple(range(count)), work)]] * 5)
    ranks = [summary(rank, one, host=f"n{rank // 8}") for rank, one in enumerate(recorded)]
    ranks[8] = replace(ranks[8], identity=replace(ranks[8].identity, host=HOSTILE))
    path = tmp_path_factory.mktemp("fleet") / "fleet.html"
    made = api.make_fleet_report(verdict_of(HOSTILE, ranks), path.parent)
    path.write_text("".join(made.pieces), encoding="utf-8")
    return path


def test_pointer_and_keys_say_what_a_cell_is(viewer, page):
    show(viewer, page)
    canvas, said = viewer.find("#ranks"), viewer.find("#ranks-said")
    canvas.hover(position={"x": LEFT + 60, "y": LATE / 2 * HIGH + 2})
    assert "rank 200, n25, step 1: 3.05 ms, 2.00 ms more than the median" in said.inner_text()
    assert "rank 200, n25 to rank 201, n25" in said.inner_text()
    assert "all others wait 598 ms for it" in said.inner_text()
    canvas.focus()
    viewer.press("Escape", "ArrowDown", "ArrowDown", "ArrowRight", "End")
    assert said.inner_text().startswith("rank 2, n0, step 4: 1.05 ms")
    viewer.press("Escape")
    assert said.inner_text() == ""
    assert "A row is 2 ranks of 300" in viewer.find("#grid").inner_text()
    viewer.find("#waits").focus()
    viewer.press("ArrowDown", "End")
    assert "arrives last" in viewer.find("#waits-said").inner_text()


def test_the_late_rank_has_the_strongest_color_and_waits_the_least(viewer, page):
    show(viewer, page)
    row, other = LATE // 2 * HIGH + 2, 2
    assert viewer.page.evaluate(PIXEL, [LEFT + 5, row]) == [0xB8, 0x4A, 0x00]
    assert viewer.page.evaluate(PIXEL, [LEFT + 5, other]) == [0xEE, 0xF0, 0xF2]
    viewer.find("#measure").select_option("exposed")
    viewer.frame()
    assert viewer.page.evaluate(PIXEL, [LEFT + 5, row]) == [0x1F, 0x5F, 0xA8]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_objects_to_nothing(open_viewer, page, theme):
    viewer = show(open_viewer(color_scheme=theme), page)
    assert violations(viewer) == []
    assert viewer.problems == []


def test_a_narrow_window_scrolls_maps_and_tables_only(open_viewer, page):
    viewer = show(open_viewer(viewport={"width": 400, "height": 800}), page)
    assert viewer.page.evaluate("document.documentElement.scrollWidth") == 400
    assert viewer.problems == []


def test_verdict_and_tables_need_no_script(open_viewer, page):
    viewer = open_viewer(java_script_enabled=False)
    viewer.page.goto(page.as_uri())
    text = viewer.find("body").inner_text()
    assert "Rank 200 on n25 is the straggler" in text
    assert "warpline report" in text
    assert "The maps need JavaScript" in text
