"""A container compared with its source tables, row by row."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support import captures, memory_snapshots
from support.any_trace import any_traces
from support.viewer_container import Decoded

import warpline
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.time_parts import TimePart
from warpline.presentation.kernel_names import short_names
from warpline.trace import MemorySource, Trace
from warpline.viewer.lanes import MAX_LANES
from warpline.viewer.overview import bin_count

from .conftest import packed

DEVICE_TABLES = ("kernel", "memcpy", "memset", "graph_launch")
HOST_TABLES = (
    "range",
    "mark",
    "op",
    "python_frame",
    "api_call",
    "os_call",
    "overhead",
    "library_call",
)


def decoded(trace, **options):
    container = packed(trace, **options)[1]
    return Decoded(container.head, [block.data for block in container.blocks])


def rows_of(trace, table):
    """Return (table, row, start, end, name) of every row on the timeline."""
    if not trace.has(table):
        return []
    spec = trace.table(table).spec
    columns = {name: trace.table(table).column(name).to_list() for name in (spec.start, spec.end)}
    count = trace.row_count(table)
    keep = [True] * count
    if table == "graph_launch":
        keep = [level == 0 for level in trace.table(table).column("level").to_list()]
    ends = columns[spec.end]
    return [
        (table, row, columns[spec.start][row], max(ends[row], columns[spec.start][row]))
        for row in range(count)
        if keep[row]
    ]


def check(trace):
    found = decoded(trace)
    shown = []
    for row_id, row in found.rows.items():
        events = found.events(row_id)
        assert len(events) == row["count"]
        for one, other in itertools.pairwise(events):
            assert one.end_ns <= other.start_ns
        for event in events:
            assert found.head["start_ns"] <= event.start_ns <= event.end_ns <= found.head["end_ns"]
        if row["kind"] in {"state", "counter", "phase", "step", "thread", "sample"}:
            continue
        if not (row["parent"] or "").endswith("/health"):
            assert row["busy_ns"] == sum(event.end_ns - event.start_ns for event in events)
            shown += [(event.table, event.row, event.start_ns, event.end_ns) for event in events]
    expected = [item for table in (*DEVICE_TABLES, *HOST_TABLES) for item in rows_of(trace, table)]
    assert Counter(shown) == Counter(expected)
    return found


@pytest.mark.parametrize("name", captures.cases())
def test_every_event_of_a_capture_is_there_once(capture, name):
    trace = warpline.open(capture(name))
    found = check(trace)
    check_states(trace, found)
    check_overview(found)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(any_traces())
def test_every_event_of_any_trace_is_there_once(made):
    trace = made.trace()
    check_overview(check(trace))


def check_states(trace, found):
    segments = device_segments(trace)
    for device in np.unique(segments.device).tolist():
        events = found.events(f"gpu{device}/state")
        here = segments.device == device
        assert [event.start_ns for event in events] == segments.start_ns[here].tolist()
        assert [event.end_ns for event in events] == segments.end_ns[here].tolist()
        assert [event.category for event in events] == [
            TimePart.at(part).label for part in segments.part[here].tolist()
        ]


def check_overview(found):
    """Compare the first block with bins computed event by event."""
    head = found.head
    rows, bins = head["rows"], head["overview_bins"]
    assert len(found.raw[0]) == 2 * len(rows) * bins
    low, width = head["start_ns"], (head["end_ns"] - head["start_ns"]) / bins
    for place, row in enumerate(rows):
        if row["kind"] == "counter":
            continue
        covered = np.zeros(bins)
        by_category: dict[str, np.typing.NDArray[np.float64]] = {}
        for event in found.events(row["id"]):
            first, last = (event.start_ns - low) / width, (event.end_ns - low) / width
            mine = by_category.setdefault(event.category, np.zeros(bins))
            for number in range(int(first), min(int(np.ceil(last)), bins)):
                share = max(min(last, number + 1) - max(first, number), 0)
                mine[number] += share
                covered[number] += share
        level = np.frombuffer(found.raw[0], np.uint8, bins, place * bins)
        main = np.frombuffer(found.raw[0], np.uint8, bins, (len(rows) + place) * bins)
        assert np.abs(level - covered * 255).max() < 1.02
        assert (level[covered > 1e-6] > 0).all()
        assert (main[level == 0] == 255).all()
        for number in np.flatnonzero(covered > 1e-3).tolist():
            name = head["categories"][main[number]]["name"]
            largest = max(shares[number] for shares in by_category.values())
            assert by_category[name][number] == pytest.approx(largest, abs=1e-3)


def test_a_kernel_points_at_the_call_that_launched_it(capture, read):
    trace = warpline.open(capture("pageable_h2d.fixed"))
    found = read(trace)
    calls = trace.table("api_call")
    kernels = trace.table("kernel")
    call_of = dict(zip(calls["correlation_id"].tolist(), range(len(calls)), strict=True))
    events = [
        event
        for row_id, row in found.rows.items()
        if row["kind"] == "stream"
        for event in found.events(row_id)
        if event.table == "kernel"
    ]
    assert len(events) == len(kernels)
    for event in events:
        launch = event.links["launch"]
        correlation = kernels["correlation_id"][event.row]
        assert calls["correlation_id"][launch] == correlation
        assert calls["start_ns"][launch] <= calls["start_ns"][call_of[correlation]]
        assert calls["start_ns"][launch] < event.start_ns


def test_idle_time_points_at_a_call_of_the_host(capture, read):
    trace = warpline.open(capture("host_sync.bad"))
    found = read(trace)
    calls = trace.table("api_call")
    waits = [event for event in found.events("gpu0/state") if event.category == "host-sync"]
    assert waits
    names = {trace.strings.text(calls["name_id"][event.links["blame"]]) for event in waits}
    assert any("Synchronize" in name for name in names)
    busy = [event for event in found.events("gpu0/state") if event.category == "gemm"]
    assert busy
    assert all(event.links["blame"] is None for event in busy)


def test_names_have_categories_and_kernels_short_labels(capture, read):
    path = capture("host_sync.bad")
    found = read(warpline.open(path))
    assert len(found.names["texts"]) == len(found.names["labels"]) == len(found.names["categories"])
    with closing(sqlite3.connect(path)) as database:
        kernels = database.execute(
            "SELECT DISTINCT value FROM StringIds JOIN CUPTI_ACTIVITY_KIND_KERNEL"
            " ON demangledName = id"
        )
        short = short_names(name for (name,) in kernels)
    label = dict(zip(found.names["texts"], found.names["labels"], strict=True))
    assert {name: label[name] or name for name in short} == short
    assert len(set(short.values())) == len(short)
    add = "void at::native::vectorized_elementwise_kernel<(int)8, at::native::CUDAFunctor_add<"
    (of_add,) = (label[name] for name in short if name.startswith(add))
    assert of_add == "vectorized_elementwise<CUDAFunctor_add<BFloat16>>"


def test_details_are_those_of_the_table(capture, read):
    trace = warpline.open(capture("pageable_h2d.fixed"))
    found = read(trace)
    kernels = trace.table("kernel")
    details = found.attributes("kernel")
    for column in ("grid_x", "block_x", "registers_per_thread", "correlation_id"):
        assert details[column] == kernels.column(column).to_list()
    copies = found.attributes("memcpy")
    assert copies["bytes"] == trace.table("memcpy")["bytes"].tolist()
    described = next(item for item in found.head["attributes"] if item["table"] == "memcpy")
    kind = next(column for column in described["columns"] if column["name"] == "kind")
    assert kind["labels"]["1"] == "Host-to-Device"
    assert "start_ns" not in details
    assert "device_id" not in details


def test_tables_light_their_events(capture, read):
    trace = warpline.open(capture("pageable_h2d.fixed"))
    found = read(trace, ("cuda_gpu_kern_sum",))
    table = found.result("cuda_gpu_kern_sum")
    expected = warpline.stats(trace, "cuda_gpu_kern_sum")
    assert table["rows"] == [list(row) for row in expected.rows()]
    names = [column["name"] for column in table["columns"]]
    for row, places in zip(table["rows"], table["names"], strict=True):
        assert {found.names["texts"][place] for place in places} == {row[names.index("name")]}


def test_steps_are_those_of_the_analysis(capture, make):
    diagnosis, container = make(warpline.open(capture("host_sync.bad")))
    first = container.head["steps"][0]
    lengths = [end - start for start, end in zip(first["start_ns"], first["end_ns"], strict=True)]
    counted = [one for one, out in zip(lengths, first["excluded"], strict=True) if not out]
    assert len(counted) == diagnosis.steps.count
    assert round(float(np.median(counted))) == diagnosis.steps.median_ns


def test_findings_name_rows_and_events_that_are_there(capture, make):
    diagnosis, container = make(warpline.open(capture("host_sync.bad")))
    rows = {row["id"] for row in container.head["rows"]}
    shown = {item["id"]: item for item in container.head["findings"]}
    assert list(shown) == [finding.id for finding in diagnosis.findings]
    for item in shown.values():
        assert rows.issuperset(item["rows"])
        assert all(start <= end for start, end in item["windows_ns"])
    waits = next(item for item in diagnosis.findings if item.rule == "host-sync")
    assert shown[waits.id]["rows"]
    assert shown[waits.id]["events"][0].startswith("api_call:")


def test_ranges_stand_above_the_work_that_was_launched_in_them():
    trace = Trace(
        MemorySource(
            {
                "range": {"start_ns": [0, 10], "end_ns": [100, 40], "name": ["step", "forward"]},
                "api_call": {
                    "start_ns": [12, 20, 50],
                    "end_ns": [14, 22, 52],
                    "correlation_id": [1, 2, 3],
                    "name": ["cudaLaunchKernel"] * 3,
                },
                "kernel": {
                    "start_ns": [30, 60, 200],
                    "end_ns": [50, 90, 230],
                    "correlation_id": [1, 2, 3],
                    "name": ["a", "b", "c"],
                },
            }
        )
    )
    found = decoded(trace)
    outer, inner = found.events("gpu0/phase0"), found.events("gpu0/phase1")
    assert [(event.name, event.start_ns, event.end_ns) for event in outer] == [("step", 30, 230)]
    assert [(event.name, event.start_ns, event.end_ns) for event in inner] == [("forward", 30, 90)]


def test_a_range_stands_above_those_inside_it_where_steps_overlap_on_the_gpu():
    """The work of step 0 on a slow stream lasts until after step 1 has begun on another."""
    trace = Trace(
        MemorySource(
            {
                "range": {
                    "start_ns": [0, 10, 60, 100, 110, 160],
                    "end_ns": [90, 50, 80, 190, 150, 180],
                    "name": ["step", "forward", "backward"] * 2,
                },
                "api_call": {
                    "start_ns": [20, 70, 120, 170],
                    "end_ns": [21, 71, 121, 171],
                    "correlation_id": [1, 2, 3, 4],
                    "name": ["cudaLaunchKernel"] * 4,
                },
                "kernel": {
                    "start_ns": [200, 300, 250, 400],
                    "end_ns": [240, 350, 300, 450],
                    "correlation_id": [1, 2, 3, 4],
                    "name": ["a", "b", "c", "d"],
                },
            }
        )
    )
    found = decoded(trace)
    placed: dict[int, tuple[int, Any]] = {}
    for row_id, row in found.rows.items():
        if row["kind"] == "phase":
            placed |= {event.row: (row["depth"], event) for event in found.events(row_id)}
    assert len(placed) == 6
    for outer, inner in ((0, 1), (0, 2), (3, 4), (3, 5)):
        assert placed[outer][0] < placed[inner][0]
        assert placed[outer][1].start_ns <= placed[inner][1].start_ns
        assert placed[outer][1].end_ns >= placed[inner][1].end_ns


def test_ranges_of_the_backward_thread_stand_below_those_of_the_leading_thread(capture):
    found = decoded(warpline.open(capture("rich_metrics_sampling")))
    lanes_of: dict[str, set[int]] = {}
    for row_id, row in found.rows.items():
        if row["kind"] == "phase":
            for event in found.events(row_id):
                lanes_of.setdefault(event.name.partition(",")[0], set()).add(row["depth"])
    assert lanes_of["step_0"] == {0}
    assert lanes_of["forward"] == {1}
    backward = [lanes for name, lanes in lanes_of.items() if "evaluate_function" in name]
    assert len(backward) > 5
    assert min(min(lanes) for lanes in backward) == 2


@pytest.mark.parametrize("is_inferred", [False, True])
def test_steps_are_a_row_of_their_gpu(is_inferred):
    """Without ranges, the steps are inferred from repeating launches."""
    times_ns = np.arange(0, 12 * 1_000, 1_000)
    calls = (times_ns[:, None] + np.array([10, 200, 400])).reshape(-1)
    tables = {
        "range": {
            "start_ns": times_ns,
            "end_ns": times_ns + 900,
            "name": [f"step_{step}" for step in range(12)],
        },
        "api_call": {
            "start_ns": calls,
            "end_ns": calls + 5,
            "correlation_id": np.arange(36),
            "name": ["cudaLaunchKernel"] * 36,
        },
        "kernel": {
            "start_ns": calls + 20,
            "end_ns": calls + 120,
            "correlation_id": np.arange(36),
            "name": ["a", "b", "c"] * 12,
        },
    }
    if is_inferred:
        del tables["range"]
    found = decoded(Trace(MemorySource(tables)))
    (steps,) = found.head["steps"]
    assert len(steps["text"]) >= 10
    ids = list(found.rows)
    assert ids[ids.index("gpu0") + 1] == "gpu0/steps"
    shown = [(event.name, event.start_ns, event.end_ns) for event in found.events("gpu0/steps")]
    assert shown == list(zip(steps["text"], steps["start_ns"], steps["end_ns"], strict=True))


def test_many_rows_have_wider_bins(capture, monkeypatch):
    assert bin_count(16_384) == 2048
    assert bin_count(16_385) == 1024
    assert bin_count(10**9) == 64
    monkeypatch.setattr("warpline.viewer.overview._MOST_BYTES", 5_000)
    found = decoded(warpline.open(capture("pageable_h2d.fixed")))
    assert found.head["overview_bins"] == 64
    check_overview(found)


def test_what_is_nested_too_deep_is_merged_and_counted():
    depth = MAX_LANES + 40
    trace = Trace(
        MemorySource(
            {
                "range": {
                    "start_ns": [*range(depth), 5000],
                    "end_ns": [*range(2 * depth, depth, -1), 5001],
                    "name": ["deeper"] * (depth + 1),
                }
            }
        )
    )
    found = decoded(trace)
    rows = [row for row in found.rows.values() if row["kind"] == "range"]
    assert [row["count"] for row in rows] == [2, *[1] * (MAX_LANES - 1), 1]
    assert rows[0]["label"] == "ranges"
    assert rows[-1]["label"] == "ranges: 40 deeper events, merged"
    (event,) = found.events(rows[-1]["id"])
    assert (event.start_ns, event.end_ns) == (MAX_LANES, 2 * depth - MAX_LANES)
    assert (event.row, event.table) == (None, None)
    assert "too deep" in event.name


def test_what_has_no_thread_stands_in_a_group_of_its_own():
    trace = Trace(
        MemorySource(
            {
                "overhead": {
                    "start_ns": [10, 30],
                    "end_ns": [20, 60],
                    "thread_id": [0, None],
                    "name": ["a", "b"],
                },
                "thread": {"process_id": [0], "tid": [7]},
                "process": {"pid": [1]},
            }
        )
    )
    found = decoded(trace)
    groups = [row["label"] for row in found.rows.values() if row["kind"] == "group"]
    assert groups == ["process 1", "thread 7", "unknown thread"]
    (event,) = found.events("nothread/overhead")
    assert (event.start_ns, event.end_ns, event.name, event.row) == (30, 60, "b", 1)


def test_times_that_a_page_cannot_hold_are_moved():
    late = 2**60
    trace = Trace(
        MemorySource({"range": {"start_ns": [late], "end_ns": [late + 7], "name": ["long ago"]}})
    )
    found = decoded(trace)
    assert found.head["offset_ns"] == str(late)
    assert found.head["start_ns"] == 0
    (event,) = found.events("thread0/range")
    assert (event.start_ns, event.end_ns) == (0, 7)


def test_memory_is_what_was_allocated_and_not_released():
    trace = Trace(
        MemorySource(
            {
                "memory_event": {
                    "time_ns": [10, 20, 30, 40],
                    "operation": [0, 0, 1, 1],
                    "bytes": [100, 50, 100, 80],
                    "memory": [2, 2, 2, 2],
                },
                "kernel": {"start_ns": [0], "end_ns": [100], "name": ["k"]},
            }
        )
    )
    found = decoded(trace)
    values = [(event.start_ns, event.value) for event in found.events("gpu0/memory")]
    # 80 bytes allocated before the recording are freed in it: they count from its start.
    assert values == [(10, 130), (20, 180), (30, 80), (40, 0)]


def test_memory_of_a_snapshot_ends_as_it_was_taken(data_dir, tmp_path):
    found = decoded(warpline.open(memory_snapshots.unpack(data_dir, "flush", tmp_path)))
    for key, most in (("allocated", 1_574_961_152), ("reserved", 1_660_944_384)):
        values = [event.value for event in found.events(f"gpu0/total_{key}_bytes")]
        assert (max(values), values[-1]) == (most, 1 << 30)


def test_the_longest_events_of_each_row_are_the_last_to_go(capture, make):
    _, whole = make(warpline.open(capture("host_sync.bad")))
    _, small = make(warpline.open(capture("host_sync.bad")), max_bytes=1)
    complete = Decoded(whole.head, [block.data for block in whole.blocks])
    found = Decoded(small.head, [block.data for block in small.blocks])
    left_out = 0
    for row_id, row in found.rows.items():
        kept, every = found.events(row_id), complete.events(row_id)
        left_out += len(every) - len(kept)
        assert len(kept) >= min(len(every), 16)
        if row["kind"] != "counter" and len(kept) < len(every):
            lengths = sorted((item.end_ns - item.start_ns for item in every), reverse=True)
            assert (
                lengths[:16]
                == sorted((item.end_ns - item.start_ns for item in kept), reverse=True)[:16]
            )
    assert left_out > 0


def test_a_small_report_says_what_it_left_out(capture, make):
    trace = warpline.open(capture("host_sync.bad"))
    from warpline.viewer.pack import report_bytes

    diagnosis, whole = make(trace)
    allowed = report_bytes(whole) - 8_000
    _, small = make(trace, max_bytes=allowed)
    assert report_bytes(small) <= allowed
    found = Decoded(small.head, [block.data for block in small.blocks])
    complete = Decoded(whole.head, [block.data for block in whole.blocks])
    missing = 0
    for row_id, row in found.rows.items():
        kept, every = found.events(row_id), complete.events(row_id)
        assert row["count"] == len(every)
        assert {(item.row, item.start_ns) for item in kept} <= {
            (item.row, item.start_ns) for item in every
        }
        if row["kind"] == "counter":
            continue  # its samples are joined
        spans = [span for span in small.head["thinned"]["spans"] if row_id in span["rows"]]
        assert sum(span["total"] - span["kept"] for span in spans) == len(every) - len(kept)
        missing += len(every) - len(kept)
        if row["kind"] in {"state", "stream", "phase"}:
            assert len(kept) == len(every)
    assert missing > 0
    assert f"{missing:,} short events" in small.head["thinned"]["text"]
    shown = {(item.table, item.row) for row in found.rows for item in found.events(row)}
    for item in (each for finding in diagnosis.findings for each in finding.evidence):
        known = {(item.table, row) for row in item.rows[:2]} if item.windows_ns else set()
        assert known <= shown
