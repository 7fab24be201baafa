"""Findings about GPU memory: programs with a planted problem, and without it."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory_programs import MIB, Training
from support.memory_snapshots import unpack

import warpline
from warpline.plugins import load
from warpline.result import RULES, Finding, Skipped
from warpline.trace import MemorySource, Run, Trace

load("analyses")
NAMES = (
    "memory-growth", "fragmentation", "cache-flush", "activation-memory", "optimizer-state-memory"
)  # fmt: skip


def found(trace: Trace) -> dict[str, Finding]:
    """Return what each rule about memory finds."""
    result = {}
    for name in NAMES:
        judged = RULES.get(name).judge(Run(trace))
        if not isinstance(judged, Skipped):
            result.update({item.rule: item for item in judged})
    return result


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("leak", {"memory-growth"}),
        ("fragment", {"fragmentation"}),
        ("flush", {"cache-flush"}),
        ("graph", set()),
        ("streams", set()),
        ("train", {"activation-memory"}),
        ("train_expandable", {"activation-memory"}),
    ],
)
def test_real_snapshots(name, expected, data_dir, tmp_path):
    assert set(found(warpline.open(unpack(data_dir, name, tmp_path)))) == expected


def test_growth_is_named_with_its_speed_and_end():
    trace = Training(leaks=True).run(memory_bytes=1 << 30)
    item = found(trace)["memory-growth"]
    assert item.title == "GPU memory grows by 8.00 MiB per step"
    # 8 steps keep 8 MiB each, beside 41 MiB.
    assert "allocated at GPT.blocks.0" in item.claim
    assert "GPU 0 is full after" in item.claim
    assert item.evidence[0].table == "allocator_event"
    assert item.severity == "medium"
    assert "memory-growth" not in found(Training().run())


def test_activations_have_a_price():
    item = found(Training().run())["activation-memory"]
    # Four blocks of 8 MiB, of which one is recomputed at a time. A forward kernel takes 100 us.
    assert "Recomputing GPT.blocks.* (4 modules)" in item.claim
    assert "frees up to 24.0 MiB and takes 400 us per step" in item.claim
    assert item.severity == "info"
    assert item.saving_ns is None
    full = found(Training().run(memory_bytes=60 * MIB))["activation-memory"]
    assert full.severity == "info"  # the reserved memory was not recorded
    assert "activation-memory" not in found(Training(activations=1).run())


def test_optimizer_state_has_its_share():
    item = found(Training(activations=1).run())["optimizer-state-memory"]
    assert item.claim.startswith("Optimizer state takes 8.00 MiB of ")
    assert "2.0 times the parameters" in item.claim
    assert "it takes 2.00 MiB." in item.claim
    assert "optimizer-state-memory" not in found(Training().run())


SEGMENT = 20 * MIB


def history(*events):
    """Return a trace of (table, operation, address, bytes), and stacks of the program's frames."""
    tables: dict[str, dict[str, list[Any]]] = {
        name: {key: [] for key in ("time_ns", "operation", "address", "bytes", "stack_id")}
        for name in ("allocator_event", "segment_event")
    }
    for time, (table, *row, stack) in enumerate(events):
        for key, value in zip(tables[table], (time, *row, stack), strict=True):
            tables[table][key].append(value)
    for table in tables.values():
        table["process_id"] = table["device_id"] = [0] * len(table["time_ns"])
    tables["allocator_event"]["memory"] = [1] * len(tables["allocator_event"]["time_ns"])
    frames = {
        "symbol": ["step", "empty_cache"],
        "module": ["train.py", "/opt/site-packages/torch/cuda/memory.py"],
    }
    tables["frame"] = {**frames, "line": [7, 170], "kind": [3, 3]}
    tables["stack"] = {"parent_id": [None, 0], "frame_id": [0, 1], "depth": [0, 1]}
    return Trace(MemorySource(tables))


def segment(operation, number, stack=None, size=SEGMENT):
    return ("segment_event", operation, number * SEGMENT, size, stack)


def block(operation, address, size):
    return ("allocator_event", operation, address, size, None)


def flushing(*, again, asked):
    """Return three segments that are used, flushed, and perhaps allocated again, twice."""
    events = []
    for _ in range(2):
        for number in range(3):
            events += [segment(0, number), block(0, number * SEGMENT, SEGMENT)]
        for number in range(3):
            events += [block(1, number * SEGMENT, SEGMENT)]
            events += [("segment_event", 4, number * SEGMENT, SEGMENT, None)]
        events += [segment(1, number, 1 if asked else 0) for number in range(3)]
        if not again:
            break
    return history(*events)


def test_a_flush_names_its_cause_and_line():
    item = found(flushing(again=True, asked=True))["cache-flush"]
    assert item.claim.startswith(
        "torch.cuda.empty_cache() at train.py:7 step returned 60.0 MiB on GPU 0."
    )
    assert item.fix == "Remove torch.cuda.empty_cache() from the loop."
    needed = found(flushing(again=True, asked=False))["cache-flush"]
    assert needed.claim.startswith("The allocator had no memory for a new block at train.py:7 step")
    assert found(flushing(again=False, asked=True)) == {}


def fragmented(*, pieces, fails=False):
    """Return segments of which every other piece is freed before a new segment is allocated."""
    events, size = [], SEGMENT // pieces
    for number in range(8):
        events.append(segment(0, number))
        events += [block(0, number * SEGMENT + at * size, size) for at in range(pieces)]
    for number in range(8):
        for at in range(0, pieces, 2):
            address = number * SEGMENT + at * size
            events += [block(1, address, size), ("segment_event", 4, address, size, None)]
    events.append(("segment_event", 5, None, SEGMENT, None) if fails else segment(0, 9))
    return history(*events)


def test_fragmentation_is_found_when_memory_is_needed():
    item = found(fragmented(pieces=4))["fragmentation"]
    assert item.title == "80.0 MiB of GPU memory is free but fragmented"
    assert item.claim.startswith("On GPU 0, 20.0 MiB was allocated from the driver while 80.0 MiB")
    assert item.severity == "low"
    failed = found(fragmented(pieces=4, fails=True))["fragmentation"]
    assert failed.severity == "high"
    assert "an allocation of 20.0 MiB failed although 80.0 MiB" in failed.claim
    # Whole segments are free: these can be returned.
    assert found(fragmented(pieces=1)) == {}
