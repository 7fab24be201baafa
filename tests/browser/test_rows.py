"""Rows: hidden, pinned, and collapsed rows; several ranks; thinned reports."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from random import Random

import pytest
from support import browsing, plain_sums

import warpline

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")
RANKS = ("nsys/ddp_serial.bad.rank0", "nsys/ddp_serial.bad.rank1")

KERNELS_AND_MEMSETS = """
    SELECT start, end, 0 FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL SELECT start, end, 2 FROM CUPTI_ACTIVITY_KIND_MEMSET"""


def rows_of(viewer):
    return viewer.find(".row-label").evaluate_all("all => all.map((one) => one.dataset.row)")


def test_a_row_is_hidden_and_comes_back(opened):
    before = rows_of(opened)
    assert "thread0/os" in before
    button = opened.find(".row-label[data-row='thread0/os']").get_by_role("button", name="Hide")
    button.click()
    opened.frame()
    assert rows_of(opened) == [row for row in before if row != "thread0/os"]
    opened.find(".timeline").get_by_text("Show 1 hidden").click()
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
    opened.press("p", "h")  # a pinned row, too
    assert "gpu0/stream0" not in rows_of(opened)


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


def test_lists_of_names_have_a_column_per_rank(viewer, report, recording):
    viewer.open(report(*RANKS))
    start, end = 60_000_000, 61_000_000  # the second file's clock is 1 us off at most
    viewer.ask(f"model.show({{ start: {start}, end: {end} }})")
    viewer.ask("(model.tab.value = 'kernels')")
    viewer.settle()
    table = viewer.find("[aria-label='GPU operations by name']")
    head = table.locator("[role=columnheader]")
    head.filter(has_text="rank 1").wait_for()
    heads = head.all_inner_texts()
    place = heads.index("rank 0")
    assert heads[place : place + 2] == ["rank 0", "rank 1"]
    lines = table.locator("[role=row]").evaluate_all(
        "rows => rows.slice(1).map(row => [...row.children].map(cell => cell.textContent.trim()))"
    )
    assert len(lines) > 5
    with contextlib.closing(sqlite3.connect(recording(RANKS[0]))) as connection:
        (busy_ns,) = connection.execute(
            """SELECT sum(min(end, ?) - max(start, ?)) FROM CUPTI_ACTIVITY_KIND_KERNEL k
               JOIN StringIds s ON s.id = k.demangledName
               WHERE start < ? AND end > ? AND s.value GLOB 'nccl*'""",
            (end, start, end, start),
        ).fetchone()
    (collective,) = [line for line in lines if line[0].startswith("ncclDevKernel")]
    assert plain_sums.says(collective[place], busy_ns)
    for line in lines:
        whole, *parts = [plain_sums.nanoseconds(text) for text in line[place - 1 : place + 2]]
        assert sum(parts) == pytest.approx(whole, rel=0.02)


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


def shares_busy(viewer):
    """Return the least and the greatest busy share that the page shows for the view, in percent."""
    viewer.settle()
    viewer.wait("!model.isSumming.value")
    viewer.frame()
    (text,) = viewer.find(".sums [data-row='gpu0/state']").all_inner_texts()
    ((low, high),) = re.findall(r": ([\d.]+)(?: to ([\d.]+))?% of the view busy", text)
    return float(low), float(high or low)


def test_a_thinned_report_has_the_busy_time_of_all_events(viewer, report, recording):
    """Compare with the operations in the file, read by plain SQL."""
    with contextlib.closing(sqlite3.connect(recording(RANKS[0]))) as connection:
        operations = connection.execute(KERNELS_AND_MEMSETS).fetchall()
    whole = report(RANKS[0]).stat().st_size
    viewer.open(report(RANKS[0], max_bytes=whole - 90_000))
    state = viewer.ask("model.recording.rowOf.get('gpu0/state')")
    sums = viewer.head["rows"][state]["sums"]
    start, end = viewer.ask("[model.limits.start, model.limits.end]")
    bin_ns = 2 ** sums["level"]
    random, inexact = Random(7), 0
    places = [(start, end), (start + 3 * bin_ns, start + 30 * bin_ns)]
    for _ in range(30):
        length = random.choice((200_000, 3_000_000, 30_000_000))
        low = random.randrange(14_000_000, 165_000_000 - length)
        places.append((low, low + length))
    for low, high in places:
        viewer.ask(f"model.show({{ start: {low}, end: {high} }})")
        least, most = shares_busy(viewer)
        actual = 100 * browsing.busy_ns(operations, low, high) / (high - low)
        assert least - 0.051 <= actual <= most + 0.051
        inexact += least < most
    assert inexact > 0  # the file lacks intervals in some of these windows
    viewer.ask(f"model.show({{ start: {start}, end: {end} }})")
    shown = f"{100 * browsing.busy_ns(operations, start, end) / (end - start):.1f}"
    assert shares_busy(viewer) == (float(shown), float(shown))
    idle = viewer.table("Idle time by cause")
    names = viewer.table("GPU operations by name")
    assert all(count.startswith("≥ ") for count, *_ in names.values())
    viewer.open(report(RANKS[0]), f"#t?v={start},{end}")
    viewer.settle()
    assert {name: time for name, (_, time, _) in viewer.table("Idle time by cause").items()} == {
        name: time for name, (_, time, _) in idle.items()
    }
    assert not any(
        "≥" in text for row in viewer.table("GPU operations by name").values() for text in row
    )


def test_few_rows_fill_the_height(open_viewer, report):
    heights = []
    for height in (560, 1600):
        viewer = open_viewer(viewport={"width": 1280, "height": height})
        viewer.open(report("nsys/cuda_graph_level"))
        labels = viewer.find(".gutter .zone .row-label")
        heights.append([label.bounding_box()["height"] for label in labels.all()])
        assert len(viewer.find("header.bar").evaluate_all(TOPS)[0]) == 1
        viewer.find("#warpline-search").fill("step")
        viewer.find("[data-testid=matches]").wait_for()
        assert len(viewer.find("header.bar").evaluate_all(TOPS)[0]) == 1
    pairs = list(zip(*heights, strict=False))  # in the low window, not all rows are in view
    assert all(low <= high <= 2 * low for low, high in pairs)
    assert sum(high for _, high in pairs) > 1.3 * sum(low for low, _ in pairs)


# Middles of what is in the bar: one if it has one line.
TOPS = """all => all.map(bar => [...new Set([...bar.children].flatMap(one => {
  const { top, bottom } = one.getBoundingClientRect();
  return top < bottom ? [Math.round((top + bottom) / 8)] : [];
}))])"""


def test_pages_fit_a_phone(open_viewer, report):
    viewer = open_viewer(viewport={"width": 390, "height": 844})
    viewer.open(report("nsys/host_sync.bad"), "#o")
    for page in ("#o", "#t", "#k?k=cuda_gpu_kern_sum", "#e"):
        viewer.turn(page)
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
