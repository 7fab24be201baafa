"""Links of the overview: each has a target in the page."""

from __future__ import annotations

import re
import shlex

import pytest
from support.viewer_container import Decoded

import warpline
from warpline.presentation import Link
from warpline.result import ANALYSES, CHECKS, Evidence
from warpline.viewer.links import Links
from warpline.viewer.page import page
from warpline.viewer.static_page import static_page

TABLES = ("cuda_gpu_kern_sum", "steps", "breakdown", "overlap", "kernel_class_sum", "phases")


@pytest.fixture
def shown(make, capture):
    """The overview of a recording as text, and its decoded container."""
    diagnosis, container = make(warpline.open(capture("host_sync.bad")), TABLES)
    decoded = Decoded(container.head, [block.data for block in container.blocks])
    return str(static_page(diagnosis, container.head)), decoded, diagnosis


def values(text, name):
    return re.findall(rf'data-{name}="([^"]*)"', text)


def test_parts_lead_to_stretches_of_their_device(shown):
    text, container, _ = shown
    categories = {item["name"] for item in container.head["categories"]}
    parts = [value.split("/", 1) for value in values(text, "part")]
    assert {"launch-bound", "host-sync", "gemm"} <= {category for _, category in parts}
    for device, category in parts:
        assert category in categories
        events = container.events(f"gpu{device}/state")
        assert any(event.category == category for event in events), category


def test_tables_events_windows_and_ranges_are_in_the_page(shown):
    text, container, _ = shown
    held = {item["name"] for item in container.head["results"]}
    assert values(text, "table")
    assert set(values(text, "table")) <= held
    start, end = container.head["start_ns"], container.head["end_ns"]
    windows = [tuple(map(int, value.split(","))) for value in values(text, "window")]
    assert windows
    assert all(start <= low < high <= end for low, high in windows)
    ids = {
        f"{event.table}:{event.row}"
        for row in container.rows
        for event in container.events(row)
        if event.table
    }
    events = values(text, "event")
    assert events
    assert set(events) <= ids
    names = set(container.names["texts"])
    for name in values(text, "range"):
        bare = re.sub(r"^[^:]+:(?!:)", "", name)  # a range's name does not include its domain
        pattern = re.compile(re.escape(bare).replace(r"\*", r"\d+"))
        assert any(pattern.fullmatch(one) for one in names), name


def test_buttons_are_off_or_hidden_until_a_script_runs(shown):
    text, _, _ = shown
    buttons = re.findall(r"<button([^>]*)>", text)
    assert buttons
    assert all('disabled=""' in attributes or 'hidden=""' in attributes for attributes in buttons)


def test_commands_are_those_of_the_command_line(shown):
    text, _, diagnosis = shown
    commands = [shlex.split(value) for value in values(text, "copy")]
    assert ["warpline", "analyze", "host_sync.bad.sqlite"] in commands
    assert {tuple(words[:2]) for words in commands} == {
        ("warpline", "analyze"),
        ("warpline", "stats"),
        ("warpline", "explain"),
    }
    rules = {finding.rule for finding in diagnosis.findings}
    assert {words[2] for words in commands if words[1] == "explain"} == rules


def test_every_line_of_the_checklist_has_a_table(shown):
    _, _, diagnosis = shown
    assert {check.id for check in diagnosis.checks} == set(CHECKS.names())
    assert {CHECKS.get(check.id).table for check in diagnosis.checks} <= set(ANALYSES.names())


def test_evidence_leads_to_its_first_event_otherwise_to_its_time():
    links = Links(("a b.sqlite",), {}, frozenset({"kernel"}), 100)
    one = Evidence("x", "kernel", (7, 9), 2, ((300, 400),))
    other = Evidence("x", "stream_wait", (7,), 1, ((300, 400),))
    assert 'data-event="kernel:7"' in str(links.evidence(one))
    assert 'data-window="200,300"' in str(links.evidence(other))
    assert links.evidence(Evidence("x")) == "x"
    assert links.link(Link("table", "steps"), "14 ms") == "14 ms"


def test_a_command_is_copied_whole_or_not_at_all():
    few = Links(tuple(f"rank {i}.sqlite" for i in range(5)), {}, frozenset(), 0)
    text = str(few.command("warpline analyze"))
    assert "'rank 4.sqlite'" in values(text, "copy")[0].replace("&#x27;", "'")
    assert "rank 4" not in re.sub(r'data-copy="[^"]*"', "", text)
    many = Links(tuple(f"rank{i}.sqlite" for i in range(500)), {}, frozenset(), 0)
    assert not values(str(many.command("warpline analyze")), "copy")


def test_the_page_holds_the_overview(make, assets, capture):
    diagnosis, container = make(warpline.open(capture("host_sync.bad")))
    text = "".join(page(diagnosis, container, assets, "inline"))
    assert str(static_page(diagnosis, container.head)) in text
