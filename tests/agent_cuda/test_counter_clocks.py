"""The clock of the GPU while several passes are made: the fake NVML has it."""

from __future__ import annotations

from collections import Counter

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs

from warpline.capture.session.control import RangeMode

REPLAY = counted.keys(counted.HEAVY)
STEPS = counted.keys(counted.HEAVY, replay="steps") | {"mode": RangeMode.CUDA_PROFILER_API}
BOTH_GPUS = "00000001:ab:00.0,00000001:ab:01.0"


def clocks(folder):
    """Return the clock of each counted kernel."""
    return [one.clock for one in counted.read(folder)]


def test_before_and_after_a_launch_that_is_replayed(run, nvml):
    has = nvml | {"FAKE_NVML_CLOCKS": "1980,1755", "FAKE_COUNTERS_READINGS": "1"}
    folder = run("init", "repeat", 1, "k1g2", "memory", **REPLAY, environment=has)
    assert clocks(folder) == [(1755, 1980)]
    counted.check_values(counted.read(folder), counted.HEAVY)
    assert counted.output(folder) == "memory 1 of 9, 0 failed\n"


@pytest.mark.parametrize("at", [1, 2, 5])
def test_while_it_is_replayed(run, nvml, at):
    clock = ["2000"] * 7
    clock[at] = "1000"
    has = nvml | {"FAKE_NVML_CLOCKS": ",".join(clock), "FAKE_COUNTERS_READINGS": "6"}
    folder = run("init", "repeat", 3, "k1", **REPLAY, environment=has)
    # Only the first launch lasts until there are six readings.
    assert clocks(folder) == [(1000, 2000), (2000, 2000), (2000, 2000)]


def test_each_launch_has_its_own(run, nvml):
    has = nvml | {"FAKE_NVML_CLOCKS": ",".join(map(str, range(2000, 1000, -1)))}
    folder = run("init", "repeat", 20, "k1,k2", **REPLAY, environment=has)
    found = clocks(folder)
    assert len(found) == 40
    ends = [mhz for lowest, highest in found for mhz in (highest, lowest)]
    assert ends == sorted(ends, reverse=True)
    assert all(lowest < highest for lowest, highest in found)


def test_gpus_at_the_same_time(run, nvml):
    has = nvml | {"FAKE_NVML_PLACE": BOTH_GPUS, "FAKE_NVML_CLOCKS": "2000,1900"}
    has["FAKE_COUNTERS_READINGS"] = "40"
    folder = run("init", "thread_kernels", 4, 5, 2, **REPLAY, environment=has)
    kernels = counted.read(folder)
    counted.check_values(kernels, counted.HEAVY)
    for device in (0, 1):
        found = [one.clock for one in kernels if one.record.device == device]
        assert Counter(found) == {(1900, 1900): 9, (1900, 2000): 1}


@pytest.mark.parametrize("low", [0, 7, 17])
def test_both_ends_of_each_pass_over_steps(run, nvml, low):
    clock = ["2000"] * (2 * counted.PASSES)
    clock[low] = "1500"
    has = nvml | {"FAKE_NVML_CLOCKS": ",".join([*clock, "100"])}
    step = ("start", "repeat", 1, "k1,k2g2", "stop", "repeat", 1, "k9")
    folder = run("init", *step * (counted.PASSES + 2), **STEPS, environment=has)
    assert clocks(folder) == [(1500, 2000)] * 2


def test_a_step_that_was_no_pass_has_no_part_in_it(run, nvml):
    # Two readings in each of three steps; then the kernels differ, and it begins anew.
    clock = ["2000", "1000"] * 3 + ["1800", "1900"] * counted.PASSES
    has = nvml | {"FAKE_NVML_CLOCKS": ",".join(clock)}
    usual, other = (("start", "repeat", 1, kernel, "stop") for kernel in ("k1", "k2"))
    words = (*usual * 4, *other, *usual * (counted.PASSES + 2))
    folder = run("init", *words, **STEPS, environment=has)
    assert [one.clock for one in counted.read(folder) if one.values] == [(1800, 1900)]


@pytest.mark.parametrize("replay", ["auto", "kernel"])
def test_one_pass_needs_none(run, nvml, replay):
    has = nvml | {"FAKE_NVML_CLOCKS": "2000,1000"}
    folder = run("init", "repeat", 3, "k1", **counted.keys(replay=replay), environment=has)
    assert clocks(folder) == [None] * 3


UNKNOWN = [
    pytest.param({"LD_LIBRARY_PATH": ""}, id="no library"),
    pytest.param({"FAKE_NVML_PLACE": "00000000:01:00.0"}, id="another GPU"),
    pytest.param({}, id="no clock"),
    pytest.param({"FAKE_NVML_CLOCKS": "0"}, id="an error"),
    pytest.param({"FAKE_NVML_CLOCKS": "2000,0"}, id="an error later"),
]


@pytest.mark.parametrize("has", UNKNOWN)
def test_an_unknown_clock(run, nvml, has):
    folder = run("init", "repeat", 1, "k1", "memory", **REPLAY, environment=nvml | has)
    assert clocks(folder) == [None]
    counted.check_values(counted.read(folder), counted.HEAVY)
    told = [kind for kind, _ in logs.notes(folder)]
    assert told == [logs.NOTE_USING, logs.NOTE_COUNTERS]


def test_forks_meanwhile(run, nvml):
    # Readings take long: without a lock around them many children would find the library locked.
    has = nvml | {"FAKE_NVML_CLOCKS": "2000", "FAKE_NVML_READ_US": "5000"}
    has["FAKE_COUNTERS_READINGS"] = "15"
    folder = run("init", "fork_meanwhile", **REPLAY, environment=has)
    assert clocks(folder) == [(2000, 2000)]
    assert counted.output(folder) == "0 children failed\n"


def test_a_fork_that_launches(run, nvml):
    has = nvml | {"FAKE_NVML_CLOCKS": "2000"}
    folder = run("init", "repeat", 1, "k1", "fork", "repeat", 1, "k1", **REPLAY, environment=has)
    assert clocks(folder) == [(2000, 2000)] * 2


@pytest.mark.parametrize("words", [("exit", 0), ("detach_cuda",), ("end_context", 2)])
def test_ends(run, nvml, words):
    has = nvml | {"FAKE_NVML_CLOCKS": "2000"}
    folder = run("init", "repeat", 3, "k1", *words, **REPLAY, environment=has)
    assert clocks(folder) == [(2000, 2000)] * 3


def test_threads_that_launch_until_the_end(run, nvml):
    has = nvml | {"FAKE_NVML_CLOCKS": "2000"}
    folder = run("init", "launch_on", 2, "sleep", 50, "exit", 0, **REPLAY, environment=has)
    # While the program exits no clock is read any more.
    assert {*clocks(folder)} <= {(2000, 2000), None}
