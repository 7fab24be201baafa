"""Accessibility: without a script, in print, in dark mode, with keys only, with screen readers."""

from __future__ import annotations

import re

import pytest
from support.browsing import COLOR_RULES, RULES, violations

import warpline

PAGES = {"overview": "#o", "timeline": "#t", "plots": "#p", "tables": "#k", "environment": "#e"}


def test_axe_objects_to_nothing(viewer, report):
    viewer.open(report("bundled/pageable_h2d.bad"))
    for page, address in PAGES.items():
        viewer.turn(address)
        assert viewer.ask("model.page.value") == page
        assert violations(viewer) == []
        viewer.press("t")
        assert viewer.ask("document.documentElement.dataset.theme") == "dark"
        assert violations(viewer, rules=COLOR_RULES) == []
        viewer.press("t")
    viewer.ask("document.styleSheets[0].insertRule('button { color: #bbb !important }')")
    assert {rule for rule, *_ in violations(viewer)} == {"color-contrast"}


@pytest.mark.parametrize(("scheme", "rules"), [("light", RULES), ("dark", COLOR_RULES)])
def test_axe_objects_to_nothing_that_opens_later(open_viewer, report, scheme, rules):
    viewer = open_viewer(color_scheme=scheme)
    viewer.open(report("bundled/pageable_h2d.bad"))
    viewer.press("n", "b")
    viewer.wait("model.selected.value !== null")
    for tab in viewer.find("[role=tab]").all():
        tab.click()
        viewer.settle()
        assert violations(viewer, ".panel", rules) == []
    for part in (".finding", ".note"):
        assert violations(viewer, part, rules) == []
    for key, opened in (("?", "dialog[open]"), ("Control+k", ".palette")):
        viewer.find("canvas[role=application]").focus()
        viewer.press(key)
        viewer.find(opened).wait_for()
        assert violations(viewer, opened, rules) == []
        viewer.press("Escape")
        viewer.find(opened).wait_for(state="detached")
    viewer.press("g", "n")
    viewer.page.get_by_role("button", name="Flame graph").click()
    viewer.find("[role=treeitem]").first.wait_for()
    assert violations(viewer, ".tables", rules) == []
    assert viewer.problems == []


def test_the_theme_follows_the_system_and_a_key(open_viewer, report):
    path = report("bundled/pageable_h2d.bad")
    shades = {}
    for scheme in ("light", "dark"):
        viewer = open_viewer(color_scheme=scheme)
        viewer.open(path)
        shades[scheme] = background(viewer)
        picture = viewer.find("canvas[role=application]").screenshot()
        viewer.press("t")
        assert background(viewer) != shades[scheme]
        assert viewer.find("canvas[role=application]").screenshot() != picture
        viewer.press("t")
        assert background(viewer) == shades[scheme]
    assert shades["light"] > 200
    assert shades["dark"] < 60


def background(viewer):
    """Return the mean brightness of the page, from 0 to 255."""
    colour = viewer.ask("getComputedStyle(document.body).backgroundColor")
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return (red + green + blue) / 3


def test_tab_reaches_everything_and_shows_where_it_is(viewer, report):
    viewer.open(report("bundled/pageable_h2d.bad"))
    for address in PAGES.values():
        viewer.turn(address)
        check_tab_stops(viewer)


def check_tab_stops(viewer):
    wanted = viewer.page.evaluate(
        """() => {
          for (const one of document.querySelectorAll("[data-test-stop]"))
            delete one.dataset.testStop; // of the page before
          const all = document.querySelectorAll(
            "button, input, select, a[href], [tabindex], summary");
          let number = 0;
          for (const one of all) {
            if (one.disabled || !one.checkVisibility()) continue;
            // Arrow keys move within these; every other control has its own tab stop.
            const isWithin = one.closest("[role=tablist], [role=tree], [role=listbox]");
            const isControl = one.matches("button, input, select, a[href]") && !isWithin;
            if (one.tabIndex < 0 && !isControl) continue;
            if (one.closest(".list .room")) continue; // lines change while scrolling
            one.dataset.testStop = ++number;
          }
          return number;
        }"""
    )
    assert wanted > 10
    reached, unseen = set(), []
    for _ in range(wanted + 60):
        viewer.page.keyboard.press("Tab")
        stop, shows, html = viewer.page.evaluate(
            """() => {
              const now = document.activeElement;
              const style = getComputedStyle(now);
              const outline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
              const transparent = now.checkVisibility({ opacityProperty: true });
              return [now.dataset.testStop ?? "", (outline || style.boxShadow !== "none")
                && transparent, now.outerHTML.slice(0, 150)];
            }"""
        )
        if stop in reached:
            continue
        if stop:
            reached.add(stop)
            if not shows:
                unseen.append(html)
        if len(reached) == wanted:
            break
    missed = viewer.page.evaluate(
        """(reached) => [...document.querySelectorAll("[data-test-stop]")]
          .filter((one) => !reached.includes(one.dataset.testStop))
          .map((one) => one.outerHTML.slice(0, 150))""",
        sorted(reached),
    )
    assert missed == []
    assert unseen == []


