"""The export for Perfetto: every event is there, and nests on its track."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import captures, sampled

import warpline
from warpline.derived.metrics.series import metric_series
from warpline.exporters.lanes import assign_lanes
from warpline.trace import MemorySource, Trace
from warpline.trace.meta import TraceMeta

SLICES = ("kernel", "memcpy", "memset", "range", "api_call", "os_call")


def exported(trace, folder):
    return json.loads(warpline.export(trace, folder / "run.json", "perfetto").read_text("utf-8"))


def ns(text):
    whole, _, part = repr(text).partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def slices(document):
    """Return (start, end) by track, and check that they nest there."""
    tracks = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            start = ns(event["ts"])
            tracks[event["pid"], event["tid"]].append((start, start + ns(event["dur"])))
    for spans in tracks.values():
        stack: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)
    return tracks


@pytest.mark.parametrize("name", captures.cases())
def test_every_event_of_a_capture_is_there_and_nests(capture, tmp_path, name):
    trace = warpline.open(capture(name))
    document = exported(trace, tmp_path)
    events = document["traceEvents"]
    found = Counter(event.get("cat") for event in events if event["ph"] == "X")
    for table in SLICES:
        assert found[table] == (trace.row_count(table) if trace.has(table) else 0), table
    tracks = slices(document)
    named = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {tid for _, tid in tracks} <= named.keys()
    assert all(event["ts"] >= 0 for event in events if "ts" in event)


def test_arrows_lead_from_the_call_to_its_work(capture, tmp_path):
    trace = warpline.open(capture("tiny_kernels.fixed"))
    events = exported(trace, tmp_path)["traceEvents"]
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    work = [event for event in events if event.get("cat") in {"kernel", "memcpy", "memset"}]
    assert begins.keys() == ends.keys()
    assert len(ends) == len(work)
    by_place = {
        (e["tid"], e["ts"]): e["args"]["correlation_id"]
        for e in events
        if e["ph"] == "X" and "correlation_id" in e["args"]
    }
    for number, end in ends.items():
        begin = begins[number]
        assert by_place[begin["tid"], begin["ts"]] == by_place[end["tid"], end["ts"]]
        assert begin["ts"] <= end["ts"]


def test_what_overlaps_on_a_stream_gets_a_track_of_its_own(tmp_path):
    table: dict[str, list[Any]] = {"start_ns": [-5, 0, 10], "end_ns": [10, 4, 12]}
    table["short_name"] = ["a\u2028<b>", "b", "c"]
    document = exported(Trace(MemorySource({"kernel": table})), tmp_path)
    events = document["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    placed = {e["name"]: names[e["tid"]] for e in events if e["ph"] == "X"}
    assert placed == {"a\u2028<b>": "stream 7", "b": "stream 7 (2)", "c": "stream 7"}
    assert document["otherData"]["zero_ns"] == -5
    assert [e["ts"] for e in events if e["ph"] == "X"] == [0.0, 0.005, 0.015]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=60),
    st.booleans(),
)
def test_lanes_hold_what_nests(spans, nested):
    events = sorted((start, -(start + length)) for start, length in spans)
    starts, ends = [start for start, _ in events], [-end for _, end in events]
    lanes = assign_lanes(starts, ends, nested=nested)
    for lane in set(lanes):
        stack: list[int] = []
        for start, end, place in zip(starts, ends, lanes, strict=True):
            if place == lane:
                while stack and stack[-1] <= start:
                    stack.pop()
                assert not stack or (nested and end <= stack[-1])
                stack.append(end)
    assert set(lanes) == set(range(len(set(lanes))))


def test_many_open_ranges_are_quick():
    count = 50_000
    lanes = assign_lanes(range(count), range(count, 2 * count), nested=True)
    assert len(set(lanes)) == count


def test_what_is_missing_is_said(tmp_path):
    meta = TraceMeta((), "x", windows_ns=((1, 5),), lost={"kernel": 3}, warnings=("late",))
    said = exported(Trace(MemorySource({}, meta)), tmp_path)["otherData"]
    assert said["windows_ns"] == [[1, 5]]
    assert said["lost"] == {"kernel": 3}
    assert said["warnings"] == ["late"]


def test_samples_without_a_gpu_are_of_the_machine(tmp_path):
    counter: dict[str, list[Any]] = {
        "time_ns": [1, 2],
        "device_id": [0, None],
        "metric_id": [0, 1],
        "value": [5.0, 7.0],
    }
    tables: dict[str, dict[str, list[Any]]] = {
        "device": {"gpu_index": [3]},
        "metric": {"name": ["SMs Active [Throughput %]", "mlx5_0: IB: Bytes sent [bytes/ms]"]},
        "counter": counter,
    }
    events = exported(Trace(MemorySource(tables)), tmp_path)["traceEvents"]
    groups = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    samples = [(groups[e["pid"]], e["name"]) for e in events if e["ph"] == "C"]
    assert sorted(samples) == [
        ("GPU 3", "SMs Active [Throughput %]"),
        ("machine", "mlx5_0: IB: Bytes sent [bytes/ms]"),
    ]


def counters(document):
    """Return time and value of each sample by group and name."""
    events = document["traceEvents"]
    group = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            found[group[event["pid"]], event["name"]].append(
                (ns(event["ts"]), event["args"]["value"])
            )
    return found


def test_metrics_and_states_are_counter_tracks(tmp_path):
    trace = sampled.sampled(hz=1_000, steps=2)
    document = exported(trace, tmp_path)
    tracks = counters(document)
    gpu = "GPU 0 NVIDIA H100 80GB HBM3"
    for series in metric_series(trace):  # of both forms
        expected = list(zip(series.start_ns.tolist(), series.value.tolist(), strict=True))
        assert tracks[gpu, series.name] == expected
    power = trace["gpu_health"].select("start_ns", "power_w").rows()
    assert tracks[gpu, "power [W]"] == power
    assert len(tracks["machine", "CPU cores in use"]) == len(power) - 1
    assert tracks["process 1", "CPU cores in use"]
    events = document["traceEvents"]
    (error,) = (event for event in events if event.get("cat") == "gpu_error")
    assert (error["name"], ns(error["ts"])) == ("Xid 63", sampled.ERROR_NS)


def test_a_clock_limit_is_a_slice(tmp_path):
    document = exported(sampled.sampled(hz=100, steps=4), tmp_path)
    (limit,) = (event for event in document["traceEvents"] if event.get("cat") == "gpu_health")
    assert limit["name"] == "SW power cap"
    assert ns(limit["ts"]) == 1_200_000_000
