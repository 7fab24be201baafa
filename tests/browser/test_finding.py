"""Finding events: search, arrows between launches and kernels, and findings of the diagnosis."""

from __future__ import annotations

import bisect
import re

import pytest

import warpline

pytestmark = pytest.mark.shows("nsys/host_sync.bad")


def test_a_regular_expression_is_walked_in_time(opened, trace):
    pattern = "nvjet.*(TNN|TNT)|splitK"
    columns = trace.columns("kernel", "start_ns", "name_id")
    names = columns["name_id"].to_list()
    found = [
        (start, f"kernel:{row}")
        for row, (start, name) in enumerate(zip(columns["start_ns"].values, names, strict=True))
        if re.search(pattern, trace.strings.text(name))
    ]
    expected = [event for _, event in sorted(found)]
    assert 5 <= len(expected) < len(names)
    whole = opened.view
    opened.press("/")
    assert opened.ask("document.activeElement.id") == "warpline-search"
    opened.page.keyboard.type(f"/{pattern}/")
    walked = [opened.walk("Enter") for _ in range(4)]
    assert walked == expected[:4]
    assert opened.walk("Shift+Enter") == expected[2]
    # Typing in the field must not trigger shortcuts.
    assert opened.view == whole
    opened.press("Escape", "Escape", "Escape")
    assert opened.find("#warpline-search").input_value() == ""
    assert opened.ask("model.lit.value === null")


def test_what_a_search_does_not_find_is_drawn_fainter(opened):
    before = opened.find("canvas[role=application]").screenshot()
    opened.press("/")
    opened.page.keyboard.type("no such name")
    opened.frame()
    assert opened.find("canvas[role=application]").screenshot() != before
    opened.find("#warpline-search").fill("/(/")  # an invalid pattern is a text, not an error
    opened.frame()
    assert opened.ask("model.query.value") == "/(/"


@pytest.mark.parametrize("row", [0, 57, 200])
def test_an_arrow_leads_from_work_to_its_launch_and_back(opened, trace, ask_file, row):
    start = int(trace.columns("kernel", "start_ns")["start_ns"].values[row])
    ((correlation,),) = ask_file(
        "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start = ?", start
    )
    calls = ask_file(
        "SELECT start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId = ?", correlation
    )
    opened.open(opened.page.url.partition("#")[0], f"#t?sel=kernel:{row}")
    opened.wait(f"model.address().selected === 'kernel:{row}'")
    opened.wait("model.arrows.value.length > 0")
    assert opened.walk("[").startswith("api_call:")
    call = opened.ask("[model.selected.value.start, model.selected.value.end]")
    assert [tuple(call)] == calls
    opened.wait(f"model.arrows.value.some(({{ to }}) => to.id === 'kernel:{row}')")
    arrows = opened.ask("model.arrows.value.map(({ from, to }) => [from.start, to.start])")
    assert [call[0], start] in arrows
    opened.frame()
    details = opened.find("[aria-label='Selected event']").inner_text()
    assert "launched" in details.replace("launched by", "")
    assert opened.walk("]") == f"kernel:{row}"
    opened.wait("model.arrows.value.length > 0")
    opened.frame()
    details = opened.find("[aria-label='Selected event']").inner_text()
    (delay,) = re.findall(r"launched by\s+\S+ ([\d.]+) us earlier", details)
    assert float(delay) == pytest.approx((start - call[0]) / 1e3, rel=5e-3)


def test_full_stop_and_comma_walk_a_row_in_time(opened, trace):
    columns = trace.columns("kernel", "start_ns")["start_ns"].values
    opened.open(opened.page.url.partition("#")[0], "#t?sel=kernel:100")
    opened.wait("model.selected.value !== null")
    times = [opened.ask("model.selected.value.start")]
    assert times == [columns[100]]
    for _ in range(3):
        opened.walk(".")
        times.append(opened.ask("model.selected.value.start"))
    assert times == sorted(times)
    for _ in range(3):
        opened.walk(",")
    assert opened.selected == "kernel:100"


