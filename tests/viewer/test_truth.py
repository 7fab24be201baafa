"""The page compared with its source file, read through plain SQL and JSON."""

from __future__ import annotations

import gzip
import itertools
import lzma
import math
import os
import re
from pathlib import Path

import pytest
from support import captures
from support.file_events import (
    kineto_facts,
    kineto_memory,
    nsys_facts,
    nsys_metrics,
    page_facts,
)
from support.viewer_container import Decoded

import warpline

from .conftest import packed

KINETO = sorted((captures.FOLDER.parent / "kineto").glob("*.json.*"))
SHARED = Path(__file__).parents[3] / "shared" / "data"
# Plain Python takes a minute for the largest files: they need WARPLINE_TEST_ALL.
_LIMIT = 1 << 62 if os.environ.get("WARPLINE_TEST_ALL") else 600_000
OTHERS = sorted(
    path
    for path in SHARED.rglob("*")
    if path.parent.name in {"nsys", "kineto"} and path.is_file() and path.stat().st_size < _LIMIT
)


def shown(path):
    container = packed(warpline.open(path))[1]
    return Decoded(container.head, [block.data for block in container.blocks])


def check(path):
    """Compare every event, the busy and idle segments of each GPU, and the counters."""
    page = shown(path)
    if path.suffix == ".sqlite":
        facts, shift = nsys_facts(path), int(page.head["offset_ns"])
        samples = nsys_metrics(path)
    else:
        facts, base = kineto_facts(path)
        origin = page.head["origin_utc_ns"]
        shift = int(origin) - base if origin else first(facts) - first(page_facts(page, 0))
        samples = kineto_memory(path)
    found = page_facts(page, shift)
    assert facts
    assert found - facts == {}
    assert facts - found == {}
    check_sums(page)
    check_tiles(page, facts, shift)
    check_samples(page, samples, shift)


def first(facts):
    return min(fact.start_ns for fact in facts)


def check_sums(page):
    for row_id, row in page.rows.items():
        events = page.events(row_id)
        assert row["count"] == len(events)
        if row["kind"] != "counter":
            assert row["busy_ns"] == sum(event.end_ns - event.start_ns for event in events)


def check_tiles(page, facts, shift):
    """A GPU is busy while any operation runs; idle segments fill the rest without gaps."""
    kinds = {item["name"]: item["kind"] for item in page.head["categories"]}
    states = [row for row in page.rows.values() if row["kind"] == "state"]
    used = {fact.track[1] for fact in facts if fact.track[0] == "gpu"}
    assert {gpu_of(page, row) for row in states} == used
    for row in states:
        events = page.events(row["id"])
        for one, other in itertools.pairwise(events):
            assert one.end_ns == other.start_ns
        busy = [event for event in events if kinds[event.category] == "busy"]
        idle = [event for event in events if kinds[event.category] == "idle"]
        assert len(busy) + len(idle) == len(events)
        work = [fact for fact in facts if fact.track[:2] == ("gpu", gpu_of(page, row))]
        assert union((event.start_ns + shift, event.end_ns + shift) for event in busy) == union(
            (fact.start_ns, fact.end_ns) for fact in work
        )


def gpu_of(page, row):
    while row["parent"] is not None:
        row = page.rows[row["parent"]]
    return int(re.search(r"GPU (-?\d+)", row["label"])[1])  # type: ignore[index]


def has_value(event):
    return event.value is not None and not math.isnan(event.value)


def union(intervals):
    found: list[list[int]] = []
    for start, end in sorted(pair for pair in intervals if pair[0] < pair[1]):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def check_samples(page, samples, shift):
    rows = {
        (gpu_of(page, row), row["title"] or row["label"]): row
        for row in page.rows.values()
        if row["kind"] == "counter"
    }
    for key, expected in samples.items():
        row = rows[key]
        events = [event for event in page.events(row["id"]) if has_value(event)]
        assert [event.start_ns + shift for event in events] == [time for time, _ in expected]
        scale = {"ratio": 0.01, "hz": 1e6}.get(row["unit"], 1)  # of percent and MHz
        values = [value * scale for _, value in expected]
        assert [event.value for event in events] == pytest.approx(values, rel=1e-6)


@pytest.mark.parametrize("name", captures.cases())
def test_every_event_of_an_export_stands_where_it_should(capture, name):
    check(capture(name))


@pytest.mark.parametrize("packed_path", KINETO, ids=lambda path: path.name)
def test_every_event_of_a_trace_stands_where_it_should(packed_path, tmp_path):
    opened = gzip.open if packed_path.suffix == ".gz" else lzma.open
    path = tmp_path / packed_path.stem
    with opened(packed_path) as file:
        path.write_bytes(file.read())
    check(path)


@pytest.mark.skipif(not OTHERS, reason="the shared recordings are not here")
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_every_event_of_a_shared_recording_stands_where_it_should(path):
    check(path)


@pytest.mark.parametrize("column", ["name", "duration", "gap", "launch"])
def test_a_page_that_is_wrong_is_found_out(capture, column):
    """The comparison detects a change of one byte in one column."""
    path = capture("pageable_h2d.fixed")
    facts, page = nsys_facts(path), shown(path)
    assert page_facts(page, 0) == facts
    part = next(row for row in page.rows.values() if row["kind"] == "stream")["parts"][0]
    place = part["offset"]
    for item in part["columns"]:
        if item["name"] == column:
            break
        place += part["count"] * item["planes"]
    raw = bytearray(page.raw[part["block"]])
    raw[place] ^= 2
    page.raw[part["block"]] = bytes(raw)
    page.forget()
    assert page_facts(page, 0) != facts
