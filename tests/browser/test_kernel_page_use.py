"""The page of profiled kernels by keys, for axe, on paper, without a script, cut, hostile."""

from __future__ import annotations

import re

import pytest
from support.browsing import COLOR_RULES, violations
from support.kernel_pages import ADDRESSES, Page

import warpline
from warpline.trace import MemorySource, Trace

# Contrast is looked at where each color is used: it takes seconds for whole pages.
PARTS = {
    "summary": ("main",),
    "details": (".cards", "#roofline"),
    "source": ("#hottest", "#chosen"),
}


STRUCTURE = ["wcag2a", "wcag21a"]


def test_axe_objects_to_nothing(source_page):
    viewer = source_page.open()
    for name, address in ADDRESSES.items():
        source_page.turn(address)
        if name == "details":
            for section in ("speed_of_light", "metrics"):
                viewer.find(f"#{section} details > summary").first.click()
            viewer.find("#metrics input").fill("sm__cycles_elapsed")
            viewer.find("#metrics input").blur()
        assert violations(viewer, rules=STRUCTURE) == []
        for theme in ("light", "dark"):
            assert viewer.ask("document.documentElement.dataset.theme") == theme
            for part in PARTS[name]:
                assert violations(viewer, part, COLOR_RULES) == []
            viewer.press("t")


def test_keys_turn_pages_and_read_plots(viewer, kernel_report):
    page = Page(viewer, *kernel_report("target"))
    page.open()
    viewer.press("2")
    viewer.wait("model.kernel.value !== null")
    viewer.press("j")
    assert viewer.ask("model.row.value") == 1
    viewer.press("k", "k")
    assert viewer.ask("model.row.value") == 0
    viewer.press("j")
    viewer.wait("model.kernel.value?.id === 1")
    viewer.find("#roofline svg[role=img]").focus()
    viewer.press("ArrowRight")
    point = page.kernels[1]["sections"]["roofline"]["points"][0]
    assert point["level"] in viewer.find("#roofline .said").inner_text()
    assert viewer.find("#roofline .roof-point.chosen").count() == 1
    viewer.press("t")
    assert viewer.ask("document.documentElement.dataset.theme") == "dark"
    viewer.press("1")
    viewer.find("#filter").wait_for()


def test_tab_reaches_everything_and_shows_where_it_is(source_page):
    viewer = source_page.open()
    for address in ADDRESSES.values():
        source_page.turn(address)
        viewer.ask("document.activeElement.blur()")
        check_tab_stops(viewer)


def check_tab_stops(viewer):
    wanted = viewer.page.evaluate(
        """() => [...document.querySelectorAll(
          'button:enabled, select, input, a[href], summary, [tabindex="0"]')]
          .filter(one => one.checkVisibility()).length"""
    )
    seen = 0
    for _ in range(wanted):
        viewer.page.keyboard.press("Tab")
        seen += viewer.page.evaluate(
            """() => document.activeElement !== document.body
              && getComputedStyle(document.activeElement).outlineStyle !== 'none'"""
        )
    assert seen >= wanted - 1  # the browser itself may take one


def test_print_is_black_on_white_without_controls(source_page):
    viewer = source_page.open("#details?launch=0")
    viewer.press("t")
    viewer.page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert viewer.ask("document.documentElement.dataset.theme") == "light"
    viewer.page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    assert viewer.ask("document.documentElement.dataset.theme") == "dark"
    viewer.page.emulate_media(media="print")
    assert viewer.find("#roofline").is_visible()
    for control in ("nav.index", ".bar nav", "select"):
        assert not viewer.find(control).first.is_visible()


def test_without_a_script_the_longest_launches_are_listed(open_viewer, kernel_report):
    path, kernels = kernel_report("target")
    viewer = open_viewer(java_script_enabled=False)
    viewer.page.goto(path.as_uri())
    assert viewer.find("main tbody tr").count() == len(kernels["kernels"])
    assert "need JavaScript" in viewer.find("noscript").inner_text()


NAMES = (
    "</script><script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 2">',
    "\u202egnp.exe\u2066",
    "before\x00after\x1b[31m",
    "k" * 10_000,
    "<!--<script>",
    "__proto__",
)


def hostile_trace():
    """Return launches and samples of code in which every name is an attack."""
    count = len(NAMES)
    names = [*NAMES]
    return Trace(
        MemorySource(
            {
                "process": {"pid": [1], "name": [NAMES[1]]},
                "profiled_kernel": {
                    "launch_number": list(range(count)),
                    "process_id": [0] * count,
                    "name": names,
                    "short_name": names,
                    "mangled_name": names,
                    **{f"{of}_{axis}": [1] * count for of in ("grid", "block") for axis in "xyz"},
                },
                "kernel_metric": {
                    "profiled_kernel_id": list(range(count)),
                    "name": ["gpu__time_duration.sum"] * count,
                    "value": [1e6] * count,
                },
            }
        )
    )


def test_hostile_names_run_nowhere_and_are_seen(viewer, tmp_path):
    viewer.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    path = warpline.report(hostile_trace(), tmp_path / "<img src=x onerror=window.pwned=5>.html")
    viewer.page.goto(path.as_uri())
    viewer.wait("marks('warpline-shown') > 0")
    for number in range(len(NAMES)):
        viewer.page.evaluate(f"() => window.warpline.model.openKernel({number})")
        viewer.wait("model.kernel.value !== null")
        viewer.frame()
        assert viewer.page.evaluate("() => window.pwned ?? ({}).pwned ?? null") is None
        assert viewer.find("img, iframe, object, #warpline-app script").count() == 0
        shown = viewer.find("main h1").inner_text()
        assert NAMES[number][:3].strip("\u202e") in shown
        for unseen in "\x00\x1b\u202e\u2066":
            assert unseen not in shown


def test_a_truncated_file_is_told(open_viewer, kernel_report, tmp_path):
    path, _ = kernel_report("target")
    content = path.read_text()
    cut = re.sub(r'(data-block="0">[A-Za-z0-9+/]{200})[A-Za-z0-9+/=]+', r"\1", content)
    broken = tmp_path / "cut.html"
    broken.write_text(cut)
    viewer = open_viewer()
    viewer.page.goto(broken.as_uri() + "#details?launch=0")
    viewer.wait("marks('warpline-shown') > 0")
    for number in range(5):
        viewer.page.evaluate(f"() => window.warpline.model.openKernel({number})")
    viewer.page.evaluate("() => window.warpline.model.openCode(0)")
    viewer.find(".problem[role=alert]").wait_for()
    assert "damaged" in viewer.find(".problem").inner_text()
