"""The row of steps: its events, an exact selection by a click, and K and J from the first step."""

from __future__ import annotations

import pytest

SHOWN = ("bundled/pageable_h2d.bad", "kineto/tiny_kernels.fixed")  # the second has no ranges


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.shows(name)) for name in SHOWN])
def with_steps(viewer, report, request):
    viewer.open(report(request.param))
    return viewer


def steps_of(viewer):
    steps = viewer.head["steps"][0]
    assert len(steps["text"]) >= 3
    return list(zip(steps["text"], steps["start_ns"], steps["end_ns"], strict=True))


def test_a_click_on_a_step_selects_exactly_its_time(with_steps):
    viewer = with_steps
    row_id = f"{viewer.head['steps'][0]['rows'][0]}/steps"
    assert viewer.find(f".row-label[data-row='{row_id}']").inner_text().startswith("steps")
    for text, start, end in steps_of(viewer)[1:3]:
        viewer.press("0")
        viewer.click(row_id, (start + end) / 2)
        assert viewer.ask("model.nameOf(model.selected.value)") == text
        assert viewer.area == (start, end)
        assert viewer.said.startswith(f"{text}, ")


@pytest.mark.parametrize("key", ["k", "j"])
def test_k_and_j_begin_at_the_first_step(with_steps, key):
    viewer = with_steps
    viewer.press("0")
    steps = steps_of(viewer)
    viewer.press(key)
    seen = [viewer.view]
    for _ in steps[1:]:
        viewer.press("k")
        seen.append(viewer.view)
    for (low, high), (_, start, end) in zip(seen, steps, strict=True):
        assert low <= start < end <= high
        assert high - low < 1.2 * (end - start) + 100
    viewer.press("j")
    assert viewer.view == seen[-2]
