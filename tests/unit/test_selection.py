"""Parts of a trace by the users' names."""

from __future__ import annotations

from typing import Any

import pytest

import warpline
from warpline.errors import MissingTableError, UsageError
from warpline.trace import MemorySource, Trace
from warpline.trace.selection import parse_window

PROCESSES: dict[str, dict[str, list[Any]]] = {
    "process": {"pid": [7, 8], "name": ["/usr/bin/python3", None]},
    "thread": {"process_id": [0, 1], "tid": [7, 8]},
    "device": {
        "gpu_index": [0, 1, 0],
        "uuid": ["GPU-AA11-22", "ab11", None],
        "name": ["x", "y", "z"],
    },
    "context": {
        "process_id": [0, 1, 1],
        "device_id": [0, 1, 2],
        "native_id": [1, 1, 2],
        "is_green": [False] * 3,
    },
    "stream": {"process_id": [0, 1, 1], "context_id": [0, 1, 2], "native_id": [7, 7, 13]},
}


def named_ranges(*rows) -> dict[str, list[Any]]:
    """Return a range table from (name, domain, start, end, process)."""
    names, domains, starts, ends, processes = map(list, zip(*rows, strict=True))
    return {
        "name": names,
        "domain": domains,
        "start_ns": starts,
        "end_ns": ends,
        "process_id": processes,
        "thread_id": processes,
        "source_id": [*range(len(rows))],
    }


@pytest.fixture
def trace():
    ranges = named_ranges(
        ("step", None, 30, 40, 0),
        ("step", None, 10, 20, 1),
        ("step", "lib", 50, 60, 0),
        ("a@b", None, 70, 80, 0),
        ("x/1", None, 90, 95, 0),
        (None, None, 0, 5, 0),
        ("inner", None, 32, 35, 0),
    )
    work: dict[str, list[Any]] = {
        "start_ns": [12, 33, 55, 72],
        "end_ns": [14, 58, 57, 74],
        "device_id": [1, 0, 0, 2],
        "context_id": [1, 0, 0, 2],
        "stream_id": [1, 0, 0, 2],
        "process_id": [1, 0, 0, 1],
        "correlation_id": [5, 5, 6, 7],
        "name": ["k12", "k33", "k55", "k72"],
    }
    calls: dict[str, list[Any]] = {
        "start_ns": [11, 31, 34, 61],
        "end_ns": [12, 32, 35, 62],
        "process_id": [1, 0, 0, 1],
        "thread_id": [1, 0, 0, 1],
        "correlation_id": [5, 5, 6, 7],
        "name": ["launch"] * 4,
    }
    return Trace(MemorySource({**PROCESSES, "range": ranges, "kernel": work, "api_call": calls}))


def kernels(part):
    return part["kernel"]["name"].to_list()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("step", ["k12"]),
        ("step/0", ["k12"]),
        ("step/1", ["k33"]),
        ("step@lib", ["k33", "k55"]),
        ("step@lib/0", ["k33", "k55"]),
        ("a@b", ["k72"]),
        ("x/1/0", []),
    ],
)
def test_an_instance_of_a_range_is_a_window(trace, words, expected):
    assert kernels(warpline.select(trace, filter_nvtx=words)) == expected


@pytest.mark.parametrize("words", ["nope", "x/1", "step@", "step@nope", "dom/0@lib", "", "STEP"])
def test_a_range_that_is_not_there(trace, words):
    with pytest.raises(UsageError, match="no range is named"):
        warpline.select(trace, filter_nvtx=words)


def test_a_range_in_a_domain_needs_its_domain():
    ranges = named_ranges(("step", "lib", 50, 60, 0))
    with pytest.raises(UsageError) as caught:
        warpline.select(Trace(MemorySource({"range": ranges})), filter_nvtx="step")
    assert caught.value.hint == "did you mean step@lib (1 instance)?"


def test_the_index_counts_in_the_chosen_processes(trace):
    part = warpline.select(trace, process="/usr/bin/python3", filter_nvtx="step/0")
    assert part.span() == (30, 40)
    with pytest.raises(UsageError, match="there is no 'step/1': range 'step' has 1 instance"):
        warpline.select(trace, process=7, filter_nvtx="step/1")


def test_many_names_are_not_all_listed():
    rows = [(f"name{row}", None, row, row + 1, 0) for row in range(40)]
    with pytest.raises(UsageError) as caught:
        warpline.select(Trace(MemorySource({"range": named_ranges(*rows)})), filter_nvtx="zzzz")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("name11 (1 instance) and 28 more")


def test_excluding_drops_every_instance_in_its_own_process(trace):
    # k33 and k55 were launched in process 0's step, k12 in process 1's; k72 outside of any.
    assert kernels(warpline.select(trace, exclude="step")) == ["k72"]
    assert kernels(warpline.select(trace, exclude=["inner", "a@b"])) == ["k12", "k33", "k72"]
    left = warpline.select(trace, exclude=["step", "inner"])["range"]["name"].to_list()
    assert left == [None, "step", "a@b", "x/1"]


def test_without_ranges_there_is_nothing_to_name():
    for filters in ({"filter_nvtx": "step"}, {"exclude": ["step"]}):
        with pytest.raises(MissingTableError, match="no ranges were recorded"):
            warpline.select(Trace(MemorySource({})), **filters)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"process": 7}, ["k33", "k55"]),
        ({"process": "8"}, ["k12", "k72"]),
        ({"process": "python3"}, ["k33", "k55"]),
        ({"process": ["7", 8]}, ["k12", "k33", "k55", "k72"]),
        ({"process": " 7 , 8 "}, ["k12", "k33", "k55", "k72"]),
        ({"device": 0}, ["k33", "k55", "k72"]),
        ({"device": 1}, ["k12"]),
        ({"device": "GPU-aa1"}, ["k33", "k55"]),
        ({"device": "aa112"}, ["k33", "k55"]),
        ({"device": "ab"}, ["k12"]),
        ({"stream": 7}, ["k12", "k33", "k55"]),
        ({"stream": "13"}, ["k72"]),
        ({"stream": 7, "device": 0}, ["k33", "k55"]),
        ({}, ["k12", "k33", "k55", "k72"]),
    ],
)
def test_rows_of_dimensions(trace, filters, expected):
    assert kernels(warpline.select(trace, **filters)) == expected


@pytest.mark.parametrize(
    "filters", [{"process": 9}, {"device": 2}, {"device": "GPU-"}, {"stream": 1}]
)
def test_a_dimension_that_is_not_there(trace, filters):
    with pytest.raises(UsageError, match="the recording has no"):
        warpline.select(trace, **filters)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/2", (1, 2)),
        ("1us/2ms", (1000, 2_000_000)),
        ("/5", (None, 5)),
        ("-3ns/", (-3, None)),
        ("4/4", (4, 4)),
    ],
)
def test_windows_in_words(text, expected):
    assert parse_window(text) == expected


@pytest.mark.parametrize("text", ["", "/", "5", "1/2/3", "2/1", "a/b", "1 /x"])
def test_no_window_in_words(text):
    with pytest.raises(UsageError):
        parse_window(text)
