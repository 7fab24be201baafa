"""Rows: hidden, pinned, and collapsed rows; several ranks; thinned reports."""

from __future__ import annotations

import pytest

import warpline

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")
RANKS = ("nsys/ddp_serial.bad.rank0", "nsys/ddp_serial.bad.rank1")


def rows_of(viewer):
    return viewer.find(".row-label").evaluate_all("all => all.map((one) => one.dataset.row)")


def test_a_row_is_hidden_and_comes_back(opened):
    before = rows_of(opened)
    assert "thread0/os" in before
    button = opened.find(".row-label[data-row='thread0/os']").get_by_role("button", name="Hide")
    button.click()
    opened.frame()
    assert rows_of(opened) == [row for row in before if row != "thread0/os"]
    opened.find("header.bar").get_by_text("Show 1 hidden").click()
    opened.frame()
    assert rows_of(opened) == before


def test_a_selected_event_s_row_is_hidden_and_pinned_by_keys(opened):
    opened.click("gpu0/stream0", opened.head["findings"][0]["windows_ns"][0][0] + 10)
    opened.press("p")
    assert rows_of(opened)[-1] == "gpu0/stream0"  # drawn last: pinned at the top
    top = opened.find(".row-label[data-row='gpu0/stream0']").bounding_box()
    first = opened.find(".row-label[data-row='gpu0']").bounding_box()
    assert top["y"] < first["y"]
    assert "GPU 0" in opened.find(".row-label[data-row='gpu0/stream0']").inner_text()
    opened.press("p")
    assert rows_of(opened)[-1] != "gpu0/stream0"
    opened.press("h")
    assert "gpu0/stream0" not in rows_of(opened)
    opened.press("Shift+H")
    assert "gpu0/stream0" in rows_of(opened)


def test_a_group_folds(opened):
    before = rows_of(opened)
    fold = opened.find(".row-label[data-row='process0'] .fold")
    assert fold.get_attribute("aria-expanded") == "true"
    fold.click()
    opened.frame()
    assert fold.get_attribute("aria-expanded") == "false"
    assert rows_of(opened) == before[: before.index("process0") + 1]
    fold.press("Enter")  # also with keys
    opened.frame()
    assert rows_of(opened) == before


def test_ranks_stand_above_one_another_and_each_has_its_own(viewer, report, recording):
    viewer.page.set_viewport_size({"width": 1440, "height": 1800})
    viewer.open(report(*RANKS))
    devices = [
        row for row in viewer.head["rows"] if row["kind"] == "group" and row["device"] is not None
    ]
    assert [row["label"].partition(" · ")[0] for row in devices] == ["rank 0", "rank 1"]
    shown = rows_of(viewer)
    assert shown.index(devices[0]["id"]) < shown.index(devices[1]["id"])
    for rank, device in enumerate(devices):
        own = warpline.open(recording(RANKS[rank]))
        tables = ("kernel", "memcpy", "memset")
        count = sum(own.row_count(table) for table in tables if own.has(table))
        streams = [
            row
            for row in viewer.head["rows"]
            if row["kind"] == "stream" and row["device"] == device["device"]
        ]
        assert sum(row["count"] for row in streams) == count
    assert viewer.find("[data-busy-ns]").count() == 2
    viewer.press("k")
    assert viewer.ask("model.step.value") >= 0


def test_a_report_that_was_thinned_says_so(viewer, report, recording):
    whole = report(RANKS[0]).stat().st_size
    path = report(RANKS[0], max_bytes=whole - 60_000)  # about half of the events
    assert path.stat().st_size <= whole - 60_000
    viewer.open(path)
    banner = viewer.find(".banner").inner_text()
    thinned = viewer.head["thinned"]
    assert thinned["text"] in banner
    kept, total = (sum(span[key] for span in thinned["spans"]) for key in ("kept", "total"))
    assert 0 < kept < total
    viewer.press("3")
    viewer.find("nav[aria-label=Tables]").wait_for()
    viewer.press("2")
    assert viewer.find(".banner").is_visible()
    viewer.open(report(RANKS[0]))
    assert viewer.find(".banner").count() == 0


@pytest.mark.parametrize("page", ["#o", "#t", "#k?k=cuda_gpu_kern_sum", "#e"])
def test_pages_fit_a_phone(open_viewer, report, page):
    viewer = open_viewer(viewport={"width": 390, "height": 844})
    viewer.open(report("nsys/host_sync.bad"), page)
    viewer.frame()
    assert viewer.ask("document.documentElement.scrollWidth") <= 390
    assert viewer.problems == []
    if page == "#t":
        left, _, width, _ = viewer.row_box("gpu0/state")
        assert left <= 110
        assert width >= 280
        label = viewer.find(".row-label[data-row='gpu0/state']")
        assert label.inner_text().strip() == "busy / idle"
        viewer.press("e")
        viewer.find(".tab-body [role=status]").filter(has_text="median").wait_for()
        viewer.frame()
        assert 3 < viewer.find(".tab-body [role=row]").count() < 60
    if page.startswith("#k"):
        table = viewer.find(".tables-body .list .scroll").bounding_box()
        assert table is not None
        assert table["x"] < 20
        assert table["height"] > 200
