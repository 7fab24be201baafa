"""The documentation site, from files: its search, the report on its first page, accessibility."""

from __future__ import annotations

import pytest
from support import site
from support.browsing import COLOR_RULES, RULES, violations

PAGES = ("docs/index.html", "docs/analyze.html", "docs/ci.html", "search.html?q=idle")


def go(viewer, page: str) -> None:
    name, _, query = page.partition("?")
    viewer.page.goto((site.built() / name).as_uri() + (f"?{query}" if query else ""))


def test_the_search_finds_a_section_without_a_server(viewer):
    go(viewer, "docs/index.html")
    viewer.find(".sidebar-search").fill("input-bound")
    viewer.page.keyboard.press("Enter")
    viewer.page.get_by_role("link", name="Rules > input-bound").click()
    viewer.page.wait_for_url("**/docs/rules.html*#input-bound")
    heading = viewer.page.get_by_role("heading", name="input-bound")
    assert "input-bound" in heading.inner_text()


def test_the_first_page_has_a_report_that_works(viewer):
    go(viewer, "index.html")
    viewer.page.wait_for_url("**/docs/index.html")
    viewer.find("iframe.report").scroll_into_view_if_needed()
    report = viewer.page.frame_locator("iframe.report")
    report.get_by_role("button", name="Timeline").or_(
        report.get_by_role("link", name="Timeline")
    ).first.click()
    report.locator("canvas[role=application]").wait_for()


@pytest.mark.parametrize("page", PAGES)
def test_axe_objects_to_nothing(open_viewer, page):
    for scheme, rules in (("light", RULES), ("dark", COLOR_RULES)):
        viewer = open_viewer(color_scheme=scheme)
        go(viewer, page)
        if page.startswith("search"):
            viewer.find("#search-results li").first.wait_for()
        assert viewer.problems == []  # axe makes some, as it wants to read styles of files
        assert violations(viewer, rules=rules) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_shows_whole_lines(open_viewer, page):
    viewer = open_viewer(viewport={"width": 390, "height": 844})
    go(viewer, page)
    widths = viewer.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
