"""Firefox: a report opens, moves, and shows correct sums."""

from __future__ import annotations

import pytest
from support import browsing, firefox_bidi

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    program = browsing.find_program("WARPLINE_FIREFOX", browsing.FIREFOX)
    if program is None:
        pytest.skip("no Firefox; apt-get install firefox-esr")
    pytest.importorskip("websockets", reason="no websockets; pip install websockets")
    with firefox_bidi.running(program, tmp_path_factory.mktemp("firefox")) as firefox:
        yield firefox


@pytest.fixture
def opened(firefox, report, subject):
    """The complete timeline of a report, without problems."""
    firefox.problems.clear()
    firefox.requests.clear()
    url = report(subject).as_uri()
    firefox.open("about:blank")
    firefox.open(f"{url}#t")
    firefox.wait("model.isComplete.value && marks('warpline-full') > 0")
    yield firefox
    firefox.ask("new Promise((done) => setTimeout(done, 0))")  # wait for pending messages
    assert firefox.problems == []
    own = ("about:", "data:font/")  # Firefox does not report file requests
    assert [one for one in browsing.strangers(firefox.requests) if not one.startswith(own)] == []


def view(firefox):
    return firefox.ask("[warpline.model.view.value.start, warpline.model.view.value.end]")


def test_it_draws_and_zooms_by_keys(opened):
    opened.press("0")
    start, end = view(opened)
    whole = opened.screenshot()
    opened.press("w")
    now = view(opened)
    assert now[1] - now[0] == pytest.approx(0.7 * (end - start))
    assert sum(now) == pytest.approx(start + end)
    opened.press("D")
    assert view(opened)[0] > now[0]
    opened.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert opened.screenshot() != whole
    rows = opened.ask("warpline.model.recording.rows.filter((row) => row.error).length")
    assert rows == 0


def test_a_selected_area_s_sum_is_right(opened, ask_file):
    opened.press("0")
    box = opened.ask(
        """(() => {
          const canvas = document.querySelector("canvas[role=application]").getBoundingClientRect();
          const row = document.querySelector(".row-label[data-row='gpu0/state']");
          const { top, height } = row.getBoundingClientRect();
          return [canvas.left, canvas.width, top + height / 2];
        })()"""
    )
    left, width, y = box
    opened.drag((left + 0.3 * width, y), (left + 0.55 * width, y + 2))
    opened.wait("model.area.value !== null")
    start, end = opened.ask(
        "[warpline.model.area.value.span.start, warpline.model.area.value.span.end]"
    )
    whole = view(opened)
    assert (end - start) == pytest.approx(0.25 * (whole[1] - whole[0]), rel=0.02)
    expected = browsing.busy_ns(ask_file(browsing.OPERATIONS), start, end)
    assert 0 < expected < end - start
    opened.wait(f"document.querySelector('[data-busy-ns]')?.dataset.busyNs === '{expected}'")


def test_findings_and_tables(opened):
    opened.press("n")
    opened.wait("model.finding.value === 'F1' && model.selected.value !== null")
    shown = opened.ask("document.querySelector('[aria-label=Finding]').textContent")
    assert "pageable" in shown
    opened.press("3")
    opened.wait("document.querySelectorAll('.tables-body [role=row]').length > 1")
