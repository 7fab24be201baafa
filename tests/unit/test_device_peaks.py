"""GPU memory of a program at its peak: exact allocations, and what readings of the driver add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import memory_snapshots

import warpline
from warpline.derived.memory.device_peaks import DevicePeak, device_peaks
from warpline.trace import MemorySource, Trace

MIB, S = 1 << 20, 1_000_000_000
ALLOCATION, FREE = 0, 1  # of schema.labels.MEMORY_OPERATIONS
DEVICE_MEMORY, ON_DEVICE = 2, 1  # of MEMORY_KINDS and ALLOCATOR_DEVICES
DEVICE: dict[str, list[Any]] = {"gpu_index": [0], "name": ["G"], "memory_bytes": [1000 * MIB]}


def trace(**tables: dict[str, list[Any]]) -> Trace:
    return Trace(MemorySource({"process": {"pid": [7]}, "device": DEVICE, **tables}))


def readings(*used: int, others: list[int | None] | None = None) -> dict[str, list[Any]]:
    times = [k * S for k in range(len(used))]
    found: dict[str, list[Any]] = {"start_ns": times, "end_ns": [of + 1000 for of in times]}
    found |= {"device_id": [0] * len(used), "used_memory_bytes": [of * MIB for of in used]}
    if others is not None:
        found["other_memory_bytes"] = [None if of is None else of * MIB for of in others]
    return found


def allocations(*changes: tuple[float, int]) -> dict[str, list[Any]]:
    """Memory of the driver: seconds, and MiB that are allocated or, if negative, freed."""
    rows = range(len(changes))
    return {
        "time_ns": [int(time * S) for time, _ in changes],
        "process_id": [0 for _ in rows],
        "device_id": [0 for _ in rows],
        "operation": [ALLOCATION if change > 0 else FREE for _, change in changes],
        "memory": [DEVICE_MEMORY for _ in rows],
        "bytes": [abs(change) * MIB for _, change in changes],
        "address": [16 * row for row in rows],
    }


def test_nothing_is_known_without_records() -> None:
    assert device_peaks(trace()) == ()
    assert device_peaks(Trace(MemorySource({"process": {"pid": [7]}}))) == ()


def test_readings_alone_give_what_was_not_there_before() -> None:
    (peak,) = device_peaks(trace(gpu_health=readings(100, 500, 700, 650)))
    assert peak == DevicePeak(
        device=0,
        peak_bytes=600 * MIB,
        source="readings",
        has_readings=True,
        limit_bytes=900 * MIB,
        taken_bytes=600 * MIB,
        allocated_bytes=None,
    )


def test_allocations_are_exact_between_readings() -> None:
    events = allocations((0.5, 200), (1.5, 300), (1.6, -300))
    (peak,) = device_peaks(trace(memory_event=events))
    assert (peak.peak_bytes, peak.has_readings, peak.limit_bytes) == (500 * MIB, False, 1000 * MIB)
    # The context has 80 MiB: 380 are in use after one second, less 100 of others and 200 allocated.
    (peak,) = device_peaks(trace(memory_event=events, gpu_health=readings(100, 380, 380)))
    assert (peak.source, peak.has_readings) == ("CUDA allocations", True)
    assert (peak.peak_bytes, peak.limit_bytes) == (580 * MIB, 900 * MIB)


def test_memory_of_other_processes_is_told_by_the_driver() -> None:
    used = readings(300, 380, others=[250, 250])  # the program had begun at the first reading
    (peak,) = device_peaks(trace(gpu_health=used))
    assert (peak.peak_bytes, peak.limit_bytes) == (130 * MIB, 750 * MIB)


def test_the_framework_says_what_it_had_allocated() -> None:
    events: dict[str, list[Any]] = {
        "time_ns": [S, 2 * S],
        "process_id": [0, 0],
        "thread_id": [0, 0],
        "memory": [ON_DEVICE, ON_DEVICE],
        "device_id": [0, 0],
        "operation": [ALLOCATION, ALLOCATION],
        "bytes": [10 * MIB, 20 * MIB],
        "address": [1 << 30, 1 << 31],
        "total_allocated_bytes": [10 * MIB, 30 * MIB],
        "total_reserved_bytes": [20 * MIB, 40 * MIB],
    }
    (peak,) = device_peaks(trace(allocator_event=events))
    assert (peak.peak_bytes, peak.allocated_bytes) == (40 * MIB, 30 * MIB)
    assert peak.source == "the framework's allocator"


@pytest.mark.parametrize("name", memory_snapshots.NAMES)
def test_memory_that_pytorch_does_not_use_is_not_needed(
    data_dir: Path, tmp_path: Path, name: str
) -> None:
    sums = json.loads((data_dir / "memory" / "sums.json").read_text())[name]["memory_stats"]
    (peak,) = device_peaks(warpline.open(memory_snapshots.unpack(data_dir, name, tmp_path)))
    active, reserved = (sums[f"{of}_bytes.all.peak"] for of in ("active", "reserved"))
    assert peak.taken_bytes == reserved
    assert peak.allocated_bytes == sums["allocated_bytes.all.peak"]
    assert peak.source == "the framework's allocator, without PyTorch's free memory"
    assert peak.peak_bytes == active