def test_n_walks_the_findings_and_shows_their_places(opened, trace):
    findings = warpline.analyze(trace).findings
    assert len(findings) >= 3
    opened.press("w", "w", "w")
    for finding in [*findings, findings[0]]:
        opened.press("n")
        opened.wait(f"model.finding.value === '{finding.id}'")
        shown = opened.find("[aria-label=Finding]").inner_text()
        for text in (finding.id, finding.title, finding.claim, finding.fix):
            assert text in shown
        windows = sorted({window for one in finding.evidence for window in one.windows_ns})
        if windows:
            start, end = opened.view
            assert start <= windows[0][0] < windows[0][1] <= end
            assert end - start < 3 * (windows[0][1] - windows[0][0])
    opened.press("Shift+N")
    opened.wait(f"model.finding.value === '{findings[-1].id}'")


def test_a_finding_uncovers_its_rows_and_leads_to_each_of_its_places(opened, trace):
    (finding,) = [one for one in warpline.analyze(trace).findings if one.id == "F1"]
    evidence = next(one for one in finding.evidence if one.table == "api_call")
    threads = trace.columns("api_call", "thread_id")["thread_id"].values[list(evidence.rows)]
    (row_id,) = {f"thread{thread}/api" for thread in threads.tolist()}
    row = opened.find(f".row-label[data-row='{row_id}']")
    row.get_by_role("button", name="Hide").click()
    row.wait_for(state="detached")
    opened.press("1")
    opened.find("#warpline-static [data-finding=F1]").first.click()
    row.wait_for(state="visible")
    opened.wait(f"model.address().selected === 'api_call:{evidence.rows[0]}'")
    windows = sorted({window for one in finding.evidence for window in one.windows_ns})
    for place, (start, end) in enumerate(windows, 1):
        buttons = opened.find("[aria-label=Finding]").get_by_role("button")
        buttons.get_by_text(str(place), exact=True).click()
        opened.wait(f"model.view.value.start <= {start} && model.view.value.end >= {end}")
        assert opened.view[1] - opened.view[0] < 3 * (end - start)


@pytest.mark.shows("nsys/rich_metrics_sampling")
def test_a_kernel_of_the_backward_thread_shows_its_step_and_its_forward_module(show, ask_file):
    """Compared with the sequence numbers in the names of the file's ranges."""
    viewer = show()
    kernels = ask_file(
        """WITH backward AS MATERIALIZED
        (SELECT globalTid, start, end FROM NVTX_EVENTS WHERE text LIKE '%Backward0, seq = %')
        SELECT k.start, r.start, r.globalTid FROM CUPTI_ACTIVITY_KIND_KERNEL k
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON k.correlationId = r.correlationId
        WHERE EXISTS (SELECT 1 FROM backward n WHERE n.globalTid = r.globalTid
        AND n.start <= r.start AND n.end >= r.end)
        ORDER BY k.start"""
    )
    assert len(kernels) > 100
    steps = viewer.head["steps"][0]
    around_query = "SELECT text FROM NVTX_EVENTS WHERE globalTid = ? AND start <= ? AND end >= ?"
    for time, call, thread in (kernels[20], kernels[len(kernels) // 3], kernels[100]):
        around = ask_file(f"{around_query} ORDER BY start DESC", thread, call, call)
        (number,) = next(
            found.groups()
            for (text,) in around
            if (found := re.search(r"Backward0, seq = (\d+)", text))
        )
        ((forward, start, end, maker),) = ask_file(
            "SELECT text, start, end, globalTid FROM NVTX_EVENTS WHERE text NOT LIKE '%Backward%'"
            " AND text LIKE ? ORDER BY start DESC LIMIT 1",
            f"%, seq = {number},%",
        )
        outer = ask_file(f"{around_query} ORDER BY start, end DESC", maker, start, end)
        rows = [row for row in viewer.head["rows"] if row["kind"] == "stream"]
        viewer.page.evaluate(
            f"warpline.model.show({{ start: {time - 2_000}, end: {time + 2_000} }})"
        )
        viewer.frame()
        viewer.click(rows[0]["id"], time + 100)
        viewer.wait("model.forwardPath.value.length > 0")
        viewer.frame()
        place = bisect.bisect_right(steps["start_ns"], time) - 1
        details = viewer.find(".details dl")
        facts = dict(
            details.evaluate(
                """list => [...list.querySelectorAll("dt")].map((title) => [
                  title.textContent, title.nextElementSibling.textContent])"""
            )
        )
        wanted = " \u203a ".join(text[:80] for (text,) in outer)
        assert facts["Backward of"] == wanted
        assert forward[:80] in wanted
        assert any(name in wanted for name in ("layer_", "forward"))
        if time < steps["end_ns"][place]:
            assert facts["Step"] == steps["text"][place]
        else:
            assert "Step" not in facts
