"""CUPTI detached between samples: when it is, when not, and the records after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_cuda import cuda_logs as logs

from warpline.capture.session.control import RangeMode

LAUNCH = "cudaLaunchKernel_v7000"
GRAPH = "cudaGraphLaunch_v10000"
BEGIN, END = 6, 7
# About 1 ms each: rests of some 0.4 s, in which no call is seen.
STEP = "k1x20,k2,u1000"
SAMPLED = {
    "mode": RangeMode.STEPS,
    "sample_steps": 5,
    "sample_every": 400,
    "cuda_graph": "node",
    "cuda_detach_ms": 200,
}
STEPS = 2500


def detached(folder: Path) -> int:
    """Return how often CUPTI was detached."""
    return (folder.parent / "told").read_text().split("\n").count("finalize 0")


@pytest.fixture
def sample(run, tmp_path):
    """Return a function that records sampled steps, and where the fake CUPTI told its story."""

    def record(*words, environment=(), **keys):
        told = {"FAKE_CUPTI_LOG": str(tmp_path / "told"), **dict(environment)}
        return run("init", *words, environment=told, **{**SAMPLED, **keys})

    return record


def windows(folder: Path) -> list[list[int]]:
    """Return the steps with which samples began and ended."""
    notes = [note for log in logs.read(folder) for note in log.notes]
    return [sorted(int(text) for kind, text in notes if kind == way) for way in (BEGIN, END)]


@pytest.mark.parametrize("environment", [{}, {"FAKE_CUPTI_RESTARTS": "1"}])
def test_it_is_detached_in_every_rest_and_nothing_is_lost(sample, environment):
    folder = sample("repeat", STEPS, STEP, environment=environment)
    begins, ends = windows(folder)
    assert len(ends) >= 2  # the clock decides: 6 where nothing else runs
    assert begins == [400 * n for n in range(len(begins))]
    assert detached(folder) in (len(ends) - 1, len(ends))
    # The program may have ended in the last sample.
    assert 105 * len(ends) <= logs.calls(folder)[LAUNCH] <= 105 * len(begins)
    calls = [call.correlation for call in logs.found(folder, logs.CALL)]
    kernels = [kernel.correlation for kernel in logs.found(folder, logs.KERNEL)]
    assert len(set(calls)) == len(calls)
    assert sorted(kernels) == sorted(calls)


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["repeat", STEPS, STEP], {"cuda_detach_ms": 3_600_000}),
        (["repeat", STEPS, STEP], {"cuda_detach_ms": 0}),
        (["repeat", STEPS, STEP], {"cuda_graph": "graph"}),
        (["graph_exec", "repeat", STEPS, STEP], {}),
        (["repeat", STEPS, STEP + ",g1"], {}),
    ],
)
def test_it_stays(sample, words, keys):
    folder = sample(*words, **keys)
    assert len(windows(folder)[1]) >= 2
    assert detached(folder) == 0


@pytest.mark.parametrize(
    ("name", "version"), [("cupti12", "26"), ("cupti13", "130000"), ("cupti13", "140000")]
)
def test_an_older_or_unknown_one_stays(sample, cuda, name, version):
    environment = {"FAKE_CUPTI_VERSION": version}
    folder = sample("repeat", STEPS, STEP, cupti=getattr(cuda, name), environment=environment)
    assert len(windows(folder)[1]) >= 2
    assert detached(folder) == 0


@pytest.mark.parametrize(("tries", "comes_back"), [(2, True), (1_000_000, False)])
def test_another_tool_that_takes_its_place_is_told_and_waited_for(sample, tries, comes_back):
    # The other leaves when it was in the way so often.
    environment = {"FAKE_CUPTI_TAKEN": str(tries)}
    folder = sample("repeat", STEPS, STEP, environment=environment)
    assert (logs.calls(folder)[LAUNCH] > 105) == comes_back
    assert (detached(folder) > 1) == comes_back
    (told,) = [text for kind, text in logs.notes(folder) if kind == logs.NOTE_KIND_FAILED]
    assert told.startswith("samples lack CUDA because another profiler was attached, ")
