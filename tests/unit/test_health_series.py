"""Readings of GPUs and machine as values over time, and when clocks were limited."""

from __future__ import annotations

import pytest
from support.health import APPLICATIONS, MS, POWER_CAP, read_gpu, read_host
from support.machine import Machine

from warpline.derived.health.clock_limits import ClockLimit
from warpline.derived.health.readings import MACHINE
from warpline.derived.health.series import (
    clock_limit_spans,
    gpu_health_series,
    host_health_series,
)


def gpu_series(machine, **numbers):
    return {one.key: one for one in gpu_health_series(machine.program.trace("H100", **numbers))}


def spans(series):
    parts = (series.start_ns, series.end_ns, series.value)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def test_a_reading_counts_until_the_next_one_unless_that_is_late():
    machine = Machine()
    for at, watts in ((0, 100.0), (10, 200.0), (20, 300.0), (100, 50.0)):
        read_gpu(machine, at * MS, power_w=watts)
    power = gpu_series(machine, power_limit_w=700)["power"]
    # 80 ms is more than three times the usual 10 ms; the last counts for its own millisecond.
    expected = [(0, 10, 100.0), (10, 20, 200.0), (20, 30, 300.0), (100, 101, 50.0)]
    assert spans(power) == [(low * MS, high * MS, value) for low, high, value in expected]
    assert power.highest == 700


def test_a_counter_is_shown_as_its_growth_per_second():
    machine = Machine()
    for at, sent in ((0, 1_000), (100, 3_000), (200, 500), (400, 1_500)):
        read_gpu(machine, at * MS, nvlink_sent_bytes=sent)
    series = gpu_series(machine)
    assert spans(series["nvlink_sent"]) == [
        (0, 100 * MS, 20_000.0),
        (200 * MS, 400 * MS, 5_000.0),  # it was less after a restart of the driver
    ]
    assert "nvlink_received" not in series


def test_the_machine_and_its_processes():
    machine = Machine()
    for at, cpu in ((0, 0), (1_000, 2_500)):
        read_host(machine, at * MS, cpu_ns=cpu * MS, cores=8, memory_bytes=3, free_memory_bytes=5)
        read_host(machine, at * MS, 1, cpu_ns=cpu * MS // 5)
    found = {(one.of, one.key): one for one in host_health_series(machine.program.trace())}
    assert found.keys() == {(MACHINE, "cpu"), (MACHINE, "memory"), (1, "cpu")}
    assert spans(found[MACHINE, "cpu"]) == [(0, 1_000 * MS, pytest.approx(2.5))]
    assert spans(found[1, "cpu"]) == [(0, 1_000 * MS, pytest.approx(0.5))]
    assert (found[MACHINE, "cpu"].highest, found[MACHINE, "memory"].highest) == (8, 8)
    assert found[1, "cpu"].highest is None


def test_spans_of_a_clock_limit_are_joined_and_end_at_a_gap():
    machine = Machine()
    limits: dict[int, int | None] = {0: 0, 10: POWER_CAP, 20: POWER_CAP | APPLICATIONS}
    limits |= {30: APPLICATIONS, 40: 1, 50: None, 60: POWER_CAP, 200: POWER_CAP}
    for at, bits in limits.items():
        read_gpu(machine, at * MS, clock_limits=bits)
    (found,) = clock_limit_spans(machine.program.trace())
    power, setting = int(ClockLimit.POWER_CAP), int(ClockLimit.APPLICATION)
    assert found.device == 0
    parts = (found.start_ns // MS, found.end_ns // MS, found.limit)
    assert list(zip(*(part.tolist() for part in parts), strict=True)) == [
        (10, 30, power),
        (30, 40, setting),
        (60, 70, power),
        (200, 201, power),
    ]


def test_without_a_limit_there_are_no_spans():
    machine = Machine()
    for at in (0, 10):
        read_gpu(machine, at * MS, clock_limits=1)
    assert clock_limit_spans(machine.program.trace()) == ()
