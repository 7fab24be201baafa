"""The page of profiled kernels: its numbers against the JSON, keyboard, hostile names, print."""

from __future__ import annotations

import json
import lzma
import os
import re

import pytest
from support.browsing import COLOR_RULES, Viewer, violations

import warpline
from warpline.cli import main
from warpline.trace import MemorySource, Trace

SECTIONS = {
    *("speed_of_light", "roofline", "pipes", "memory", "scheduler", "warp_states"),
    *("instructions", "launch", "occupancy", "workload", "samples"),
}
ADDRESSES = {"summary": "#summary", "details": "#details?launch=0", "source": "#source?code=0"}


class Page:
    """The page of one report, and the JSON of the same report."""

    def __init__(self, viewer: Viewer, path, kernels):
        self.viewer = viewer
        self.path = path
        self.kernels = kernels["kernels"]
        self.code = kernels["code"]

    def open(self, address="#summary"):
        self.viewer.page.goto("about:blank")
        self.viewer.page.goto(self.path.as_uri() + address)
        self.viewer.wait("model.isComplete.value && marks('warpline-shown') > 0")
        return self.shown(address)

    def turn(self, address):
        self.viewer.page.evaluate("(address) => { location.hash = address; }", address)
        self.viewer.wait(f"model.page.value === '{address[1:].partition('?')[0]}'")
        return self.shown(address)

    def shown(self, address):
        """Wait until what an address asks for is there."""
        waiting = {"details": "model.kernel.value !== null", "source": "model.code.value !== null"}
        for page, condition in waiting.items():
            if address.startswith(f"#{page}"):
                self.viewer.wait(condition)
        self.viewer.frame()
        return self.viewer

    def values(self, selector):
        """Return the numbers of elements, by their metric."""
        found = self.viewer.find(selector).evaluate_all(
            "all => all.map(one => [one.dataset.metric ?? null, one.dataset.value ?? null])"
        )
        return [(metric, None if value is None else float(value)) for metric, value in found]


@pytest.fixture(scope="session")
def reports(shared, data_dir):
    """Return the page of a committed report and its JSON, made once for all workers."""

    def reports(name):
        path = shared / f"{name}.ncu-rep"
        page, listed = path.with_suffix(".html"), path.with_suffix(".json")
        if not listed.exists():
            packed = (data_dir / "ncu" / f"{name}.ncu-rep.xz").read_bytes()
            path.write_bytes(lzma.decompress(packed))
            warpline.report(warpline.open(path), page, overwrite=True)
            part = listed.with_suffix(f".{os.getpid()}")  # complete when it has its name
            arguments = ["--json", "--page", "source", "--print-details", "all"]
            assert main(["kernels", str(path), *arguments, "--log-file", str(part)]) == 0
            part.replace(listed)
        return page, json.loads(listed.read_text())

    return reports


@pytest.fixture(params=["target", "uncoalesced.fixed"])
def page(request, viewer, reports):
    """The page of each committed report."""
    return Page(viewer, *reports(request.param))


@pytest.fixture
def source(viewer, reports):
    """The page of the report with source."""
    return Page(viewer, *reports("uncoalesced.fixed"))


def test_the_summary_has_the_numbers_of_the_launches(page):
    viewer = page.open()
    rows = viewer.find("tr[data-launch]")
    assert rows.count() == len(page.kernels)
    for row in rows.all():
        kernel = page.kernels[int(row.get_attribute("data-launch"))]
        metrics = kernel["metrics"]
        cells = [cell.get_attribute("data-value") for cell in row.locator("td").all()]
        numbers = [None if text is None else float(text) for text in cells]
        assert numbers[0] == kernel["id"]
        assert numbers[4] == metrics["gpu__time_duration.sum"]
        assert numbers[7] == metrics["launch__registers_per_thread"]
        assert numbers[10] == metrics["sm__cycles_elapsed.max"]
        for place, name in ((5, "sm__throughput"), (6, "gpu__compute_memory_throughput")):
            percent = metrics[f"{name}.avg.pct_of_peak_sustained_elapsed"]
            assert numbers[place] == pytest.approx(percent / 100)
        found = [one for one in kernel["findings"] if one["outcome"] != "no-gain"]
        if found:
            saving = found[0]["saving_ns"] or found[0]["saving_high_ns"]
            assert numbers[1] == saving
            assert found[0]["title"] in row.inner_text()