def test_forced_colours_leave_what_is_chosen_visible(open_viewer, report):
    viewer = open_viewer(forced_colors="active")
    viewer.open(report("bundled/pageable_h2d.bad"))
    looks = viewer.find("nav[aria-label=Pages] button").evaluate_all(
        """all => all.map((one) => {
          const style = getComputedStyle(one);
          const look = [style.backgroundColor, style.color, style.borderColor, style.outline];
          return [one.ariaCurrent, [...look, style.borderWidth, style.textDecoration].join()];
        })"""
    )
    current = {look for is_current, look in looks if is_current == "page"}
    others = {look for is_current, look in looks if is_current != "page"}
    assert len(current) == 1
    assert not current & others
    assert violations(viewer) == []


def test_reduced_motion_moves_nothing(open_viewer, report):
    viewer = open_viewer(reduced_motion="reduce")
    viewer.open(report("bundled/pageable_h2d.bad"))
    viewer.press("w")
    assert viewer.ask("document.getAnimations().length") == 0
    moving = viewer.find("*").evaluate_all(
        """all => all.filter((one) => {
          const style = getComputedStyle(one);
          return parseFloat(style.transitionDuration) > 0 || style.scrollBehavior === "smooth";
        }).length"""
    )
    assert moving == 0


def test_without_a_script_the_overview_is_whole(open_viewer, report, recording):
    name = "nsys/host_sync.bad"
    viewer = open_viewer(java_script_enabled=False)
    viewer.page.goto(report(name).as_uri())
    shown = " ".join(viewer.find("body").inner_text().split())
    diagnosis = warpline.analyze(warpline.open(recording(name)))
    assert diagnosis.verdict in shown
    for finding in diagnosis.findings:
        assert finding.title in shown
        assert " ".join(finding.fix.split()) in shown
    for part in diagnosis.breakdown[0].parts:
        assert part.category in shown
    for check in diagnosis.checks:
        assert check.name in shown
    assert "JavaScript" in shown
    assert "incomplete" not in shown
    assert viewer.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_a_script_text_stands_out(open_viewer, report, scheme):
    viewer = open_viewer(java_script_enabled=False, color_scheme=scheme)
    viewer.page.goto(report("nsys/host_sync.bad").as_uri())

    def brightness(selector, what):
        style = f"element => getComputedStyle(element).{what}"
        red, green, blue = re.findall(r"[\d.]+", viewer.find(selector).first.evaluate(style))[:3]
        return (float(red) + float(green) + float(blue)) / 3

    page = brightness("body", "backgroundColor")
    assert (page > 128) == (scheme == "light")
    for selector in (".wl-verdict", ".wl-card"):
        ground = brightness(selector, "backgroundColor")
        assert abs(ground - page) < 40
        assert abs(ground - brightness(selector, "color")) > 128


def test_on_paper_there_is_the_overview(open_viewer, report):
    viewer = open_viewer(color_scheme="dark")
    viewer.open(report("nsys/host_sync.bad"))
    theme = "document.documentElement.dataset.theme"
    assert viewer.ask(theme) == "dark"
    viewer.page.emulate_media(media="print", color_scheme="dark")
    viewer.wait(f"{theme} === 'light'")
    assert not viewer.find("header.bar").is_visible()
    assert viewer.find("#warpline-static .wl-verdict").is_visible()
    paper = viewer.page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 12
    viewer.page.emulate_media(media="screen", color_scheme="dark")
    viewer.wait(f"{theme} === 'dark'")
    assert viewer.problems == []


def test_what_is_selected_is_said(viewer, report):
    viewer.open(report("nsys/host_sync.bad"))
    viewer.find("canvas[role=application]").focus()
    viewer.walk(".")
    event = viewer.ask("model.nameOf(model.selected.value)")
    assert event[:40] in viewer.said
    assert "GPU 0" in viewer.said
    viewer.press("k")
    viewer.wait("model.said.value !== ''")
    assert viewer.find("canvas[role=application]").get_attribute("aria-label")
