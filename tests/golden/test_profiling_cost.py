"""profiling_cost on traces small enough to count by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpline import api
from warpline.estimate import Estimate
from warpline.result import Result, Skipped
from warpline.trace import MemorySource, Trace, TraceMeta
from warpline.trace.recording import write_recording

Columns = Mapping[str, Sequence[Any]]

RANGES: Mapping[str, Sequence[Any]] = {
    "start_ns": [0, 100, 110, 500, 510, 900],
    "end_ns": [10, 400, 200, 800, 600, 950],
    "name": ["warm up", "step_0", "inner", "step_1", "inner", "step_x"],
}
CALLS: Mapping[str, Sequence[Any]] = {
    "start_ns": [50, 120, 130, 520],
    "end_ns": [60, 125, 140, 530],
    "name": ["cudaLaunchKernel"] * 4,
}
OVERHEAD: Mapping[str, Sequence[Any]] = {
    "start_ns": [0, 150, 300, 700],
    "end_ns": [40, 180, 310, 900],
    "name": ["CUPTI Buffer flush", "CUPTI Buffer flush", "CUPTI resource", "CUDA lazy loading"],
}


def trace_of(costs: Mapping[str, float], **tables: Columns) -> Trace:
    meta = TraceMeta((Path("run"),), "memory", span_ns=(0, 1000), record_cost_ns=costs)
    return Trace(MemorySource(tables, meta))


def test_a_recording_that_does_not_say_what_records_cost():
    found = api.run(trace_of({}, range=RANGES), "profiling_cost")
    assert isinstance(found, Skipped)
    sections = api.summary(trace_of({}, range=RANGES)).sections
    assert not any(section.name == "profiling_cost" for section in sections)


def test_records_times_their_cost_and_what_cupti_says():
    costs = {"range": 2.5, "mark": 9.0, "api_call": 20.0}
    trace = trace_of(costs, range=RANGES, api_call=CALLS, overhead=OVERHEAD)
    result = api.stats(trace, "profiling_cost")
    rows = [row[:5] for row in result.rows()]
    assert rows == [
        ("CUDA API calls", "Warpline", 4, 20.0, 80),
        ("CUPTI Buffer flush", "CUPTI", 2, 35.0, 70),
        ("NVTX ranges", "Warpline", 6, 2.5, 15),
        ("CUPTI resource", "CUPTI", 1, 10.0, 10),
    ]
    assert result.columns["span_ratio"].to_list() == [0.08, 0.07, 0.015, 0.01]
    # Two steps, from 100 to 800: three calls, one flush of 30, four ranges, one of CUPTI's others.
    assert result.columns["step_ns"].to_list() == [30, 15, 5, 5]
    assert result.notes[0].startswith("highest overhead: CUDA API calls; ")
    assert "-t nvtx" in result.notes[0]
    assert result.notes[1].startswith("not included: ")


def test_what_costs_next_to_nothing_needs_no_cure():
    assert api.stats(trace_of({"range": 0.05}, range=RANGES), "profiling_cost").notes == ()
    (note,) = api.stats(trace_of({"range": 0.5}, range=RANGES), "profiling_cost").notes
    assert note.startswith("highest overhead: NVTX ranges; ")


def test_of_a_sampled_run_the_share_is_of_the_samples():
    whole = trace_of({"range": 2.5}, range=RANGES)
    meta = replace(whole.meta, windows_ns=((100, 200), (500, 600)))
    table = {name: [values[place] for place in (2, 4)] for name, values in RANGES.items()}
    sampled = Trace(MemorySource({"range": table}, meta))
    (row,) = api.stats(sampled, "profiling_cost").rows()
    assert row[2:6] == (2, 2.5, 5, 5 / 200)


def test_backtraces_count_by_their_frames():
    frame: Columns = {"symbol": ["main", "b", "a", "c"], "module": ["x"] * 4}
    stack: Columns = {
        "parent_id": [None, None, 0, 2],
        "frame_id": [0, 3, 1, 2],
        "depth": [0, 0, 1, 2],
    }
    calls = {**CALLS, "stack_id": [3, 3, None, 1]}
    tables = {"range": RANGES, "api_call": calls, "stack": stack, "frame": frame}
    trace = trace_of({"call_frame": 10.0}, **tables)
    (row,) = api.stats(trace, "profiling_cost").rows()
    # Three frames twice and one: the first of them lies before the steps.
    assert row[:5] == ("Backtraces", "Warpline", 3, 70 / 3, 70)
    assert row[6] == 20


GRAPHS: Mapping[str, Sequence[Any]] = {
    "start_ns": [20_000, 120_000, 530_000],
    "end_ns": [30_000, 150_000, 580_000],
    "level": ["node", "node", "graph"],
    "node_count": [40, 60, 0],
}


@pytest.mark.parametrize(("span_ns", "share"), [(900_000, "5.6%"), (1_100_000, None)])
def test_nodes_of_graphs_are_estimated_and_whole_graphs_suggested_where_they_cost_much(
    span_ns, share
):
    starts, ends = [100_000, 200_000], [200_000, 600_000]
    ranges: Columns = {"start_ns": starts, "end_ns": ends, "name": ["step_0", "step_1"]}
    whole = trace_of({"range": 0.001}, range=ranges, graph_launch=GRAPHS)
    meta = replace(whole.meta, span_ns=(0, span_ns))
    trace = Trace(MemorySource({"range": ranges, "graph_launch": GRAPHS}, meta))
    result = api.stats(trace, "profiling_cost")
    assert result.rows()[0][:5] == ("CUDA graph nodes", "estimate", 100, 500.0, 50_000)
    assert result.columns["step_ns"].to_list()[0] == 60 * 500 // 2
    if share is None:
        assert result.notes == ()
    else:
        (note,) = result.notes
        assert note.startswith(f"node-level CUDA graph tracing may have taken {share}; ")
        assert "--cuda-graph-trace=graph" in note


def test_without_steps_there_is_no_cost_of_one():
    names = {**RANGES, "name": ["a"] * 6}
    result = api.stats(trace_of({"range": 3.0}, range=names), "profiling_cost")
    assert result.columns["step_ns"].to_list() == [None]
    assert len(result.notes) == 1
    assert "--nvtx-domain-exclude" in result.notes[0]


def test_what_names_steps():
    names = ["step_1", "Step 2", "iteration: 3", "train_step#4", "iter5", "steps"]
    result = api.stats(trace_of({"range": 6.0}, range={**RANGES, "name": names}), "profiling_cost")
    # The first five are steps, all ranges but the last begin before they end.
    assert result.columns["step_ns"].to_list() == [6]


def test_the_summary_shows_it():
    sections = api.summary(trace_of({"range": 2.5}, range=RANGES)).sections
    (section,) = (part for part in sections if part.name == "profiling_cost")
    assert isinstance(section, Result)
    assert section.title == "Profiling overhead"
    assert list(section.rows()) == [("NVTX ranges", 6, 2.5, 15, 0.015, 5)]


def test_costs_are_kept_in_a_recording_and_merged_to_the_largest(tmp_path):
    for name, costs in (("a", {"range": 2.5}), ("b", {"range": 3.5, "mark": 1.0})):
        trace = trace_of(costs, range=RANGES, process={"pid": [ord(name)]})
        write_recording(trace, tmp_path / f"{name}.warpline")
    first, second = tmp_path / "a.warpline", tmp_path / "b.warpline"
    assert api.open(first).meta.record_cost_ns == {"range": 2.5}
    assert api.open(first, second).meta.record_cost_ns == {"range": 3.5, "mark": 1.0}


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (Estimate(1, 2, 4), Estimate(1, 2, 4), Estimate(1, 2, 4)),
        (Estimate(300, 750, 1_500), Estimate(1_000, 2_000, 4_500), Estimate(300, 1_375, 4_500)),
        (Estimate(1, 2, 4), None, None),
    ],
)
def test_the_cost_of_a_call_is_kept_in_a_recording_and_merged(tmp_path, first, second, merged):
    paths = []
    for pid, cost in enumerate((first, second)):
        meta = TraceMeta((Path("run"),), "memory", producer="other", call_cost_ns=cost)
        trace = Trace(MemorySource({"range": RANGES, "process": {"pid": [pid]}}, meta))
        paths.append(tmp_path / f"{pid}.warpline")
        write_recording(trace, paths[-1])
        assert api.open(paths[-1]).meta.call_cost_ns == cost
    assert api.open(*paths).meta.call_cost_ns == merged


def test_a_recording_without_a_stored_cost_has_that_of_its_producer(tmp_path):
    for producer, cost in (("Warpline 0.1", Estimate(300, 2_000, 4_000)), ("other", None)):
        meta = TraceMeta((Path("run"),), "memory", producer=producer)
        trace = Trace(MemorySource({"range": RANGES, "process": {"pid": [1]}}, meta))
        write_recording(trace, tmp_path / "run.warpline")
        assert api.open(tmp_path / "run.warpline").meta.call_cost_ns == cost
