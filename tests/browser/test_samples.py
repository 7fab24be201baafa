"""Samples on the timeline: rows of each thread, and the flame graph of a selection."""

from __future__ import annotations

import threading

import pytest
from support import sampled_stacks

import warpline
from warpline import api


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "run.html"
    return warpline.report(sampled_stacks.trace(), path)


@pytest.fixture
def tiled():
    """The address of the same recording on a server, with tiles."""
    server = api.serve(sampled_stacks.trace(), tile_from=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.url
    server.shutdown()
    thread.join()
    server.server_close()


def flame_of(viewer, kind, start_ms, end_ms, total, rows="null"):
    """Select an area, and return level, name and time of each box, below the given total."""
    span = f"{{ start: {start_ms * 1e6}, end: {end_ms * 1e6} }}"
    viewer.page.evaluate(f"warpline.model.area.value = {{ span: {span}, rows: {rows} }}")
    viewer.page.get_by_role("tab", name="Flame graph").click()
    viewer.page.select_option("#flame-of", kind)
    viewer.find(f"[role=treeitem][aria-label^='all: {total},']").wait_for()
    viewer.frame()
    boxes = viewer.find("[role=tree] [role=treeitem]")
    said = boxes.evaluate_all("all => all.map((one) => [Number(one.ariaLevel), one.ariaLabel])")
    return [(level, *text.split(",")[0].rsplit(": ", 1)) for level, text in said]


def rows_of(viewer):
    return {row["id"]: row for row in viewer.head["rows"]}


def test_threads_have_rows_of_states_and_samples(viewer, report):
    viewer.open(report, "#t")
    rows = rows_of(viewer)
    assert [rows[f"thread0/{key}"]["label"] for key in ("state", "cpu-samples")] == [
        "thread state",
        "CPU samples",
    ]
    assert rows["thread0/cpu-samples"]["count"] == 5
    assert rows["thread1/cpu-samples"]["busy_ns"] == 4_000_000
    assert rows["thread1/python-samples"]["count"] == 1
    order = [row for row in rows if row.startswith("thread0")]
    assert order[:4] == [
        "thread0",
        *(f"thread0/{k}" for k in ("state", "cpu-samples", "python-samples")),
    ]


@pytest.mark.parametrize("page", ["report", "tiled"])
def test_the_flame_graph_of_a_selection_has_the_stacks_of_its_samples(
    open_viewer, report, tiled, page
):
    viewer = open_viewer()
    viewer.open(report if page == "report" else tiled, "#t")
    viewer.wait("model.isComplete.value && !model.recording.head.pending")
    found = flame_of(viewer, "cpu-samples", 0, 10, "CPU time 9.00 ms")
    assert (5, "decode (data;set.py:41)", "CPU time 2.00 ms") in found
    assert (6, "jpeg_read", "CPU time 2.00 ms") in found
    assert (3, "fib (fib.py:3)", "CPU time 4.00 ms") in found
    assert (5, "fib (fib.py:3)", "CPU time 2.00 ms") in found
    found = flame_of(viewer, "cpu-samples", 1.5, 2.5, "CPU time 1.00 ms")  # the one taken in it
    assert (6, "jpeg_read", "CPU time 1.00 ms") in found
    worker = next(
        place for place, row in enumerate(viewer.head["rows"]) if row["id"] == "thread1/cpu-samples"
    )
    flame_of(viewer, "cpu-samples", 0, 10, "CPU time 4.00 ms", f"new Set([{worker}])")
    flame_of(viewer, "python-samples", 0, 30, "Time 10.0 ms")
    assert viewer.problems == []
