"""Blocks in use in each state, against one allocation and free at a time; names of blocks."""

from __future__ import annotations

import json

import pytest
from support import caching_allocator, kineto_files, memory_histories, memory_snapshots
from support.kineto_files import PID, event

import warpline
from warpline.derived.memory.allocations import allocations, memory_peaks
from warpline.derived.memory.labels import (
    BYS,
    labels_of_allocations,
    line_of_stack,
    short_lines,
    stacks_of_allocations,
)
from warpline.derived.memory.lifetimes import lifetimes
from warpline.trace import MemorySource, Trace

MIB = memory_histories.MIB


def check(trace):
    """Check each state of each pool, adding up and taking away blocks one by one."""
    events = allocations(trace)
    for number, peak in enumerate(memory_peaks(trace)):
        memory = lifetimes(trace, number)
        in_use = [0] * len(memory.time_ns)
        for start, end, size in zip(
            memory.start.tolist(), memory.end.tolist(), memory.bytes.tolist(), strict=True
        ):
            assert 0 <= start < end <= len(in_use)
            for state in range(start, end):
                in_use[state] += size
        whole = [a + b for a, b in zip(in_use, memory.rest_bytes.tolist(), strict=True)]
        assert whole == memory.allocated_bytes.tolist()
        recorded = events.allocated_bytes[events.pool == number].tolist()
        assert whole[memory.first :][-len(recorded) :] == recorded[-len(whole[memory.first :]) :]
        assert whole[memory.peak] == max(whole[memory.first :]) == peak.allocated_bytes
        assert memory.start.tolist() == sorted(memory.start.tolist())


@pytest.mark.parametrize("begin", [0, 150])
@pytest.mark.parametrize("seed", range(4))
def test_every_state_of_a_history_has_its_blocks(seed, begin):
    model = caching_allocator.run(seed)
    trace = Trace(MemorySource(caching_allocator.tables(model, begin)))
    check(trace)
    (memory,) = (lifetimes(trace, number) for number in range(len(allocations(trace).pools)))
    assert not memory.rest_bytes.any()
    assert (memory.first == 0) == (begin > 0)


@pytest.mark.parametrize("name", kineto_files.names())
def test_every_state_of_a_profile_has_its_blocks(name, tmp_path_factory):
    check(warpline.open(kineto_files.unpack(name, tmp_path_factory.getbasetemp())))


@pytest.mark.parametrize("name", memory_snapshots.NAMES)
def test_peaks_are_those_of_torch(name, data_dir, tmp_path):
    trace = warpline.open(memory_snapshots.unpack(data_dir, name, tmp_path))
    check(trace)
    stats = json.loads((data_dir / "memory" / "sums.json").read_text())[name]["memory_stats"]
    (row,) = warpline.stats(trace, "memory_sum").to_polars().to_dicts()
    assert row["peak_bytes"] == stats["allocated_bytes.all.peak"]
    assert row["end_bytes"] == stats["allocated_bytes.all.current"]
    assert row["reserved_bytes"] == stats["reserved_bytes.all.peak"]
    for table in ("memory_peak", *(f"memory_peak:{by}" for by in BYS)):
        rows = warpline.stats(trace, table).columns["in_use_bytes"].to_list()
        assert sum(rows) == row["peak_bytes"]


def memory(ts, size, address, total):
    args = {"Bytes": size, "Addr": address, "Device Type": 1, "Device Id": 0}
    args |= {"Total Allocated": total, "Total Reserved": 4096}
    return event("cpu_instant_event", "[memory]", ts, 0, ph="i", s="t", tid=PID, args=args)


def test_blocks_that_were_there_are_known_from_their_frees(tmp_path):
    events = [memory(1, 100, 16, 1100), memory(2, -300, 32, 800), memory(3, -100, 16, 700)]
    events.append(event("cpu_op", "aten::empty", 0, 5))
    trace = warpline.open(kineto_files.write(tmp_path / "trace.json", events))
    found = lifetimes(trace, 0)
    assert found.allocated_bytes.tolist() == [1000, 1100, 800, 700]
    assert found.rest_bytes.tolist() == [700] * 4
    blocks = (found.start, found.end, found.bytes, found.allocation)
    assert list(zip(*(column.tolist() for column in blocks), strict=True)) == [
        (0, 2, 300, -1),
        (1, 3, 100, 0),
    ]
    assert found.peak == 1
    assert found.in_use(1).tolist() == [0, 1]
    assert found.reserved_bytes is not None
    assert found.reserved_bytes.tolist() == [4096] * 4


def test_lines_are_those_of_the_program(tmp_path):
    trace = warpline.open(memory_histories.training(tmp_path / "run.pickle"))
    codes, texts = labels_of_allocations(trace, "line")
    events = allocations(trace)
    named = [
        (size // MIB, texts[code])
        for size, code in zip(events.change_bytes.tolist(), codes.tolist(), strict=True)
        if size > 0
    ]
    steps = [(8, "model.py:20 forward"), (4, "model.py:21 forward")] * 3
    assert named == [(10, "model.py:5 __init__"), *steps]
    stacks = stacks_of_allocations(trace)
    assert stacks.texts[stacks.codes[0]] == "/app/model.py:5 __init__\n/app/train.py:1 main"


def test_a_stack_of_packages_only_has_its_innermost_frame():
    torch = "/venv/lib/python3.11/site-packages/torch/optim/adamw.py:3 step"
    assert line_of_stack(f"{torch}\n<frozen runpy>:1 run") == torch
    assert line_of_stack(f"{torch}\n/app/train.py:7 main") == "/app/train.py:7 main"


def test_files_of_one_name_have_their_directories():
    frames = ["/a/model.py:1 f", "/b/model.py:1 f", "/a/train.py:2 <module>", "native"]
    assert short_lines(frames) == [
        *("a/model.py:1 f", "b/model.py:1 f", "train.py:2 <module>", "native"),
    ]
