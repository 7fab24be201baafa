"""Links from backward ranges and operators to the forward ones that created them."""

from __future__ import annotations

import pytest
from support.viewer_container import Decoded

from warpline.trace import MemorySource, Trace

from .conftest import packed

FORWARD = {"start_ns": [0, 10, 40], "end_ns": [100, 30, 60]}
BACKWARD = {"start_ns": [200, 210], "end_ns": [290, 280]}
SPANS = {key: FORWARD[key] + BACKWARD[key] for key in FORWARD}
THREADS = [0, 0, 0, 1, 1]
THREAD = {"process_id": [0, 0], "tid": [1, 2]}


def links_of(tables, link):
    container = packed(Trace(MemorySource({"process": {"pid": [1]}, "thread": THREAD, **tables})))[
        1
    ]
    found = Decoded(container.head, [block.data for block in container.blocks])
    (described,) = [each for each in found.head["links"] if each["name"] == link]
    events = [event for row in found.rows for event in found.events(row)]
    return described["table"], {
        event.row: event.links[link] for event in events if event.links.get(link) is not None
    }


def ranges(second):
    names = ["layer", "aten::mm, seq = 7", f"aten::mm, seq = {second}"]
    names += ["autograd::engine::evaluate_function: MmBackward0", "MmBackward0, seq = 7"]
    return {"range": {**SPANS, "thread_id": THREADS, "process_id": [0] * 5, "name": names}}


def operators(second):
    numbers = {"sequence": [None, 7, second, None, 7], "forward_thread": [0, 0, 0, 0, 1]}
    names = ["model", "aten::mm", "aten::mm", "evaluate_function", "MmBackward0"]
    common = {"thread_id": THREADS, "process_id": [0] * 5, "name": names}
    return {"op": {**SPANS, **common, **numbers}}


@pytest.mark.parametrize(
    ("make", "table", "link"), [(ranges, "range", "forward"), (operators, "op", "forward_op")]
)
def test_a_backward_event_leads_to_the_last_forward_one_with_its_number(make, table, link):
    assert links_of(make(8), link) == (table, {4: 1})
    assert links_of(make(7), link) == (table, {4: 2})  # the number increases after the operator


def test_without_sequence_numbers_there_are_no_links():
    tables = {"range": {**SPANS, "thread_id": THREADS, "process_id": [0] * 5, "name": ["a"] * 5}}
    assert links_of(tables, "forward") == ("range", {})
