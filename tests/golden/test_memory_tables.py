"""memory_timeline and memory_peak against brute force, and on small traces computed by hand."""

from __future__ import annotations

import json

import pytest
from support import caching_allocator, kineto_files
from support.kineto_files import PID, event, write

import warpline
from warpline.derived.memory.allocations import memory_peaks
from warpline.trace import MemorySource, Trace

ON_DEVICE = 1


def rows_of(trace, table):
    result = warpline.stats(trace, table)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


def on_device(events):
    """Return the GPU memory events in order of time."""
    found = [item for item in events if item.get("name") == "[memory]"]
    device = [item for item in found if item["args"]["Device Type"] == ON_DEVICE]
    return sorted(device, key=lambda item: item["ts"])


def outermost(events, at):
    """Return the name of the outermost operator around an event."""
    around = [
        (item["ts"], -item["dur"], item["name"])
        for item in events
        if item.get("cat") == "cpu_op"
        and item["tid"] == at["tid"]
        and item["ts"] <= at["ts"] < item["ts"] + item["dur"]
    ]
    return min(around)[2] if around else None


@pytest.mark.parametrize("name", kineto_files.names())
def test_the_peak_of_real_traces_is_that_of_brute_force(name, tmp_path_factory):
    path = kineto_files.unpack(name, tmp_path_factory.getbasetemp())
    every = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    moments, trace = on_device(every), warpline.open(path)
    events = [item["args"] for item in moments]
    if not events:
        return
    timeline = [row for row in rows_of(trace, "memory_timeline") if row["place"] != "Host"]
    assert [row["change_bytes"] for row in timeline] == [item["Bytes"] for item in events]
    totals = [item["Total Allocated"] for item in events]
    assert [row["allocated_bytes"] for row in timeline] == totals
    assert [row["reserved_bytes"] for row in timeline] == [i["Total Reserved"] for i in events]
    # What is in use at the peak, an event at a time.
    top = totals.index(max(totals))
    alive: dict[int, tuple[int, int]] = {}
    for place, item in enumerate(events[: top + 1]):
        alive.pop(item["Addr"], None)
        if item["Bytes"] > 0:
            alive[item["Addr"]] = (place, item["Bytes"])
    expected: dict[str | None, tuple[int, int]] = {}
    for place, size in alive.values():
        operator = outermost(every, moments[place])
        count, total = expected.get(operator, (0, 0))
        expected[operator] = (count + 1, total + size)
    rows = [row for row in rows_of(trace, "memory_peak") if row["place"] != "Host"]
    blocks = {
        row["operator"]: (row["blocks"], row["in_use_bytes"])
        for row in rows
        if row["allocated"] == "While recording"
    }
    assert blocks == expected
    assert sum(row["in_use_bytes"] for row in rows) == max(totals)
    assert sum(row["peak_ratio"] for row in rows) == pytest.approx(1)


def memory(ts, size, address, total=None, **more):
    args = {"Bytes": size, "Addr": address, "Device Type": ON_DEVICE, "Device Id": 0}
    if total is not None:
        args |= {"Total Allocated": total, "Total Reserved": 4096}
    at = {"pid": PID, "tid": PID, "ts": ts, "ph": "i", "s": "t", **more}
    return {"name": "[memory]", "cat": "cpu_instant_event", **at, "args": args}


def op(name, ts, dur, **args):
    return event("cpu_op", name, ts, dur, args=args)


def test_blocks_in_use_at_the_peak_have_the_operator_around_their_allocation(tmp_path):
    events = [
        op("aten::linear", 100, 20),
        op("aten::empty", 105, 5),
        memory(106, 512, 0xA, 1512),  # 1000 bytes are older
        op("aten::add", 200, 20),
        memory(205, 256, 0xB, 1768),
        memory(210, -256, 0xB, 1512),
        memory(300, 2048, 0xB, 3560),  # outside of all
        memory(400, -512, 0xA, 3048),
    ]
    trace = warpline.open(write(tmp_path / "trace.json", events))
    rows = rows_of(trace, "memory_peak")
    shown = [
        (row["operator"], row["allocated"], row["blocks"], row["in_use_bytes"]) for row in rows
    ]
    assert shown == [
        (None, "While recording", 1, 2048),
        (None, "Before", None, 1000),
        ("aten::linear", "While recording", 1, 512),
    ]
    assert [row["age_ns"] for row in rows] == [0, None, 194_000]
    assert {row["reserved_bytes"] for row in rows} == {4096}
    memory_of = {row["name"]: row for row in rows_of(trace, "op_sum")}
    assert memory_of["aten::linear"]["device_bytes"] == 512
    assert memory_of["aten::linear"]["self_device_bytes"] == 0
    assert memory_of["aten::empty"]["self_device_bytes"] == 512
    assert memory_of["aten::add"]["self_device_bytes"] == 0
    assert memory_of["aten::add"]["self_host_bytes"] == 0


