"""A link restores the state of the page: view, selection, rows, notes."""

from __future__ import annotations

import json

import pytest

NOTE = "look: 50% & <b>half</b> ~ #1 \u00fc"


@pytest.fixture
def arranged(open_viewer, report):
    """A page with every kind of state set by hand."""
    viewer = open_viewer(
        permissions=["clipboard-read", "clipboard-write"],
        viewport={"width": 1440, "height": 1400},
    )
    viewer.open(report("nsys/host_sync.bad"))
    viewer.press("n")
    viewer.wait("model.selected.value !== null")
    x, y, width, height = viewer.row_box("gpu0/state")
    viewer.page.mouse.move(x + 0.4 * width, y + 3)
    viewer.page.mouse.down()
    viewer.page.mouse.move(x + 0.6 * width, y + height - 3, steps=3)
    viewer.page.mouse.up()
    viewer.press("b")
    viewer.wait("document.activeElement.closest('.note')")
    viewer.page.keyboard.type(NOTE)
    viewer.press("Enter")
    viewer.find("#warpline-search").fill("/gemm|nvjet/i")
    viewer.press("Escape")
    label = viewer.find(".row-label[data-row='gpu0/stream1']")
    label.get_by_role("button", name="Pin").click()
    viewer.find(".row-label[data-row='gpu0/memory']").get_by_role("button", name="Hide").click()
    viewer.frame()
    return viewer


def copied(viewer):
    """Copy the link as a user does, and return it."""
    viewer.find("canvas[role=application]").focus()
    viewer.press("y")
    viewer.wait("model.said.value.includes('copied')")
    return viewer.page.evaluate("() => navigator.clipboard.readText()")


def state(viewer):
    address = viewer.ask("model.address()")
    return {**address, "view": [round(at) for at in viewer.view]}


def test_a_link_reloaded_elsewhere_shows_the_same(arranged, open_viewer):
    link, before = copied(arranged), state(arranged)
    for part in ("selected", "area", "pinned", "hidden", "finding", "query", "bookmarks"):
        assert before[part], part
    arranged.wait(f"location.href === {json.dumps(link)}")  # the address bar has the same URL
    other = open_viewer()
    file, _, address = link.partition("#")
    other.open(file, f"#{address}")
    other.wait("model.selected.value !== null")
    assert state(other) == before
    assert other.find(".row-label[data-row='gpu0/memory']").count() == 0
    pinned = other.find(".row-label[data-row='gpu0/stream1']").get_by_role("button", name="Unpin")
    assert pinned.get_attribute("aria-pressed") == "true"
    assert other.find("[aria-label=Finding]").is_visible()
    assert NOTE in other.find(".bookmarks").inner_text()
    assert other.find("#warpline-search").input_value() == "/gemm|nvjet/i"
    assert other.problems == []


def test_a_bookmark_leads_back_and_goes(arranged):
    (mark,) = arranged.ask("model.bookmarks.value")
    arranged.find("canvas[role=application]").focus()
    arranged.press("0", "w", "w", "w", "w", "a", "a", "a")
    arranged.find(".bookmarks button").first.click()
    arranged.frame()
    start, end = arranged.view
    assert (start + end) / 2 == pytest.approx(mark["time"], abs=0.01 * (end - start))
    arranged.find(".bookmarks").get_by_role("button", name="Remove").click()
    arranged.find(".bookmarks").wait_for(state="detached")
    assert arranged.ask("model.address().bookmarks") == []


def test_back_to_another_address_of_the_same_page(arranged):
    arranged.page.evaluate("() => { location.hash = '#k?k=cuda_gpu_kern_sum' }")
    arranged.wait("model.page.value === 'tables'")
    assert arranged.find(".tables-body h2").inner_text() == "CUDA GPU kernel summary"
    arranged.page.evaluate("() => { location.hash = '#t?v=20000000,30000000' }")
    arranged.wait("model.page.value === 'timeline'")
    assert arranged.view == (20_000_000, 30_000_000)
    assert arranged.selected is None


@pytest.mark.parametrize(
    "address",
    [
        "#t?v=5,1",
        "#t?v=nan,nan&sel=kernel:99999999&rows=none&f=F99&c=x&b=1",
        "#t?v=-1e300,1e300&a=1e300,2e300",
        "#t?sel=" + "x" * 20_000,
        "#t?q=/(/&f=<img src=x onerror=alert(1)>",
        "#k?k=no_such_table",
        "#z?%%%",
    ],
)
def test_an_address_that_makes_no_sense_does_no_harm(viewer, report, address):
    viewer.open(report("nsys/host_sync.bad"), address)
    whole = viewer.head["start_ns"], viewer.head["end_ns"]
    start, end = viewer.view
    assert whole[0] <= start < end <= whole[1]
    assert viewer.find("header.bar").is_visible()
    assert viewer.selected is None
