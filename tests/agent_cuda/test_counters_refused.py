"""Counters that cannot be had: what is told, and that the program runs as without."""

from __future__ import annotations

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs

AVAILABILITY = "cuptiProfilerGetCounterAvailability"
WORDS = ("init", "repeat", 4, "k1,k2g2", "thread_kernels", 2, 5, 1, "memory")
OUTPUT = "memory 18 of 18, 0 failed\n"


def told(folder, kind=logs.NOTE_NO_COUNTERS):
    """Return the texts of the notes of one kind."""
    return [text for found, text in logs.notes(folder) if found == kind]


REFUSALS = [
    *((AVAILABILITY, result) for result in (26, 35, 40, 999)),
    ("cuptiProfilerInitialize", 999),
    ("cuptiDeviceGetChipName", 999),
    ("cuptiProfilerHostInitialize", 1),
    ("cuptiProfilerHostGetConfigImage", 999),
    ("cuptiRangeProfilerEnable", 35),
    ("cuptiRangeProfilerGetCounterDataSize", 999),
    ("cuptiRangeProfilerSetConfig", 999),
    ("cuptiRangeProfilerStart", 26),
    ("cuptiRangeProfilerStart", 999),
]


@pytest.mark.parametrize(("function", "result"), REFUSALS)
@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
def test_a_refusal_is_told_once(run, metrics, function, result):
    folder = run(
        *WORDS,
        **counted.keys(metrics),
        environment={"FAKE_COUNTERS_REFUSE": f"{function}={result}"},
    )
    assert counted.read(folder) == []
    (text,) = told(folder)
    reason, _, number = text.partition("\t")
    assert reason.startswith(f"{function}: ")
    assert reason.endswith(f"({result})")
    assert int(number) == result  # of which finishing knows the cause
    assert counted.output(folder) == OUTPUT


@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
@pytest.mark.parametrize("function", ["cuptiRangeProfilerStop", "cuptiRangeProfilerDecodeData"])
def test_counters_that_cannot_be_read(run, metrics, function):
    folder = run(
        *("init", "repeat", 4, "k1", "memory"),
        **counted.keys(metrics),
        environment={"FAKE_COUNTERS_REFUSE": f"{function}=999"},
    )
    assert all(one.values == {} for one in counted.read(folder))
    assert told(folder) + told(folder, logs.NOTE_COUNTERS_DOUBT)
    assert counted.output(folder).startswith("memory 4 of ")


def test_a_library_without_the_functions(run, cuda):
    folder = run(*WORDS, cupti=cuda.cupti12_bare, **counted.keys())
    (text,) = told(folder)
    assert "12.6" in text
    assert counted.read(folder) == []
    assert counted.output(folder) == OUTPUT


def test_another_profiler_has_cupti(run):
    folder = run(*WORDS, **counted.keys(), environment={"FAKE_CUPTI_BUSY": "Other"})
    assert counted.read(folder) == []
    assert told(folder) or told(folder, logs.NOTE_OTHER_PROFILER)
    assert counted.output(folder) == OUTPUT


def test_another_profiler_that_shares_cupti(run, cuda):
    sharing = {
        "FAKE_CUPTI_BUSY": "Other",
        "FAKE_CUPTI_SHARES": "1",
        "FAKE_DRIVER_VERSION": "13030",
    }
    folder = run(*WORDS, cupti=cuda.cupti13_3, **counted.keys(), environment=sharing)
    kernels = counted.read(folder)
    counted.check_values(kernels)
    assert bool(kernels) != bool(told(folder))
    assert counted.output(folder) == OUTPUT


@pytest.mark.parametrize("cupti", ["cupti12", "cupti13", "cupti13_3"])
def test_versions_that_have_them(run, cuda, cupti):
    folder = run(*WORDS, cupti=getattr(cuda, cupti), **counted.keys())
    kernels = counted.read(folder)
    assert len(kernels) == 18
    counted.check_values(kernels)
    assert told(folder) == []


def test_unknown_metrics_are_left_out(run):
    metrics = [f"{counted.TIME} ns", "no__such_thing.sum", counted.WARPS]
    folder = run("init", "repeat", 3, "k1g2", **counted.keys(metrics))
    kernels = counted.read(folder)
    assert len(kernels) == 3
    counted.check_values(kernels, [counted.TIME, counted.WARPS])
    (text,) = told(folder, logs.NOTE_COUNTERS_DOUBT)
    assert "no__such_thing.sum" in text


def test_only_unknown_metrics(run):
    folder = run(*WORDS, **counted.keys(["no__such_thing.sum", "no__other.sum"]))
    (text,) = told(folder)
    assert "no__such_thing.sum" in text
    assert "no__other.sum" in text
    assert counted.read(folder) == []
    assert counted.output(folder) == OUTPUT


@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
def test_values_that_are_missing(run, metrics):
    folder = run(
        *("init", "repeat", 3, "k1,k2g7,k3g2", "memory"),
        **counted.keys(metrics),
        environment={"FAKE_COUNTERS_NO_VALUES": "7"},
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1", "k2g7", "k3g2"] * 3
    assert [bool(one.values) for one in kernels] == [True, False, True] * 3
    counted.check_values([one for one in kernels if one.number != 2], metrics)


def test_more_passes_than_one_without_replay(run):
    folder = run(*WORDS, **counted.keys(counted.HEAVY, replay="serial"))
    (text,) = told(folder)
    assert "9 passes" in text
    assert counted.read(folder) == []
    assert counted.output(folder) == OUTPUT