def test_launches_are_sorted_filtered_and_lead_to_their_details(viewer, reports):
    page = Page(viewer, *reports("target"))
    page.open()
    durations = [kernel["metrics"]["gpu__time_duration.sum"] for kernel in page.kernels]

    def shown():
        launches = viewer.find("tr[data-launch]").evaluate_all(
            "all => all.map(one => Number(one.dataset.launch))"
        )
        return [durations[launch] for launch in launches]

    assert shown() == sorted(durations, reverse=True)
    viewer.find("th button:has-text('Duration')").click()
    assert shown() == sorted(durations)
    assert viewer.find("th[aria-sort=ascending]").inner_text().startswith("Duration")
    viewer.find("#filter").fill("gemm")
    assert len(shown()) == 1
    viewer.find("tr[data-launch] button.link").click()
    viewer.wait("model.kernel.value !== null")
    assert "gemm" in viewer.find("main h1").inner_text()
    viewer.page.go_back()
    viewer.find("#filter").wait_for()
    viewer.find("li[data-kernel] button").first.click()
    assert shown() == [max(durations)]


def test_every_section_has_its_numbers(page):
    seen = set()
    for number, kernel in enumerate(page.kernels[:2]):
        page.open(f"#details?launch={number}")
        sections = kernel["sections"]
        seen |= set(sections)
        assert page.viewer.find(".sections > section[id]").evaluate_all(
            "all => all.map(one => one.id)"
        ) == ["findings", *sorted(sections, key=place_of), "metrics"]
        assert_bars(page, "speed_of_light", sections)
        assert_bars(page, "pipes", sections)
        assert_facts(page, sections)
        assert_stalls_and_instructions(page, sections)
        assert_memory(page, sections["memory"])
        assert_roofline(page, sections["roofline"])
        assert_occupancy(page, sections["occupancy"])
        shown = page.values("#workload td.number")
        assert shown == [
            (one["metric"], one[part])
            for one in sections["workload"]
            for part in ("min", "avg", "max")
        ]
        plotted = page.viewer.find("#samples figure")
        assert plotted.count() == len(sections.get("samples", ()))
    assert seen == SECTIONS


def place_of(section):
    order = ["speed_of_light", "pipes", "roofline", "memory", "warp_states", "instructions"]
    order += ["scheduler", "launch", "occupancy", "workload", "samples"]
    return order.index(section)


def assert_bars(page, section, sections):
    wanted = [(one["metric"], one["ratio"]) for one in sections[section]]
    for one in sections[section]:
        wanted += [(part["metric"], part["ratio"]) for part in one.get("breakdown", ())]
    assert sorted(page.values(f"#{section} td.number"), key=str) == sorted(wanted, key=str)


def assert_facts(page, sections):
    for section in ("scheduler", "launch"):
        wanted = [(one["metric"], one["value"]) for one in sections[section]]
        assert page.values(f"#{section} dd") == wanted


def assert_stalls_and_instructions(page, sections):
    wanted = {(one["metric"], one["cycles_per_instruction"]) for one in sections["warp_states"]}
    assert set(page.values("#warp_states td.number")) == wanted
    executed = sorted(one["executed"] for one in sections["instructions"])
    assert sorted(value for _, value in page.values("#instructions td.number")) == executed


def assert_memory(page, memory):
    drawn = page.viewer.find("#memory .arrow").evaluate_all(
        "all => all.map(one => ({ ...one.dataset }))"
    )
    numbers = ("requests", "bytes", "ratio")
    found = {
        (one["from"], one["to"]): [float(one[n]) if n in one else None for n in numbers]
        for one in drawn
    }
    wanted = {(one["from"], one["to"]): [one[n] for n in numbers] for one in memory["edges"]}
    assert found == wanted
    boxes = page.viewer.find("#memory .box").evaluate_all("all => all.map(one => one.dataset.node)")
    assert boxes == [node["id"] for node in memory["nodes"]]
    cells = [value for table in memory["tables"] for row in table["rows"] for value in row[1:]]
    values = [value for _, value in page.values("#memory h4 ~ .table-room td, #memory h4 + div td")]
    assert [value for value in values if value is not None] == [
        value for value in cells if value is not None
    ]


