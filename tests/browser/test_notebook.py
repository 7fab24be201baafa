"""A report in a frame of another page, as in notebooks."""

from __future__ import annotations

import json

import pytest
from support.browsing import strangers

import warpline


@pytest.fixture
def notebook(recording, tmp_path):
    """A page with the output of two cells, as in exported notebooks."""
    trace = warpline.open(recording("bundled/pageable_h2d.bad"))
    output = warpline.timeline(trace, height=500)._repr_html_()
    path = tmp_path / "notebook.html"
    keys = "<script>window.heard = []; onkeydown = event => heard.push(event.key)</script>"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{keys}<p id=above>above</p>{output}<p>below</p>",
        encoding="utf-8",
    )
    return path


def shown(viewer, notebook):
    """Open the notebook and return the frame of the report once it is fully drawn."""
    viewer.page.goto(notebook.as_uri())
    (frame,) = viewer.page.frames[1:]
    viewer.page.locator("iframe").scroll_into_view_if_needed()
    viewer.wait_in(frame, "marks('warpline-full') > 0")
    return frame


def test_it_draws_without_an_origin_or_a_network(viewer, notebook):
    frame = shown(viewer, notebook)
    assert frame.evaluate("self.origin") == "null"
    assert frame.evaluate("innerHeight") == 500
    assert frame.evaluate("window.warpline.model.page.value") == "timeline"
    assert strangers(viewer.requests) == []
    with pytest.raises(Exception, match="cross-origin"):
        frame.evaluate("parent.document.title")


def test_keys_go_to_the_frame_that_was_clicked(viewer, notebook):
    frame = shown(viewer, notebook)
    view = "JSON.stringify(window.warpline.model.view.value)"
    before = frame.evaluate(view)
    viewer.page.locator("#above").click()
    viewer.page.keyboard.press("w")
    assert viewer.page.evaluate("heard") == ["w"]
    assert frame.evaluate(view) == before
    frame.locator("canvas").first.click()
    viewer.page.keyboard.press("w")
    after = json.loads(frame.evaluate(view))
    assert after["end"] - after["start"] < json.loads(before)["end"] - json.loads(before)["start"]
    assert viewer.page.evaluate("heard") == ["w"]


def test_the_line_for_notebooks_that_are_not_trusted_is_hidden(viewer, notebook):
    shown(viewer, notebook)
    assert not viewer.page.locator(".warpline-untrusted").is_visible()
    assert viewer.page.get_by_text("below").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_theme_of_the_system(open_viewer, notebook, scheme):
    viewer = open_viewer(color_scheme=scheme)
    frame = shown(viewer, notebook)
    viewer.wait_in(frame, f"document.documentElement.dataset.theme === '{scheme}'")
    other = {"light": "dark", "dark": "light"}[scheme]
    viewer.page.emulate_media(color_scheme=other)
    viewer.wait_in(frame, f"document.documentElement.dataset.theme === '{other}'")
