"""The replay of PyTorch's caching allocator against a model that searches, splits and merges."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import memory_snapshots
from support.caching_allocator import MIB, Model, run, tables

import warpline
from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.timelines import history_notes
from warpline.trace import MemorySource, Trace


def replay(model, begin=0):
    return replayed(Trace(MemorySource(tables(model, begin))))


def stats_of(timeline):
    columns = (
        timeline.allocated_bytes,
        timeline.active_bytes,
        timeline.requested_bytes,
        timeline.reserved_bytes,
        timeline.inactive_split_bytes,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_every_moment_is_that_of_the_allocator(seed, expandable):
    model = run(seed, expandable=expandable)
    found = replay(model)
    assert stats_of(found.timelines[0]) == model.stats
    assert found.unknown.tolist() == [0]


@pytest.mark.parametrize("begin", [1, 100, 150, 251])
@pytest.mark.parametrize("seed", range(10))
def test_a_history_that_begins_late_has_the_same_bytes(seed, begin):
    model = run(seed)
    found = stats_of(replay(model, begin).timelines[0])
    assert found[-(len(model.stats) - begin) :] == model.stats[begin:]


def test_blocks_have_their_times_and_sizes():
    model = Model()
    small, large = model.malloc(100), model.malloc(3 * MIB + 1)
    model.free(small)
    found = replay(model)
    blocks = found.blocks
    assert blocks.bytes.tolist() == [512, 3 * MIB + 512]
    assert blocks.requested_bytes.tolist() == [100, 3 * MIB + 1]
    assert blocks.address.tolist() == [small.address, large.address]
    assert found.timelines[0].peak == 3
    assert blocks.alive(0, 3).tolist() == [0, 1]
    assert blocks.alive(0, 4).tolist() == [1]


def test_the_rest_of_a_large_block_belongs_to_it():
    model = Model()
    first = model.malloc(12 * MIB)  # a segment of its own
    model.free(first)
    model.malloc(11 * MIB + 5)
    assert replay(model).blocks.bytes.tolist() == [12 * MIB, 12 * MIB]


def test_a_free_that_was_not_recorded_ends_a_block():
    model = Model()
    model.free(model.malloc(1000))
    model.malloc(1000)
    model.entries = [entry for entry in model.entries if entry[0] != "free_requested"]
    found = replay(model)
    assert found.timelines[0].allocated_bytes[-1] == 1024
    assert np.count_nonzero(found.blocks.last == len(found.timelines[0].time_ns)) == 1


def test_a_release_that_was_not_recorded_ends_a_segment():
    model = Model()
    kept = model.malloc(12 * MIB)
    model.malloc(100)
    model.entries += [
        ("segment_alloc", kept.address, 16 * MIB),
        ("free_requested", kept.address, 0),
    ]
    model.entries += [("free_completed", kept.address, 0)]
    found = replay(model)
    timeline = found.timelines[0]
    assert timeline.reserved_bytes.tolist()[-1] == (16 + 2) * MIB
    assert timeline.allocated_bytes.tolist()[-1] == 512
    assert timeline.large_split_bytes.tolist()[-1] == 0
    assert found.unknown.tolist() == [1]


def test_sizes_of_the_profiler_are_those_of_blocks():
    events = {
        "time_ns": [1, 2, 3],
        "process_id": [0] * 3,
        "device_id": [0] * 3,
        "memory": [1] * 3,
        "operation": [0, 0, 1],
        "bytes": [700, 512, 700],
        "address": [10, 20, 10],
        "total_allocated_bytes": [1700, 2212, 1512],
        "total_reserved_bytes": [4096] * 3,
    }
    found = replayed(Trace(MemorySource({"allocator_event": events})))
    assert found.timelines[0].allocated_bytes.tolist() == [1700, 2212, 1512]
    assert found.timelines[0].inactive_split_bytes is None
    assert found.blocks.bytes.tolist() == [700, 512]


STATS = ("allocated", "active", "requested", "reserved", "inactive_split")


@pytest.mark.parametrize("name", memory_snapshots.NAMES)
def test_real_histories_have_the_statistics_of_torch(name, data_dir, tmp_path):
    trace = warpline.open(memory_snapshots.unpack(data_dir, name, tmp_path))
    sums = json.loads((data_dir / "memory" / "sums.json").read_text())[name]["memory_stats"]
    stats = stats_of(replayed(trace).timelines[0])
    peaks, last = [max(column) for column in zip(*stats, strict=True)], list(stats[-1])
    assert peaks == [sums[f"{name}_bytes.all.peak"] for name in STATS]
    assert last == [sums[f"{name}_bytes.all.current"] for name in STATS]
    assert history_notes(trace) == ()
