"""The page of profiled kernels: its numbers against the JSON, findings and source."""

from __future__ import annotations

import pytest
from support.kernel_pages import Page

SECTIONS = {
    *("speed_of_light", "roofline", "pipes", "memory", "scheduler", "warp_states"),
    *("instructions", "launch", "occupancy", "workload", "samples"),
}


@pytest.fixture(params=["target", "uncoalesced.fixed"])
def page(request, viewer, kernel_report):
    """The page of each committed report."""
    return Page(viewer, *kernel_report(request.param))


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


def test_launches_are_sorted_filtered_and_lead_to_their_details(viewer, kernel_report):
    page = Page(viewer, *kernel_report("target"))
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


def test_findings_come_first_with_their_bounds(viewer, kernel_report):
    page = Page(viewer, *kernel_report("target"))
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


def test_the_line_of_a_finding_leads_to_the_source(viewer, kernel_report):
    page = Page(viewer, *kernel_report("target"))
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


def test_code_and_its_values(source_page):
    viewer = source_page.open("#source?code=0")
    (code,) = source_page.code
    rows = viewer.find("#instructions [role=row][data-at]")
    for row in rows.all()[:20]:
        instruction = code["instructions"][int(row.get_attribute("data-at"))]
        shown = row.locator(".code-value").get_attribute("data-value")
        assert (float(shown) if shown else None) == (instruction["values"][0])
        text = row.locator(".code-text").inner_text()
        assert text == (instruction["sass"] or instruction["encoding"])
    totals = dict(source_page.values("#chosen dd"))
    for metric, total in zip(code["metrics"], code["totals"], strict=True):
        if metric["name"] in totals:
            assert totals[metric["name"]] == pytest.approx(total)
    own = [file for file in code["files"] if file["kind"] != "PTX"]
    values = [line["values"][0] for file in own for line in file["lines"] if line["values"]]
    first = viewer.find("#hottest li").first
    assert float(first.get_attribute("data-value")) == max(values)


def test_a_line_leads_to_its_instructions_and_its_stalls(source_page):
    viewer = source_page.open("#source?code=0")
    (code,) = source_page.code
    first = viewer.find("#hottest li").first
    line = int(first.get_attribute("data-line"))
    first.locator("button").click()
    viewer.frame()
    own = [one for one in code["instructions"] if one["line"] == line and one["file"] == 0]
    assert viewer.ask("model.chosen.value.line") == line
    assert viewer.find("#lines .chosen .code-number").inner_text() == str(line)
    assert viewer.find("#instructions .lit").count() > 0
    stalls = dict(source_page.values("#chosen .bars td.number"))
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


def test_search_goes_from_match_to_match(source_page):
    viewer = source_page.open("#source?code=0")
    (code,) = source_page.code
    file = viewer.ask("model.file.value ?? 0")
    word = "rowsum"
    lines = [one["line"] for one in code["files"][file]["lines"] if word in (one["text"] or "")]
    viewer.press("/")
    viewer.page.keyboard.type(word)
    for line in [*lines, lines[0]]:
        viewer.press("Enter")
        assert viewer.ask("model.chosen.value.line") == line
    assert viewer.find("#lines .found").count() > 0


def test_the_metric_chooses_the_heat(source_page):
    viewer = source_page.open("#source?code=0")
    (code,) = source_page.code
    name = code["metrics"][-1]["name"]
    viewer.find("#metric").select_option(name)
    viewer.frame()
    assert f"metric={name}" in viewer.page.url
    shown = viewer.find("#instructions [role=row][data-at]").first
    place = int(shown.get_attribute("data-at"))
    value = shown.locator(".code-value").get_attribute("data-value")
    assert (float(value) if value else None) == code["instructions"][place]["values"][-1]
