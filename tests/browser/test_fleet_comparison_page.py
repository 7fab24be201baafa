"""The page of two jobs: what its map says by pointer and keys, colors, themes, and no script."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from support.browsing import violations
from support.fleet_pages import PIXEL, show
from support.fleets import Meeting, simulate, summary

from warpline import api
from warpline.fleet.comparing import compare_jobs
from warpline.fleet.sides import side_of
from warpline.render import Options
from warpline.render.fleet_comparison import write_text

MS = 1_000_000
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"
RANKS, GONE, LATE = 32, 30, 21
LEFT, WIDE, HIGH = 128, 40, 18  # px: of the labels, and of a cell


def job(title, *, ranks=RANKS, late=None, seed=0):
    """A job whose ranks work about 10 ms per step, and 16 if late; rank 8 has a hostile machine."""
    works = [
        tuple(
            (16 if rank == late else 10) * MS + (rank * 7919 + step + seed) % 11 * 9_973
            for rank in range(ranks)
        )
        for step in range(8)
    ]
    recorded = simulate(ranks, [[Meeting("world", tuple(range(ranks)), work)] for work in works])
    made = [summary(rank, one, host=f"n{rank // 8}") for rank, one in enumerate(recorded)]
    made[8] = replace(made[8], identity=replace(made[8].identity, host=HOSTILE))
    return side_of(title, made)


@pytest.fixture(scope="module")
def found():
    """Rank 21 is no longer late; ranks 30 and 31 are gone."""
    return compare_jobs([job(HOSTILE, late=LATE)], [job("run2", ranks=GONE, seed=5)])


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("fleets") / "compared.html"
    path.write_text("".join(api.make_fleet_report(found, path.parent).pieces), encoding="utf-8")
    return path


def cell(rank):
    """Return a point in the cell of a rank: rank 8 is on a machine of its own."""
    order = [f"n{rank // 8}" if rank != 8 else HOSTILE for rank in range(RANKS)]
    rows = list(dict.fromkeys(order))
    column = order[:rank].count(order[rank])
    return LEFT + column * WIDE + 5, rows.index(order[rank]) * HIGH + 5


def test_the_map_says_what_the_screen_says(viewer, page, found):
    show(viewer, page)
    canvas, said = viewer.find("#ranks"), viewer.find("#ranks-said")
    out = io.StringIO()
    write_text(found, out, Options())
    rows = re.findall(
        r"^  (\d+) +(\S+ ms) +(\S+ ms) +([+-]\S+ [mun]s)( \?)?  ", out.getvalue(), re.MULTILINE
    )
    assert [row[0] for row in rows[:1]] == [str(LATE)]
    assert len(rows) > 3
    for rank, before, after, difference, doubt in rows:
        x, y = cell(int(rank))
        canvas.hover(position={"x": x, "y": y})
        wanted = (
            f": by itself {before} to {after}, {difference}{', may be chance' if doubt else ''}"
        )
        assert said.inner_text().splitlines()[0].endswith(wanted)
    assert viewer.page.evaluate(PIXEL, list(cell(LATE))) == [0x1F, 0x5F, 0xA8]
    canvas.focus()
    viewer.press("Escape", "ArrowDown", *["ArrowDown"] * 4, "End")
    assert said.inner_text() == "rank 31, n3: only before"
    viewer.press("Home")
    assert said.inner_text().startswith("rank 24, n3: by itself")
    viewer.press("Escape")
    assert said.inner_text() == ""
    viewer.find("#measure").select_option("exposed_wait")
    viewer.frame()
    assert viewer.page.evaluate(PIXEL, list(cell(0))) != [0xEE, 0xF0, 0xF2]
    assert "marks ranks that changed differently from most" in viewer.find("#changes").inner_text()


def test_axe_objects_to_nothing_in_both_themes_and_the_page_fits_a_phone(viewer, page):
    show(viewer, page)
    assert violations(viewer) == []
    viewer.page.emulate_media(color_scheme="dark")
    viewer.frame()
    assert viewer.page.evaluate(PIXEL, list(cell(LATE))) == [0x6D, 0xB3, 0xF2]
    assert violations(viewer) == []
    viewer.page.set_viewport_size({"width": 400, "height": 800})
    viewer.frame()
    assert viewer.page.evaluate("document.documentElement.scrollWidth") == 400


def test_verdict_bars_and_tables_need_no_script(open_viewer, page):
    viewer = open_viewer(java_script_enabled=False)
    viewer.page.goto(page.as_uri())
    text = viewer.find("body").inner_text()
    assert "Rank 21 no longer delays the others." in text
    assert "2 ranks only before." in text
    assert "warpline report --side-by-side" in text
    assert "The map of ranks needs JavaScript" in text
    assert viewer.find(".wl-shares rect.wl-less").first.bounding_box()["width"] > 20