def assert_roofline(page, roofline):
    drawn = page.viewer.find("#roofline .roof-point").count()
    visible = [one for one in roofline["points"] if one["flop_per_byte"] and one["flop_per_s"]]
    has_both = len({one["kind"] for one in roofline["ceilings"]}) == 2
    assert drawn == (len(visible) if has_both else 0)
    cells = page.viewer.find("#roofline table[aria-label='Points of the roofline'] tbody td")
    numbers = cells.evaluate_all("all => all.map(one => one.dataset.value)")
    assert [numbers[at + 1 : at + 4] for at in range(0, len(numbers), 6)] == [
        [text_of(one[part]) for part in ("flop_per_byte", "flop_per_s", "bytes_per_s")]
        for one in roofline["points"]
    ]


def text_of(value):
    """Return a number as JavaScript writes it."""
    if value is None:
        return None
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def assert_occupancy(page, occupancy):
    shown = [value for _, value in page.values("#occupancy p b")]
    assert shown == [occupancy["theoretical_ratio"], occupancy["achieved_ratio"]]
    for curve in occupancy["curves"]:
        figure = page.viewer.find(f"#occupancy figure[data-curve={curve['by']}]")
        assert figure.locator("path.line").count() == 1
        assert figure.locator(".point.now").count() == (curve["current"] is not None)


def test_findings_come_first_with_their_bounds(viewer, reports):
    page = Page(viewer, *reports("target"))
    found = 0
    for number, kernel in enumerate(page.kernels):
        page.open(f"#details?launch={number}")
        shown = viewer.find("article.finding")
        assert shown.count() == len(kernel["findings"])
        for article, finding in zip(shown.all(), kernel["findings"], strict=True):
            text = article.inner_text()
            assert article.get_attribute("data-rule") == finding["rule"]
            for part in ("title", "claim", "fix"):
                assert finding[part] in text
            article.locator("summary").click()
            evidence = article.locator("tbody th").all_inner_texts()
            assert evidence == [one["metric"] for one in finding["evidence"]]
            found += 1
    assert found


def test_the_line_of_a_finding_leads_to_the_source(viewer, reports):
    page = Page(viewer, *reports("target"))
    lines = {
        number: kernel["findings"][0]["lines"][0]
        for number, kernel in enumerate(page.kernels)
        if kernel["findings"] and kernel["findings"][0]["lines"]
    }
    number, line = next(iter(lines.items()))
    page.open(f"#details?launch={number}")
    viewer.find("article.finding .finding-lines button").first.click()
    viewer.wait("model.code.value !== null && model.chosen.value !== null")
    chosen = viewer.ask("model.chosen.value")
    code = page.code[page.kernels[number]["code"]]
    assert code["files"][chosen["file"]]["path"] == line["file"]
    assert chosen["line"] == line["line"]
    viewer.frame()
    assert viewer.find("#lines .chosen .code-number").inner_text() == str(line["line"])


def test_code_and_its_values(source):
    viewer = source.open("#source?code=0")
    (code,) = source.code
    rows = viewer.find("#instructions [role=row][data-at]")
    for row in rows.all()[:20]:
        instruction = code["instructions"][int(row.get_attribute("data-at"))]
        shown = row.locator(".code-value").get_attribute("data-value")
        assert (float(shown) if shown else None) == (instruction["values"][0])
        text = row.locator(".code-text").inner_text()
        assert text == (instruction["sass"] or instruction["encoding"])
    totals = dict(source.values("#chosen dd"))
    for metric, total in zip(code["metrics"], code["totals"], strict=True):
        if metric["name"] in totals:
            assert totals[metric["name"]] == pytest.approx(total)
    own = [file for file in code["files"] if file["kind"] != "PTX"]
    values = [line["values"][0] for file in own for line in file["lines"] if line["values"]]
    first = viewer.find("#hottest li").first
    assert float(first.get_attribute("data-value")) == max(values)


