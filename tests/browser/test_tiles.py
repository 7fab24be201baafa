"""A tiled recording looks and reads like its report; only the events stay on the server."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import numpy as np
import pytest

import warpline
from warpline import api
from warpline.viewer import tiles

SMALL = "bundled/pageable_h2d.bad"
# The first has rows of every kind, samples and most events; the others have some of these kinds.
PICTURES = (
    "nsys/rich_metrics_sampling",
    pytest.param(SMALL, marks=pytest.mark.thorough),
    pytest.param("faults/allocator.bad", marks=pytest.mark.thorough),
)
PIXELS = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const canvas = document.querySelector("canvas[role=application]");
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  let text = "";
  for (let at = 0; at < data.length; at++) text += String.fromCharCode(32 + (data[at] >> 4));
  return text;
}"""
HITS = """[...model.hits.value.byRow].map(([row, { bin, ns, name }]) =>
  [row, [...bin], [...ns].map(Math.round), [...name]])"""
WIDTHS = (1.0, 0.2, 0.02, 0.0005)
# Bin and pixel edges differ, so columns can be off by one: pictures are compared by the mean shade
# of pieces of a row. Limits for the share of pieces that differ:
PIECE_PX = 16
MOST_DIFFERENT = 0.01  # for the same view; observed: 0.002, with rows of samples 0.0074
LEAST_DIFFERENT = 0.02  # for different views: larger than the limit above


