"""The tables of the page, and the event table, the text alternative of the canvas."""

from __future__ import annotations

import json
import re

import pytest
from support.viewer_container import Decoded

import warpline
from warpline.presentation.kernel_names import short_names

pytestmark = pytest.mark.shows("nsys/host_sync.bad")


def decoded(path):
    """Read a report with the slow decoder of the tests."""
    import base64

    text = path.read_text()
    found = re.search(r'id="warpline-head">(.*?)</script>', text, re.DOTALL)
    blocks = re.findall(r'data-block="\d+">([^<]*)</script>', text)
    assert found
    return Decoded(json.loads(found[1]), [base64.b64decode(block) for block in blocks])


def lines_of(viewer, label):
    """Scroll through a list; return all its lines and the largest number rendered at a time."""
    found = viewer.page.evaluate(
        """async (label) => {
          const box = document.querySelector(`.scroll[aria-label=${JSON.stringify(label)}]`);
          const painted = () => new Promise((done) =>
            requestAnimationFrame(() => requestAnimationFrame(done)));
          const lines = new Map();
          let most = 0;
          box.scrollTop = 0;
          for (;;) {
            await painted();
            const shown = [...box.querySelectorAll("[role=row]")].slice(1);
            most = Math.max(most, shown.length);
            for (const row of shown) {
              lines.set(row.ariaRowIndex, [...row.children].map((cell) => cell.textContent.trim()));
            }
            if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) break;
            box.scrollTop += Math.max(20, box.clientHeight - 60);
          }
          return [[...lines].sort((a, b) => a[0] - b[0]).map((line) => line[1]), most,
                  Number(box.ariaRowCount ?? box.getAttribute("aria-rowcount"))];
        }""",
        label,
    )
    lines, most, count = found
    assert len(lines) == count - 1
    return lines, most


@pytest.fixture
def kernels(trace):
    """The kernel summary of `warpline stats`."""
    result = warpline.stats(trace, "cuda_gpu_kern_sum")
    names = [field.name for field in result.fields]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]


@pytest.fixture
def table(show):
    viewer = show("#k?k=cuda_gpu_kern_sum")
    viewer.find(".scroll").wait_for()
    return viewer


def columns_of(viewer):
    heads = viewer.find(".tables-body [role=columnheader]").all_inner_texts()
    return [re.sub(r"[ ▾▴]+$", "", head) for head in heads]


def test_the_tooltip_of_a_kernel_is_its_full_name(table, kernels):
    titles = table.find(".tables-body [role=row] button[title*=imeline]").evaluate_all(
        "all => all.map((one) => one.title)"
    )
    assert len(titles) > 10
    full = [kernel["name"][:1000] for kernel in kernels[: len(titles)]]
    assert titles == [f"{name}\nHighlight on the timeline" for name in full]


def test_a_table_holds_what_stats_says(table, kernels):
    lines, _ = lines_of(table, "CUDA GPU kernel summary")
    at = columns_of(table).index("Instances")
    name = columns_of(table).index("Name")
    assert [line[at].replace(",", "") for line in lines] == [str(k["instances"]) for k in kernels]
    short = short_names(kernel["name"] for kernel in kernels)
    assert [line[name] for line in lines] == [short[k["name"]] for k in kernels]
    command = table.find(".tables-body code").first.inner_text()
    assert command == "warpline stats -r cuda_gpu_kern_sum host_sync.bad.sqlite"


def test_a_column_sorts_both_ways(table, kernels):
    counts = [kernel["instances"] for kernel in kernels]
    assert counts != sorted(counts, reverse=True)
    at = columns_of(table).index("Instances")
    for wanted in (sorted(counts, reverse=True), sorted(counts)):
        head = table.find(".tables-body [role=columnheader]").filter(has_text="Instances")
        head.get_by_role("button").click()
        table.frame()
        lines, _ = lines_of(table, "CUDA GPU kernel summary")
        assert [int(line[at].replace(",", "")) for line in lines] == wanted


