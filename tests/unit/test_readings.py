"""Readings of one thing, by time, and those of several recordings together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpline.analyses.findings.gpu_shared import gpu_shared
from warpline.derived.health.clock_limits import ClockLimit, is_idle, limits_in_words, main_limits
from warpline.derived.health.readings import MACHINE, Readings, gpu_readings, host_readings
from warpline.derived.health.shown import gpus_in_words
from warpline.trace import MemorySource, Run, Trace, TraceMeta
from warpline.trace.merge import merge

S = 1_000_000_000


def source(host: str, **values: Any) -> MemorySource:
    """Return a recording of 4 s with a kernel, and readings of its GPU and machine per second."""
    times = [number * S for number in range(5)]
    once = {name: [value] * 5 for name, value in values.items()}
    return MemorySource(
        {
            "process": {"pid": [7]},
            "device": {"gpu_index": [0], "uuid": ["GPU-1"], "name": ["GPU"]},
            "kernel": {"start_ns": [0], "end_ns": [4 * S], "device_id": [0], "process_id": [0]},
            "gpu_health": {"start_ns": times, "end_ns": times, "device_id": [0] * 5, **once},
            "host_health": {
                "start_ns": times * 2, "end_ns": times * 2, "process_id": [None] * 5 + [0] * 5,
                "cpu_ns": [2 * time for time in times] * 2,
            },
        },
        TraceMeta((Path(host),), "memory", host=host, origin_utc_ns=0),
    )  # fmt: skip


def readings(**columns: list[int | None]) -> Readings:
    count = len(next(iter(columns.values())))
    times = [number * S for number in range(count)]
    table: dict[str, list[Any]] = {
        "start_ns": times,
        "end_ns": times,
        "device_id": [0] * count,
        **columns,
    }
    device = {"gpu_index": [0]}
    return gpu_readings(Trace(MemorySource({"gpu_health": table, "device": device})))[0]


def test_counters_grow() -> None:
    of = readings(ecc_corrected=[5, None, 8, 9], nvlink_sent_bytes=[0, 3, 2, 9])
    assert (of.increase("ecc_corrected"), of.rate("ecc_corrected")) == (4, 4 / 3)
    assert of.increase("nvlink_sent_bytes") is None  # it fell
    assert of.increase("nvlinks") is None
    assert of.period_ns == S


def test_readings_inside_spans() -> None:
    of = readings(nvlinks=[1, 2, 3, 4])
    spans = np.array([-5, S, 3 * S + 1]), np.array([0, 2 * S, 9 * S])
    assert of.inside(*spans).tolist() == [False, True, False, False]
    nothing = np.zeros(0, np.int64)
    assert not of.inside(nothing, nothing).any()


def test_one_limit_of_several_is_the_main_one() -> None:
    of = readings(clock_limits=[0, 0x1, 0x4, 0x4 | 0x20, 0x8 | 0x80, 0x8, 0x2 | 0x4, 0x2, None])
    names = [ClockLimit.at(number) for number in main_limits(of).tolist()]
    assert names == [
        ClockLimit.NONE, ClockLimit.NONE, ClockLimit.POWER_CAP, ClockLimit.SW_THERMAL,
        ClockLimit.POWER_BRAKE, ClockLimit.HW_SLOWDOWN, ClockLimit.POWER_CAP,
        ClockLimit.APPLICATION, ClockLimit.UNKNOWN,
    ]  # fmt: skip
    assert is_idle(of).tolist() == [False, True, *[False] * 7]
    said = limits_in_words(of)
    assert said is not None
    assert said.startswith("SW power cap 38%, applications clocks setting 25%, HW slowdown 25%")
    assert limits_in_words(readings(clock_limits=[None])) is None
    assert limits_in_words(readings(clock_limits=[0])) == "none"


@pytest.mark.parametrize(("hosts", "machines"), [(("a", "a"), 1), (("a", "b"), 0)])
def test_machines_of_several_recordings(hosts: tuple[str, str], machines: int) -> None:
    trace = Trace(merge([source(host) for host in hosts]))
    found = host_readings(trace)
    assert [each.of for each in found] == [*[MACHINE] * machines, 0, 1]
    assert {each.rate("cpu_ns") for each in found} == {2 * S}


def test_ranks_are_no_others() -> None:
    alone, neighbor = source("a", other_processes=0), source("a", other_processes=1)
    assert gpu_shared(Run(Trace(neighbor))) != []
    # Each recording has its own processes only.
    assert gpu_shared(Run(Trace(merge([alone, neighbor])))) == []


def test_gpus_in_sentences() -> None:
    trace = Trace(MemorySource({"device": {"gpu_index": [0, 1, 3]}}))
    assert gpus_in_words(trace, [1]) == "GPU 1"
    assert gpus_in_words(trace, [2, 0]) == "GPUs 0 and 3"
    assert gpus_in_words(trace, [0, 1, 2]) == "GPUs 0, 1, and 3"
