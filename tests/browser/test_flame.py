"""Flame graphs, commands, and links of the overview compared with the recording."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpline
from warpline.derived.work.operations import operations
from warpline.units import format_ns

pytestmark = pytest.mark.shows("nsys/host_sync.bad")


def boxes(viewer):
    """Return level, label, and times of each box of the flame graph."""
    said = viewer.page.evaluate(
        """[...document.querySelectorAll('[role=tree] [role=treeitem]')]
          .map((one) => [Number(one.ariaLevel), one.ariaLabel])"""
    )
    found = []
    for level, text in said:
        parts = re.fullmatch(r"(.*?): ((?:\w+ time [\d.]+ \w+(?:, )?)+), .*", text)
        assert parts, text
        label, times = parts.groups()
        found.append((level, label, dict(re.findall(r"(\w+) time ([\d.]+ \w+)", times))))
    return found


def test_the_flame_graph_of_layers_has_the_numbers_of_the_table(show, trace):
    viewer = show("#k?k=layers")
    viewer.page.get_by_role("button", name="Flame graph").click()
    viewer.find("[role=treeitem]").first.wait_for()
    table = warpline.stats(trace, "layers").columns
    keys = ("depth", "name", "device_busy_ns", "host_ns")
    lines = zip(*(table[key].to_list() for key in keys), strict=True)
    wanted = {
        (depth + 2, name.strip(), format_ns(device), format_ns(host))
        for depth, name, device, host in lines
        if device > 0
    }
    shown = [
        (level, label, *(times[key] for key in ("GPU", "CPU")))
        for level, label, times in boxes(viewer)
    ]
    assert set(shown[1:]) <= wanted
    assert {one for one in wanted if one[1].startswith(("step", "forward", "layer"))} <= set(shown)


def test_the_flame_graph_of_an_area_holds_all_work_in_it(show, trace):
    viewer = show()
    start, end = 30_000_000, 60_000_000
    viewer.page.evaluate(
        f"warpline.model.area.value = {{ span: {{ start: {start}, end: {end} }}, rows: null }}"
    )
    viewer.page.get_by_role("tab", name="Flame graph").click()
    work = operations(trace)
    inside = np.minimum(work.end_ns, end) - np.maximum(work.start_ns, start)
    wanted = format_ns(int(inside[inside > 0].sum()))
    viewer.find(f'[role=treeitem][aria-label*="GPU time {wanted},"]').first.wait_for()
    (whole, *threads) = boxes(viewer)
    assert whole[:2] == (1, "all")
    assert whole[2]["GPU"] == wanted
    assert any(level == 2 for level, *_ in threads)
    # Zoom with keys only: into the first thread, and out again.
    count = len(threads)
    viewer.find("[role=treeitem][tabindex='0']").focus()
    viewer.press("ArrowDown", "Enter")
    viewer.wait("document.querySelectorAll('[aria-expanded=true]').length > 0")
    viewer.press("Escape")
    viewer.wait("document.querySelectorAll('[role=treeitem][aria-expanded=true]').length === 0")
    assert len(boxes(viewer)) == count + 1


def test_an_area_of_one_rank_s_gpu_has_the_threads_of_that_rank(viewer, report):
    viewer.page.set_viewport_size({"width": 1440, "height": 1800})
    viewer.open(report("nsys/ddp_serial.bad.rank0", "nsys/ddp_serial.bad.rank1"))
    states = [at for at, row in enumerate(viewer.head["rows"]) if row["kind"] == "state"]
    viewer.page.get_by_role("tab", name="Flame graph").click()
    for rank, state in enumerate(states):
        viewer.page.evaluate(
            "row => { const { model } = window.warpline;"
            " model.area.value = { span: model.limits, rows: new Set([row]) }; }",
            state,
        )
        viewer.find(f'[role=treeitem][aria-label*="rank {rank} "]').first.wait_for()
        viewer.find(f'[role=treeitem][aria-label*="rank {1 - rank} "]').first.wait_for(
            state="detached"
        )
        threads = [label for level, label, times in boxes(viewer) if level == 2 and "GPU" in times]
        assert threads
        assert all(f"rank {rank} " in label for label in threads)


def test_the_palette_leads_to_a_row_and_gives_the_focus_back(show):
    viewer = show("#o")
    viewer.press("Control+k")
    assert viewer.find("dialog [role=combobox]").count() == 1
    viewer.page.keyboard.type("go stream 7")
    first = viewer.find("dialog [role=option][aria-selected=true]").inner_text()
    assert "stream 7" in first
    viewer.press("Enter")
    viewer.wait("model.page.value === 'timeline'")
    assert viewer.find("dialog[open]").count() == 0
    viewer.press("g", "e")
    viewer.wait("model.page.value === 'environment'")


def test_figures_of_the_overview_lead_to_their_events(show):
    viewer = show("#o")
    viewer.find("button[data-part='0/host-sync']").first.click()
    viewer.wait("model.selected.value !== null")
    assert viewer.ask("model.page.value") == "timeline"
    assert viewer.ask("model.nameOf(model.selected.value)") == "host-sync"
    assert viewer.ask("model.recording.head.rows[model.selected.value.row].id") == "gpu0/state"
    first = viewer.ask("model.selected.value.start")
    viewer.page.get_by_role("button", name="Next highlighted event").click()
    viewer.wait(f"model.selected.value.start > {first}")
    assert viewer.ask("model.nameOf(model.selected.value)") == "host-sync"
    viewer.press("1")
    viewer.find(".wl-step").nth(2).click()
    viewer.wait("model.page.value === 'timeline'")
    assert viewer.ask("model.step.value") in {2, 3}  # the plot has all steps, as the list does
    viewer.press("1")
    viewer.find(".wl-finding button[data-event]").first.click()
    viewer.wait("model.selected.value.id.startsWith('api_call:')")


def test_a_finding_keeps_its_rows_in_view(show):
    viewer = show("#o")
    viewer.find("button[data-finding=F1]").click()
    viewer.wait("model.finding.value === 'F1'")
    pinned = viewer.ask(
        "model.layout.value.pinned.map((one) => model.recording.head.rows[one.row].id)"
    )
    (rows,) = [one["rows"] for one in viewer.head["findings"] if one["id"] == "F1"]
    assert pinned == rows[:4]
    viewer.press("Escape", "Escape", "Escape", "Escape")
    assert viewer.ask("model.layout.value.pinned.length") == 0