def test_a_search_keeps_what_matches_and_a_row_lights_its_events(table, kernels):
    pattern = "multi_tensor"
    wanted = [kernel for kernel in kernels if pattern in kernel["name"]]
    assert 0 < len(wanted) < len(kernels)
    table.find(".tables-body input[type=search]").fill(f"/{pattern}/")
    table.frame()
    lines, _ = lines_of(table, "CUDA GPU kernel summary")
    name = columns_of(table).index("Name")
    short = short_names(kernel["name"] for kernel in kernels)
    assert [line[name] for line in lines] == [short[kernel["name"]] for kernel in wanted]
    table.find(".tables-body [role=row] button[title*=imeline]").first.click()
    table.wait("model.page.value === 'timeline'")
    table.wait("model.lit.value?.some((one) => one)")
    lit = table.ask("model.recording.names.texts.filter((_, i) => model.lit.value[i])")
    assert set(lit) == {wanted[0]["name"]}
    assert table.walk(">").startswith("kernel:")
    assert table.ask("model.fullNameOf(model.selected.value)") == wanted[0]["name"]
    assert table.ask("model.nameOf(model.selected.value)") == short[wanted[0]["name"]]


def test_every_table_opens(viewer, report):
    viewer.open(report("nsys/rich_metrics_sampling"), "#k")
    results = viewer.head["results"]
    assert len(results) >= 8
    buttons = viewer.find("nav[aria-label=Tables] button")
    assert buttons.count() >= len(results)
    for spec in results:
        buttons.get_by_text(spec["title"], exact=True).first.click()
        table = viewer.find(f".scroll[aria-label={json.dumps(spec['title'])}]")
        table.wait_for()
        count = int(table.get_attribute("aria-rowcount") or 0) - 1
        lines = table.get_by_role("row").count() - 1
        assert 0 < lines <= min(count, 80)  # a list of any length renders only visible lines
        told = viewer.find(".tables-body [role=status]").first.inner_text()
        assert (
            re.sub(r"[^\w ]|(?<=\d)\s(?=\d)", "", told)
            == f"{count} of {count} row{'s' * (count != 1)}"
        )
    assert viewer.find("#warpline-app [role=alert]").count() == 0


@pytest.mark.parametrize("place", [None, 2])
def test_the_events_in_view_are_there_as_text(open_viewer, report, place):
    viewer = open_viewer(viewport={"width": 1440, "height": 1600})  # all rows fit
    path = report("bundled/pageable_h2d.bad")
    (steps,) = decoded(path).head["steps"]
    view = "" if place is None else f"?v={steps['start_ns'][place]},{steps['end_ns'][place]}"
    viewer.open(path, f"#t{view}")
    viewer.press("e")
    viewer.settle()
    start, end = viewer.view
    file = decoded(path)
    labels = viewer.find(".row-label").evaluate_all("all => all.map((one) => one.dataset.row)")
    assert len(labels) > 10
    shown = dict(zip(file.names["texts"], file.names["labels"], strict=True))
    expected = []
    for row_id in labels:
        row = file.rows[row_id]
        if row["kind"] == "counter":
            continue
        for number, event in enumerate(file.events(row_id)):
            if event.start_ns < end and event.end_ns > start:
                own = event.table and event.row is not None
                name = f"{event.table}:{event.row}" if own else f"{row_id}#{number}"
                expected.append((name, (shown[event.name] or event.name)[:300]))
    assert len(expected) > 100
    lines, most = lines_of(viewer, "Events in view")
    assert sorted((line[-1], line[0]) for line in lines) == sorted(expected)
    assert most < 80
    viewer.find(".list [role=cell] button").nth(3).click()
    viewer.wait("model.selected.value !== null")
    assert viewer.selected in {line[-1] for line in lines}
    assert viewer.problems == []


def test_the_environment_is_what_the_recording_says(show):
    viewer = show("#e")
    shown = viewer.find("section.environment").inner_text()
    assert viewer.head["environment"]
    for name, value in viewer.head["environment"]:
        assert name in shown
        assert value in shown
