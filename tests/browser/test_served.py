"""`warpline view`: the same page from a server, and its access control."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from urllib.parse import urlsplit

import pytest


@contextlib.contextmanager
def served(path):
    """Run `warpline view` on a recording and yield its URL."""
    command = [sys.executable, "-m", "warpline", "view", "--no-browser", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), process.communicate()[1]
            yield url
        finally:
            process.terminate()  # not Ctrl+C, which background jobs of a shell ignore
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=60)
            process.kill()


@pytest.fixture(scope="module")
def address(recording):
    with served(recording("nsys/host_sync.bad")) as url:
        yield url


def test_a_served_page_asks_its_own_origin_alone(open_viewer, address):
    viewer = open_viewer()
    viewer.open(address)
    viewer.press("w", "w", "n")
    viewer.wait("model.finding.value === 'F1'")
    viewer.press("3")
    viewer.find(".tables-body .scroll").wait_for()
    assert viewer.problems == []
    asked = [url for url in viewer.requests if not url.startswith("blob:")]
    assert len(asked) > 3
    assert all(url.startswith(address) for url in asked)
    answers = viewer.page.evaluate(
        """() => performance.getEntriesByType("resource").map((one) => one.responseStatus)"""
    )
    assert set(answers) <= {0, 200}  # 0: workers, not responses


def test_the_served_page_shows_what_the_report_shows(open_viewer, address, report):
    shown = []
    for target in (address, report("nsys/host_sync.bad")):
        viewer = open_viewer(viewport={"width": 1440, "height": 1200})
        viewer.open(target, "#t?a=20000000,60000000")
        viewer.settle()
        sums = viewer.find("[data-testid=selection-sums]").inner_text()
        pixels = viewer.find("canvas[role=application]").screenshot()
        shown.append((sums, pixels, viewer.table("GPU operations by name")))
        assert viewer.problems == []
    assert shown[0][0] == shown[1][0]
    assert shown[0][2] == shown[1][2]
    assert shown[0][2]
    assert shown[0][1] == shown[1][1]


def test_a_name_that_leads_here_is_refused(open_viewer, address):
    viewer = open_viewer()
    parts = urlsplit(address)
    answer = viewer.page.goto(f"http://attacker.example:{parts.port}{parts.path}")
    assert answer.status == 404
    assert viewer.find("body").inner_text().strip() == "not found"
    answer = viewer.page.goto(f"http://127.0.0.1:{parts.port}/")
    assert answer.status == 404


def test_another_page_can_neither_frame_nor_read_nor_embed_it(open_viewer, address, tmp_path):
    viewer = open_viewer()
    path = tmp_path / "attacker.html"
    path.write_text(f"<p>mine</p><iframe src='{address}'></iframe>")
    viewer.page.goto(path.as_uri())
    viewer.page.wait_for_load_state("networkidle")
    (frame,) = viewer.page.frames[1:]
    assert frame.locator("#warpline-head, canvas, main").count() == 0
    read = viewer.page.evaluate(
        """async (url) => {
          const went = [];
          for (const mode of ["cors", "no-cors"]) {
            await fetch(url + "blocks/0", { mode }).then(() => went.push(mode), () => undefined);
          }
          return went;
        }""",
        address,
    )
    assert read == []


def test_a_killed_server_is_announced_and_what_has_arrived_stays(open_viewer, recording):
    with served(recording("nsys/host_sync.bad")) as url:
        viewer = open_viewer()
        viewer.open(url)
        viewer.press("3")
        viewer.find(".tables-body .scroll").wait_for()
        read = viewer.find(".tables nav button[aria-current]")
        assert viewer.find(".tables nav button:disabled").count() == 0
    viewer.wait("model.isServerGone.value")  # without a request by the user
    viewer.frame()
    banner = viewer.find("[role=alert].banner")
    assert banner.inner_text().startswith("The server has stopped;")
    assert read.is_enabled()
    assert viewer.find(".tables-body .scroll").is_visible()
    assert viewer.find(".tables nav button:enabled").count() == 1
    viewer.press("g", "k")  # a key opens a table that has not arrived
    viewer.press("g", "s")
    viewer.find(".tables-body [role=alert]").wait_for()
    assert viewer.find(".tables-body [role=alert]").inner_text() == "The server has stopped."
    viewer.press("2")
    viewer.settle()
    assert "% of the view busy" in viewer.find("[data-testid=selection-sums]").inner_text()
    viewer.ask("model.selectId('kernel:40')")  # its attributes are in a block on the server
    more = viewer.find("[aria-label='Selected event'] .pending")
    more.wait_for()
    assert more.get_attribute("title") == "Not known: the server has stopped."
    assert "Failed to fetch" not in viewer.find("body").inner_text()
    assert all("ERR_CONNECTION_REFUSED" in problem for problem in viewer.problems)


def test_a_broken_connection_and_a_closing_page_say_nothing_of_the_browser_s(open_viewer, address):
    viewer = open_viewer()
    viewer.open(address)
    viewer.page.route("**/blocks/*", lambda route: route.abort())
    viewer.press("3")
    alert = viewer.find(".tables-body [role=alert]")
    alert.wait_for()
    assert alert.inner_text() == "The connection to the server was interrupted."
    assert viewer.find("[role=alert].banner").count() == 0
    said = []
    viewer.page.expose_function("said", lambda text: said.append(text))  # noqa: PLW0108
    viewer.page.evaluate(
        """() => new MutationObserver(() => said(document.body.innerText))
            .observe(document.body, { childList: true, characterData: true, subtree: true })"""
    )
    viewer.page.unroute("**/blocks/*")
    viewer.page.route("**/blocks/*", lambda _: None)  # never answered
    viewer.press("g", "s")
    viewer.page.goto("about:blank")
    assert said
    assert not any("stopped" in text or "Failed" in text for text in said)
    assert all("ERR_FAILED" in problem for problem in viewer.problems)