def test_what_is_in_use_is_counted_where_it_was_not_recorded(tmp_path):
    events = [memory(1, 100, 1), memory(2, 50, 2), memory(3, -100, 1), memory(4, 20, 3)]
    trace = warpline.open(write(tmp_path / "trace.json", [op("aten::add", 0, 1), *events]))
    result = warpline.stats(trace, "memory_timeline")
    assert result.columns["allocated_bytes"].to_list() == [100, 150, 50, 70]
    assert result.columns["reserved_bytes"].to_list() == [None] * 4
    assert "summed from the start" in result.notes[0]
    assert [row["in_use_bytes"] for row in rows_of(trace, "memory_peak")] == [150]


def test_the_drivers_memory_is_counted_by_its_kind():
    events = {
        "time_ns": [0, 1, 2, 3],
        "process_id": [0] * 4,
        "device_id": [0] * 4,
        "operation": [0, 0, 1, 0],
        "memory": [2, 1, 2, 2],
        "bytes": [10, 7, 10, 4],
        "address": [1, 2, 1, 1],
    }
    trace = Trace(MemorySource({"memory_event": events}))
    rows = rows_of(trace, "memory_timeline")
    assert [(row["memory"], row["allocated_bytes"]) for row in rows] == [
        ("Device", 10),
        ("Pinned", 7),
        ("Device", 0),
        ("Device", 4),
    ]
    peaks = rows_of(trace, "memory_peak")
    assert [(row["memory"], row["in_use_bytes"], row["time_ns"]) for row in peaks] == [
        ("Device", 10, 0),
        ("Pinned", 7, 1),
    ]


def test_equal_addresses_of_two_kinds_of_memory_are_two_blocks():
    events = {
        "time_ns": [0, 1, 2],
        "process_id": [0] * 3,
        "device_id": [0] * 3,
        "operation": [0] * 3,
        "memory": [2, 1, 2],
        "bytes": [10, 7, 5],
        "address": [1, 1, 2],
    }
    peaks = memory_peaks(Trace(MemorySource({"memory_event": events})))
    assert [(peak.pool.memory, peak.allocated_bytes, peak.blocks.tolist()) for peak in peaks] == [
        ("Pinned", 7, [1]),
        ("Device", 15, [0, 2]),
    ]


@pytest.mark.parametrize("table", ["memory_timeline", "memory_peak"])
def test_traces_without_memory_events_are_skipped_with_a_hint(tmp_path, table):
    trace = warpline.open(write(tmp_path / "trace.json", [op("aten::add", 0, 1)]))
    with pytest.raises(warpline.MissingTableError, match="memory event") as error:
        warpline.stats(trace, table)
    assert "profile_memory=True" in str(error.value.hint)


@pytest.mark.parametrize("begin", [0, 200])
@pytest.mark.parametrize("seed", range(5))
def test_the_peak_of_a_history_is_that_of_the_allocator(seed, begin):
    model = caching_allocator.run(seed)
    trace = Trace(MemorySource(caching_allocator.tables(model, begin)))
    allocated = [stats[0] for stats in model.stats[begin:]]
    (peak,) = memory_peaks(trace)
    assert peak.allocated_bytes == max(allocated)
    assert peak.reserved_bytes == model.stats[begin + allocated.index(max(allocated))][3]
    rows = rows_of(trace, "memory_peak")
    assert sum(row["in_use_bytes"] for row in rows) == max(allocated)
    assert ("Before" in {row["allocated"] for row in rows}) == (begin > 0)
    assert rows_of(trace, "memory_timeline")[-1]["allocated_bytes"] == allocated[-1]