def test_a_line_leads_to_its_instructions_and_its_stalls(source):
    viewer = source.open("#source?code=0")
    (code,) = source.code
    first = viewer.find("#hottest li").first
    line = int(first.get_attribute("data-line"))
    first.locator("button").click()
    viewer.frame()
    own = [one for one in code["instructions"] if one["line"] == line and one["file"] == 0]
    assert viewer.ask("model.chosen.value.line") == line
    assert viewer.find("#lines .chosen .code-number").inner_text() == str(line)
    assert viewer.find("#instructions .lit").count() > 0
    stalls = dict(source.values("#chosen .bars td.number"))
    places = {metric["name"]: place for place, metric in enumerate(code["metrics"])}
    for name, value in stalls.items():
        assert value == sum(one["values"][places[name]] or 0 for one in own)
    viewer.find("#instructions").focus()
    viewer.press("Home")
    assert viewer.ask("model.chosen.value.place") == 0
    viewer.press("ArrowDown", "ArrowDown")
    assert viewer.ask("model.chosen.value.place") == 2
    wanted = code["instructions"][2]["line"]
    if wanted is not None:
        assert viewer.find("#lines .chosen .code-number").inner_text() == str(wanted)
    viewer.press("Escape")
    assert viewer.ask("model.chosen.value") is None


def test_search_goes_from_match_to_match(source):
    viewer = source.open("#source?code=0")
    (code,) = source.code
    file = viewer.ask("model.file.value ?? 0")
    word = "rowsum"
    lines = [one["line"] for one in code["files"][file]["lines"] if word in (one["text"] or "")]
    viewer.press("/")
    viewer.page.keyboard.type(word)
    for line in [*lines, lines[0]]:
        viewer.press("Enter")
        assert viewer.ask("model.chosen.value.line") == line
    assert viewer.find("#lines .found").count() > 0


def test_the_metric_chooses_the_heat(source):
    viewer = source.open("#source?code=0")
    (code,) = source.code
    name = code["metrics"][-1]["name"]
    viewer.find("#metric").select_option(name)
    viewer.frame()
    assert f"metric={name}" in viewer.page.url
    shown = viewer.find("#instructions [role=row][data-at]").first
    place = int(shown.get_attribute("data-at"))
    value = shown.locator(".code-value").get_attribute("data-value")
    assert (float(value) if value else None) == code["instructions"][place]["values"][-1]


# Contrast is looked at where each color is used: it takes seconds for whole pages.
PARTS = {
    "summary": ("main",),
    "details": (".cards", "#roofline"),
    "source": ("#hottest", "#chosen"),
}
STRUCTURE = ["wcag2a", "wcag21a"]


def test_axe_objects_to_nothing(source):
    viewer = source.open()
    for name, address in ADDRESSES.items():
        source.turn(address)
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


def test_keys_turn_pages_and_read_plots(viewer, reports):
    page = Page(viewer, *reports("target"))
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


def test_tab_reaches_everything_and_shows_where_it_is(source):
    viewer = source.open()
    for address in ADDRESSES.values():
        source.turn(address)
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


def test_print_is_black_on_white_without_controls(source):
    viewer = source.open("#details?launch=0")
    viewer.press("t")
    viewer.page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert viewer.ask("document.documentElement.dataset.theme") == "light"
    viewer.page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    assert viewer.ask("document.documentElement.dataset.theme") == "dark"
    viewer.page.emulate_media(media="print")
    assert viewer.find("#roofline").is_visible()
    for control in ("nav.index", ".bar nav", "select"):
        assert not viewer.find(control).first.is_visible()


def test_without_a_script_the_longest_launches_are_listed(open_viewer, reports):
    path, kernels = reports("target")
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


def test_a_truncated_file_is_told(open_viewer, reports, tmp_path):
    path, _ = reports("target")
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