@pytest.fixture
def serve(recording):
    """Serve a recording with tiles, as if it were large, and return the URL."""
    servers = []

    def serve(name):
        server = api.serve(warpline.open(recording(name)), tile_from=0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return server.url

    yield serve
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def open_tiled(viewer, url):
    """Open the page and wait for its diagnosis."""
    viewer.open(url, "#t")
    viewer.wait("model.isComplete.value && !model.recording.head.pending")
    if viewer.ask("model.pending.value !== null"):
        viewer.find("[aria-label='Close message']").click()
    viewer.drawn()
    rest(viewer)


def rest(viewer):
    """Wait until all tiles have arrived."""
    viewer.settle()
    viewer.wait("model.recording.isSettled")
    viewer.frame()
    viewer.wait("model.recording.isSettled")


def show(viewer, start, end):
    viewer.ask(f"model.show({{ start: {start}, end: {end} }})")
    rest(viewer)


def statistics(viewer):
    """Return the text of the panel after all answers have arrived."""
    said = None
    for _ in range(50):
        now = viewer.find("[data-testid=selection-sums]").inner_text()
        now += viewer.find(".tab-body").inner_text()
        if now == said and not viewer.find("[aria-busy=true]").count():
            return now
        said = now
        viewer.frame()
        viewer.frame()
    raise AssertionError("the statistics do not come to rest")


def pieces(viewer):
    """Return mean shades, 0 to 15, of pieces of the timeline's rows of pixels, shape (n, 4)."""
    width = viewer.ask("document.querySelector('canvas[role=application]').width")
    octets = viewer.page.evaluate(PIXELS).encode("ascii")
    shades = np.frombuffer(octets, np.uint8).reshape(-1, width, 4)[:, : width - width % PIECE_PX]
    return shades.reshape(-1, PIECE_PX, 4).mean(axis=1)


def different(one, other):
    """Return the share of pieces that differ by more than two shades."""
    return float(np.mean(np.abs(one - other).max(axis=1) > 2))


def views(viewer):
    start, end = viewer.ask("[model.limits.start, model.limits.end]")
    middle = viewer.ask("model.recording.head.findings[0]?.windows_ns[0]?.[0] ?? null")
    middle = (start + end) / 2 if middle is None else middle
    for width in WIDTHS:
        length = (end - start) * width
        low = min(max(start, middle - length / 2), end - length)
        yield low, low + length


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_and_the_statistics_are_those_of_the_report(
    open_viewer, report, serve, name, monkeypatch
):
    monkeypatch.setattr(tiles, "MOST_EVENTS", 30)  # most rows have bins
    whole, tiled = open_viewer(), open_viewer()
    whole.open(report(name))
    open_tiled(tiled, serve(name))
    before = None
    for start, end in views(whole):
        for each in (whole, tiled):
            show(each, start, end)
        assert statistics(tiled) == statistics(whole)
        one, other = (pieces(each) for each in (whole, tiled))
        assert one.shape == other.shape
        assert different(one, other) <= MOST_DIFFERENT
        assert before is None or different(one, before) > LEAST_DIFFERENT
        before = one
    assert tiled.problems == []
    fetched = {urlsplit(url).path.split("/")[2] for url in tiled.requests if "http" in url}
    assert {"tiles", "ask", "blocks"} <= fetched


def test_the_diagnosis_arrives_by_itself(open_viewer, recording):
    name, viewer = "faults/allocator.bad", open_viewer()
    server = api.serve(warpline.open(recording(name)), tile_from=0)
    diagnose, may_end = server.meanwhile, threading.Event()
    assert diagnose is not None

    def later():
        may_end.wait()
        diagnose()

    server.meanwhile = later
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        viewer.open(server.url, "#t")
        viewer.wait("model.isComplete.value && model.pending.value")
        assert "being computed" in viewer.find(".banner").inner_text()
        assert viewer.ask("model.recording.head.summary.findings") is None
        start, end = viewer.ask("[model.limits.start, model.limits.end]")
        show(viewer, start, (start + end) / 2)
        viewer.ask("window.isSame = true")
        may_end.set()
        viewer.find("text=Show the overview").wait_for()
        assert viewer.ask("window.isSame") is True  # it is still the page that was opened
        assert viewer.ask("[model.view.value.start, model.view.value.end]") == [
            start,
            (start + end) / 2,
        ]
        found = viewer.ask("model.recording.head.summary.findings.map((one) => one.title)")
        titles = [one.title for one in api.analyze(warpline.open(recording(name))).findings]
        assert found == titles
        assert f"{len(titles)} finding" in viewer.find(".findings-walk").inner_text()
        viewer.find("text=Show the overview").click()
        shown = viewer.find("#warpline-static")
        assert all(title in shown.inner_text() for title in titles)
        assert viewer.find("#warpline-static [data-finding]:visible").count() >= len(titles)
        viewer.find("#warpline-static [data-finding]").first.click()
        viewer.wait("model.finding.value === 'F1' && model.page.value === 'timeline'")
        viewer.press("3")
        viewer.find("nav[aria-label=Tables]").wait_for()
        assert viewer.find("main table tbody tr, main [role=row]").count() > 0
        assert viewer.problems == []
    finally:
        may_end.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_events_are_selected_walked_and_followed(open_viewer, report, serve):
    name = "bundled/pageable_h2d.bad"
    whole, tiled = open_viewer(), open_viewer()
    whole.open(report(name))
    open_tiled(tiled, serve(name))
    said = []
    for viewer in (whole, tiled):
        seen = []
        viewer.ask("model.selectId('kernel:40')")
        viewer.wait("model.selected.value?.id === 'kernel:40' && model.linked.value.length > 0")
        details = viewer.find("[aria-label='Selected event']")
        details.get_by_text("Enclosing ranges").wait_for()  # they arrive by themselves
        seen.append(details.inner_text().split("Enclosing ranges")[0])
        seen.append(viewer.walk("."))
        seen.append(viewer.walk(","))
        seen.append(viewer.walk("["))
        seen.append(viewer.ask("model.arrows.value.length"))
        viewer.ask("model.search('/gemm|elementwise/i')")
        for _ in range(3):
            viewer.page.focus("#warpline-search")
            seen.append(viewer.walk("Enter"))
        viewer.wait("!model.matches.isPending.value && !model.hits.isPending.value")
        viewer.frame()
        seen.append(viewer.find("[data-testid=matches]").inner_text())
        assert " of " in seen[-1]
        seen.append(viewer.ask(HITS))
        viewer.page.keyboard.press("Escape")
        said.append(seen)
    assert said[0] == said[1]


def test_a_server_that_is_gone_is_told_of(open_viewer, serve, monkeypatch):
    monkeypatch.setattr(tiles, "MOST_EVENTS", 30)
    viewer = open_viewer()
    open_tiled(viewer, serve(SMALL))
    known = statistics(viewer)
    context = viewer.page.context
    context.set_offline(True)
    viewer.wait("model.isServerGone.value")  # it is noticed without a request
    viewer.frame()
    assert "The server has stopped" in viewer.find("[role=alert].banner").inner_text()
    assert statistics(viewer) == known  # what is known stays
    start, end = list(views(viewer))[2]
    viewer.ask(f"model.show({{ start: {start}, end: {end} }})")
    viewer.ask("model.search('gemm')")
    viewer.settle()
    viewer.wait("model.sums.isPending.value")
    viewer.frame()
    sums = viewer.find("[data-testid=selection-sums]")
    assert "%" not in sums.inner_text()
    assert {"Not known: the server has stopped."} == set(
        sums.locator(".pending").evaluate_all("all => all.map(one => one.title)")
    )
    assert "Not known" in viewer.find(".tab-body").inner_text()
    assert not viewer.find(".tab-body table").count()
    assert viewer.find("[aria-label='Next highlighted event']").is_disabled()
    viewer.ask("model.stepMatch(1)")
    viewer.wait("model.told.value === 'The server has stopped.'")
    viewer.press("3")
    assert viewer.find(".tables nav button:disabled").count() > 5
    shown = viewer.find("body").inner_text()
    assert "Failed to fetch" not in shown
    viewer.press("2")
    context.set_offline(False)
    viewer.wait("!model.isServerGone.value && !model.isSumming.value")
    rest(viewer)
    assert viewer.find("[role=alert].banner").count() == 0
    assert "%" in sums.inner_text()
    assert all("ERR_INTERNET_DISCONNECTED" in problem for problem in viewer.problems)


def test_a_zoom_never_shows_the_sums_of_another_view(open_viewer, serve, monkeypatch):
    """Answers are held back: meanwhile the page says that its sums are pending."""
    monkeypatch.setattr(tiles, "MOST_EVENTS", 30)
    viewer = open_viewer()
    open_tiled(viewer, serve(SMALL))
    sums = viewer.find("[data-testid=selection-sums]")
    assert "%" in sums.inner_text()
    held, is_held = [], [True]
    viewer.page.route(
        "**/ask/sums", lambda route: held.append(route) if is_held else route.continue_()
    )
    start, end = list(views(viewer))[3]
    viewer.ask(f"model.show({{ start: {start}, end: {end} }})")
    viewer.settle()
    viewer.wait("model.sums.isPending.value")
    viewer.frame()
    assert "%" not in sums.inner_text()
    assert "…" in sums.inner_text()
    assert viewer.find(".tab-inside.pending").count() == 1
    is_held.clear()
    for one in held:
        one.continue_()
    viewer.wait("!model.isSumming.value")
    viewer.frame()
    texts = viewer.find("[data-busy-ns]").evaluate_all("all => all.map(one => one.innerText)")
    assert texts
    assert all(0 <= float(text.split(": ")[1].split("%")[0]) <= 100 for text in texts)
    assert viewer.problems == []


def test_a_zoom_never_shows_the_flame_graph_of_another_view(open_viewer, serve, monkeypatch):
    monkeypatch.setattr(tiles, "MOST_EVENTS", 30)
    viewer = open_viewer()
    open_tiled(viewer, serve(SMALL))
    viewer.press("l")
    said = viewer.find(".flame-said")
    said.wait_for()
    viewer.wait("!document.querySelector('.tab-inside.pending')")
    held, is_held = [], [True]
    viewer.page.route(
        "**/ask/events", lambda route: held.append(route) if is_held else route.continue_()
    )
    start, end = list(views(viewer))[3]
    viewer.ask(f"model.show({{ start: {start}, end: {end} }})")
    viewer.settle()
    said.wait_for(state="hidden")
    assert held
    is_held.clear()
    for one in held:
        one.continue_()
    said.wait_for(state="visible")
    assert viewer.problems == []
