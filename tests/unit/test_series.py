"""The tables that plots show, against plain SQL and plain Python on the same recordings."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict

import numpy as np
import pytest
from support import captures, kineto_files
from support.ranks import MadeRun

import warpline
from warpline import api
from warpline.derived.ranks.clocks import aligned
from warpline.ops.bins import Bins, equal_bins, power_bins
from warpline.presentation.blocks import Cards, Section
from warpline.presentation.head import cards
from warpline.result import Skipped
from warpline.trace import MemorySource, Trace


def rows_of(trace, table):
    result = api.stats(trace, table)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return captures.unpack("host_sync.bad", tmp_path_factory.getbasetemp())


def queried(path, text):
    with sqlite3.connect(path) as database:
        return database.execute(text).fetchall()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    return warpline.open([kineto_files.unpack(f"ddp_step.rank{rank}", folder) for rank in (0, 1)])


def test_bins_cover_their_span_and_sums_are_exact():
    random = np.random.default_rng(3)
    start = random.integers(-50, 1000, 200)
    end = start + random.integers(0, 90, 200)
    bins = equal_bins(-50, 1100, 7)
    edges = bins.edges_ns.tolist()
    assert edges[0] == -50
    assert edges[-1] >= 1100
    covered = [0] * bins.count
    most = [0] * bins.count
    for time in range(edges[0], edges[-1]):
        depth = int(((start <= time) & (time < end)).sum())
        place = (time - edges[0]) // bins.width_ns
        covered[place] += depth
        most[place] = max(most[place], depth)
    assert bins.covered_ns(start, end).tolist() == covered
    assert bins.most(start, end).tolist() == most


def test_sums_that_exceed_64_bits_on_the_way_are_right():
    bins = Bins(10**18, 10**14, 2)
    start = np.full(20_000, 10**18)
    found = bins.covered_ns(start, start + 15 * 10**13)
    assert found.tolist() == [20_000 * 10**14, 20_000 * 5 * 10**13]


def test_power_bins_contain_their_values():
    values = np.array([0, 1, 2, 3, 4, 1000, 2**40, 2**61])
    low = power_bins(values, 1).tolist()
    assert low == [0, 1, 2, 2, 4, 512, 2**40, 2**61]


def test_kernel_durations_count_every_kernel(recording):
    kernels = queried(
        recording,
        "SELECT s.value, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k"
        " JOIN StringIds s ON s.id = k.demangledName ORDER BY k.start",
    )
    trace = warpline.open(recording)
    found = rows_of(trace, "kernel_durations")
    assert sum(row["instances"] for row in found) == len(kernels)
    by_name = defaultdict(list)
    for name, length in kernels:
        by_name[name].append(length)
    columns = trace.columns("kernel", "start_ns", "end_ns")
    for row in found:
        inside = [
            length
            for length in by_name[row["name"]]
            if row["shortest_ns"] <= length < row["longest_ns"]
        ]
        assert row["instances"] == len(inside)
        assert row["total_ns"] == sum(inside)
        at = int(row["event"].removeprefix("kernel:"))
        assert columns["end_ns"].values[at] - columns["start_ns"].values[at] == max(inside)
        if row["shortest_ns"] > 100:
            ratio = row["longest_ns"] / row["shortest_ns"]
            assert math.isclose(ratio, 2**0.25, rel_tol=0.01)


def test_the_launch_queue_is_that_of_plain_sql(recording):
    pairs = queried(
        recording,
        "SELECT r.start, max(k.start, r.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
        " CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
        " AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000",
    )
    found = rows_of(warpline.open(recording), "launch_queue")
    assert sum(row["kernels"] for row in found) == len(pairs)
    queued = 0
    for row in found:
        low, high = row["start_ns"], row["end_ns"]
        delays = [start - launch for launch, start in pairs if low <= start < high]
        assert row["kernels"] == len(delays)
        assert row["max_ns"] == (max(delays) if delays else None)
        assert row["median_ns"] == (np.median(delays) if delays else None)
        open_ns = sum(max(0, min(start, high) - max(launch, low)) for launch, start in pairs)
        assert row["mean_queued"] == pytest.approx(open_ns / (high - low))
        moments = [low, *(launch for launch, _ in pairs if low <= launch < high)]
        most = max(sum(a <= time < b for a, b in pairs) for time in moments)
        assert row["max_queued"] == most
        queued += open_ns
    assert queued == sum(start - launch for launch, start in pairs)


def test_copies_over_time_sum_up_to_all_copies(recording):
    copies = queried(
        recording,
        "SELECT start, end, bytes, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    )
    found = rows_of(warpline.open(recording), "copy_rates")
    assert sum(row["instances"] for row in found) == len(copies)
    assert sum(row["total_bytes"] for row in found) == sum(size for _, _, size, _ in copies)
    for row in found:
        kind = {"Host-to-Device": 1, "Device-to-Host": 2, "Device-to-Device": 8}[row["direction"]]
        own = [
            copy
            for copy in copies
            if row["start_ns"] <= copy[0] < row["end_ns"] and copy[3] == kind
        ]
        assert row["total_bytes"] == sum(size for _, _, size, _ in own)
        covered = {time for start, end, _, _ in own for time in range(start, end)}
        assert row["busy_ns"] == len(covered)


@pytest.mark.parametrize("table", ["rank_steps", "step_parts"])
def test_steps_of_a_rank_are_those_of_the_table_of_steps(recording, table):
    trace = warpline.open(recording)
    times = {row["index"]: row["device_ns"] for row in rows_of(trace, "steps")}
    sums: Counter[int] = Counter()
    for row in rows_of(trace, table):
        sums[row["index"]] += row["device_ns" if table == "rank_steps" else "ns"]
        assert row["end_ns"] - row["start_ns"] == times[row["index"]]
    assert sums == {index: time for index, time in times.items() if time is not None}


def test_ranks_side_by_side(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    ranks = warpline.open(
        [captures.unpack(f"ddp_serial.bad.rank{rank}", folder) for rank in (0, 1)]
    )
    found = rows_of(ranks, "rank_steps")
    assert {row["rank"] for row in found} == {0, 1}
    for row in found:
        peers = [other["device_ns"] for other in found if other["index"] == row["index"]]
        expected = row["device_ns"] - min(peers) if len(peers) > 1 else None
        assert row["behind_ns"] == expected
    sums = {row["rank"]: row for row in rows_of(ranks, "rank_sum")}
    waits = {row["rank"]: row for row in rows_of(ranks, "stragglers")}
    exposed = {
        row["gpu_index"]: row["total_ns"]
        for row in rows_of(ranks, "overlap")
        if row["measure"] == "exposed-communication"
    }
    for rank in (0, 1):
        assert sums[rank]["wait_ns"] == waits[rank]["wait_ns"]
        assert sums[rank]["caused_ns"] == waits[rank]["caused_ns"]
        assert sums[rank]["exposed_ns"] == exposed[rank]
        included = [row for row in found if row["rank"] == rank and row["analyzed"] == "yes"]
        assert sums[rank]["total_ns"] == sum(row["device_ns"] for row in included)
        # One stream waits at a time here, so the waits in steps are all waits.
        assert sum(row["wait_ns"] for row in included) == waits[rank]["wait_ns"]


def test_the_numbers_to_see_first_name_the_late_rank(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    paths = [captures.unpack(f"ddp_serial.bad.rank{rank}", folder) for rank in (0, 1)]
    found = warpline.analyze(paths)
    (section,) = cards(found)
    assert isinstance(section, Section)
    labels = {
        card.label: card
        for block in section.blocks
        if isinstance(block, Cards)
        for card in block.cards
    }
    caused = {row["rank"]: row["caused_ns"] for row in rows_of(warpline.open(paths), "rank_sum")}
    card = labels["ranks"]
    assert card.value.text == "Rank 1 runs behind"
    assert card.note == f"the other rank waits {caused[1] / 5e6:.1f} ms per step"


def test_waits_are_for_the_straggler_of_a_made_run():
    run = MadeRun(jitter_ns=20_000)
    trace = aligned(run.sources())
    arrival = run.arrivals()
    last = arrival.argmax(axis=0)
    found = {(row["rank"], row["for_rank"]): row for row in rows_of(trace, "wait_matrix")}
    assert all(one != other for one, other in found)
    for (one, other), row in found.items():
        cases = last == other
        expected = (arrival[other] - arrival[one])[cases]
        # Each wait is off by no more than the remaining clock error.
        assert abs(row["wait_ns"] - expected.sum()) <= 25_000 * run.count
        assert abs(row["collectives"] - len(expected)) <= 0.05 * run.count
    total = sum(row["wait_ns"] for row in found.values())
    assert total == sum(row["wait_ns"] for row in rows_of(trace, "stragglers"))
    mine = sum(row["wait_ns"] for (_, other), row in found.items() if other == run.straggler)
    assert mine > 0.8 * total


def test_collective_sizes_add_up_to_those_of_the_waits(ranks):
    (row,) = rows_of(ranks, "collective_sizes")
    (whole,) = rows_of(ranks, "collective_waits")
    assert row["collectives"] == whole["collectives"]
    assert row["total_bytes"] == whole["bytes"]
    assert row["algorithm_bytes_per_s"] == whole["algorithm_bytes_per_s"]
    assert row["bus_bytes_per_s"] == row["algorithm_bytes_per_s"] * 2 * (2 - 1) / 2
    assert row["link_bytes_per_s"] == 450e9
    mean = row["total_bytes"] / row["collectives"]
    assert row["least_bytes"] <= mean < 2 * row["least_bytes"]


def test_memory_in_intervals_has_the_peak_and_every_change(ranks):
    events = rows_of(ranks, "memory_timeline")
    found = rows_of(ranks, "memory_use")
    pool = ("place", "memory", "allocator", "pid")
    assert sum(row["changes"] for row in found) == len(events)
    for row in found:
        own = [
            event
            for event in events
            if all(event[key] == row[key] for key in pool)
            and row["start_ns"] <= event["time_ns"] < row["end_ns"]
        ]
        assert row["changes"] == len(own)
        assert row["max_bytes"] == max(event["allocated_bytes"] for event in own)
        assert row["last_bytes"] == own[-1]["allocated_bytes"]


def test_without_steps_on_a_gpu_the_reason_is_given():
    trace = Trace(
        MemorySource({"kernel": {"start_ns": [0, 10], "end_ns": [5, 19], "name": ["a", "b"]}})
    )
    outcome = api.run(trace, "rank_steps")
    assert isinstance(outcome, Skipped)
    assert "step" in outcome.reason
