"""Zooming and panning with keyboard and mouse."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")


def length(span):
    return span[1] - span[0]


def middle(span):
    return (span[0] + span[1]) / 2


def test_w_and_s_zoom_about_the_middle(opened):
    opened.press("0")
    whole = opened.view
    opened.press("w")
    assert length(opened.view) == pytest.approx(0.7 * length(whole))
    assert middle(opened.view) == pytest.approx(middle(whole))
    opened.press("w", "w")
    assert length(opened.view) == pytest.approx(0.7**3 * length(whole))
    opened.press("s", "s")
    assert length(opened.view) == pytest.approx(0.7 * length(whole))
    opened.press("Shift+W")
    assert length(opened.view) == pytest.approx(0.7 * 0.25 * length(whole))
    opened.press("s", "s", "s", "s", "s", "s")
    assert opened.view == whole  # the view stays inside the recording


def test_a_and_d_move_a_part_of_the_view(opened):
    opened.press("w", "w", "w")
    start, end = opened.view
    part = 0.12 * (end - start)
    opened.press("d")
    assert opened.view == pytest.approx((start + part, end + part))
    opened.press("a", "a")
    assert opened.view == pytest.approx((start - part, end - part))
    opened.press("Shift+D", "ArrowRight")
    assert opened.view == pytest.approx((start + 5 * part, end + 5 * part))
    whole = opened.head["start_ns"], opened.head["end_ns"]
    for _ in range(30):
        opened.press("d")
    assert opened.view[1] == whole[1]
    assert length(opened.view) == pytest.approx(end - start)
    opened.press("0")
    assert opened.view == whole


def test_every_zoom_draws_other_pixels(opened):
    pictures = []
    for key in ("0", "w", "d", "Shift+W"):
        opened.press(key)
        opened.frame()
        pictures.append(opened.find("canvas[role=application]").screenshot())
    assert len(set(pictures)) == len(pictures)


def test_k_and_j_walk_the_steps(opened):
    (steps,) = opened.head["steps"]
    opened.press("Home", "w", "w", "w", "w", "w", "w")
    before = opened.ask("model.step.value")
    for key, now in (("k", before + 1), ("k", before + 2), ("j", before + 1)):
        opened.press(key)
        start, end = opened.view
        assert start <= steps["start_ns"][now] < steps["end_ns"][now] <= end
        assert length((start, end)) < 1.2 * (steps["end_ns"][now] - steps["start_ns"][now])
        assert opened.said == steps["text"][now]
        assert steps["text"][now] in opened.find(".steps").inner_text()


def test_the_wheel_zooms_at_the_pointer(opened):
    x, y, width, height = opened.row_box("gpu0/stream0")
    start, end = opened.view
    under = start + 0.25 * (end - start)
    opened.page.mouse.move(x + 0.25 * width, y + height / 2)
    opened.page.keyboard.down("Control")
    opened.page.mouse.wheel(0, -240)
    opened.page.keyboard.up("Control")
    opened.wait(f"model.view.value.end - model.view.value.start < {0.8 * (end - start)}")
    assert opened.view[0] + 0.25 * length(opened.view) == pytest.approx(
        under, abs=length((start, end)) / width
    )
    opened.page.keyboard.down("Shift")
    opened.page.mouse.wheel(0, -100)
    opened.page.keyboard.up("Shift")
    now = opened.view[0]
    opened.wait(f"model.view.value.start <= {now}")


def test_a_drag_on_the_ruler_zooms_to_that_time_and_z_goes_back(opened):
    canvas = opened.find("canvas[role=application]").bounding_box()
    start, end = opened.view
    mouse = opened.page.mouse
    mouse.move(canvas["x"] + 0.4 * canvas["width"], canvas["y"] + 8)
    mouse.down()
    mouse.move(canvas["x"] + 0.6 * canvas["width"], canvas["y"] + 8, steps=4)
    mouse.up()
    opened.frame()
    pixel = length((start, end)) / canvas["width"]
    wanted = start + 0.4 * length((start, end)), start + 0.6 * length((start, end))
    assert opened.view == pytest.approx(wanted, abs=2 * pixel)
    opened.press("z")
    assert opened.view == (start, end)
    opened.press("Shift+Z")
    assert opened.view == pytest.approx(wanted, abs=2 * pixel)


def test_a_double_click_fits_an_event_and_a_drag_with_shift_moves(opened):
    x, y, width, height = opened.row_box("gpu0/phase0")
    whole = opened.view
    opened.page.mouse.dblclick(x + width / 2, y + height / 2)
    opened.wait(f"model.view.value.start > {whole[0]}")
    start, end = opened.view
    (steps,) = opened.head["steps"]
    place = next(i for i, until in enumerate(steps["end_ns"]) if until > middle(whole))
    assert start <= steps["start_ns"][place] < middle(whole) < end
    assert length((start, end)) < 2 * (steps["end_ns"][place] - steps["start_ns"][place])
    opened.page.keyboard.down("Shift")
    opened.page.mouse.move(x + 0.5 * width, y + height / 2)
    opened.page.mouse.down()
    opened.page.mouse.move(x + 0.3 * width, y + height / 2, steps=4)
    opened.page.mouse.up()
    opened.page.keyboard.up("Shift")
    opened.frame()
    moved = 0.2 * length((start, end))
    assert opened.view == pytest.approx((start + moved, end + moved), abs=0.01 * moved + 1)
