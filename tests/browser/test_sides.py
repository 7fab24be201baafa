"""Two recordings in one page, aligned by step."""

from __future__ import annotations

import json

import pytest
from support.browsing import strangers

from warpline.cli import main


@pytest.fixture
def sides(viewer, recording, tmp_path, capsys):
    """The frames of both timelines, before and after, fully drawn."""
    files = [recording(f"bundled/pageable_h2d.{name}") for name in ("bad", "fixed")]
    path = tmp_path / "diff.html"
    assert main(["report", "--side-by-side", *map(str, files), "-o", str(path)]) == 0
    viewer.page.goto(path.as_uri())
    viewer.page.get_by_text("Timelines", exact=True).click()
    frames = viewer.page.frames[1:]
    for frame in frames:
        viewer.wait_in(frame, "marks('warpline-full') > 0")
    return frames


def view(frame):
    found = json.loads(frame.evaluate("JSON.stringify(window.warpline.model.view.value)"))
    return found["start"], found["end"]


def shown_steps(frame):
    expression = "JSON.stringify(window.warpline.model.recording.head.steps[0])"
    return json.loads(frame.evaluate(expression))


def test_both_show_the_same_step_at_the_same_place(viewer, sides):
    before, after = sides
    for key in ("k", "k", "j"):
        before.locator("canvas").first.click()
        viewer.page.keyboard.press(key)
        moved = view(before)
        step = before.evaluate("window.warpline.model.step.value")
        starts = [shown_steps(frame)["start_ns"][step] for frame in (before, after)]
        viewer.wait_in(
            after,
            f"Math.abs(window.warpline.model.view.value.start - {starts[1]}"
            f" - ({moved[0] - starts[0]})) < 1",
        )
        assert view(after)[1] - view(after)[0] == pytest.approx(moved[1] - moved[0])


def test_they_move_apart_on_request(viewer, sides):
    before, after = sides
    viewer.page.get_by_label("Move both timelines together").uncheck()
    kept = view(after)
    before.locator("canvas").first.click()
    viewer.page.keyboard.press("w")
    viewer.wait_in(before, "window.warpline.model.history.value.past.length > 0")
    assert view(after) == kept


def test_it_needs_no_network_and_says_the_verdict(viewer, sides):
    page = viewer.page
    assert strangers(viewer.requests) == []
    page.get_by_text("Comparison", exact=True).click()
    assert "84.3% less time" in page.locator(".wl-verdict").inner_text()
    assert page.locator(".wl-dots circle").count() == 10  # five steps on either side
    assert (
        page.locator(".wl-waterfall rect").count() == page.locator(".wl-waterfall tbody tr").count()
    )
