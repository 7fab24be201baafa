"""Counters of steps: each a pass over its launches, or one range as a whole."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs
from agent_cuda.conftest import configure
from agent_cuda.test_fake_counters import PRELUDE

from warpline.capture.session.control import RangeMode

STEP = "k1,k2g2,d3g5,k2g2"
ITEMS = ["k1g1", "k2g2", "k3g5", "k2g2"]
PROFILER = {"mode": RangeMode.CUDA_PROFILER_API}
PASSES = counted.keys(counted.HEAVY, replay="steps") | PROFILER
WHOLE = counted.keys(replay="range") | PROFILER


def steps(*patterns):
    """Return the words of steps, with work outside them."""
    words = ["init", "repeat", 2, "k9"]
    for pattern in patterns:
        words += ["start", "repeat", 1, pattern, "stop", "repeat", 1, "k9"]
    return [*words, "memory"]


def refusals(folder):
    """Return why counters could not be had."""
    return [text for kind, text in logs.notes(folder) if kind == logs.NOTE_NO_COUNTERS]


def total(metric, *kernels):
    """Return the value of a metric for several kernels together, each a grid and a number."""
    return sum(counted.value(metric, grid, number) for grid, number in kernels)


def test_each_step_is_a_pass(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *steps(*[STEP] * (counted.PASSES + 3)), **PASSES, environment={"FAKE_CUPTI_LOG": str(told)}
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ITEMS
    counted.check_values(kernels, counted.HEAVY)
    assert {one.record.passes for one in kernels} == {counted.PASSES}
    assert refusals(folder) == []
    # Nothing is replayed: what would be is made by the program.
    assert counted.starts(told) == ["user"] * counted.PASSES
    launched = (len(ITEMS) + 1) * (counted.PASSES + 3) + 2
    assert counted.output(folder) == f"memory {launched} of {launched}, 0 failed\n"


def test_some_launches_of_each_step(run):
    names = {"counter_name": "kernel2"}
    folder = run(*steps(*[STEP] * (counted.PASSES + 1)), **PASSES, **names)
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k2g2", "k2g2"]
    counted.check_values(kernels, counted.HEAVY)


def test_too_few_steps(run):
    folder = run(*steps(*[STEP] * 5), **PASSES)
    (text,) = refusals(folder)
    assert "too few steps" in text
    assert all(one.values == {} for one in counted.read(folder))
    assert counted.output(folder) == "memory 27 of 27, 0 failed\n"


DIFFERENT = [
    pytest.param([STEP, "k1,k2g3,d3g5,k2g2"], "kernels differ", id="a shape"),
    pytest.param([STEP, "k1,k2g2,d3g5,k4g2"], "kernels differ", id="a kernel"),
    pytest.param([STEP, "k1,k2g2,d3g5"], "kernels differ", id="fewer"),
    pytest.param([STEP, "k1,k2g2,d3g5,k2g2,k5"], "kernels differ", id="more"),
    pytest.param(["k1,g1,k2"], "graphs", id="graphs"),
]


@pytest.mark.parametrize(("patterns", "cause"), DIFFERENT)
def test_steps_that_cannot_be_passes(run, patterns, cause):
    words = steps(*patterns * 20)
    folder = run(*words, **PASSES)
    (text,) = refusals(folder)
    assert cause in text
    assert all(one.values == {} for one in counted.read(folder))
    assert ", 0 failed" in counted.output(folder)


def test_a_step_that_differs_once(run):
    folder = run(*steps(*[STEP] * 4, "k1,k2", *[STEP] * (counted.PASSES + 2)), **PASSES)
    kernels = [one for one in counted.read(folder) if one.values]
    assert [one.item for one in kernels] == ITEMS
    counted.check_values(kernels, counted.HEAVY)
    assert refusals(folder) == []


def test_a_range_as_a_whole(run):
    words = ["init", "repeat", 2, "k1", "start", "repeat", 3, "k2g5,k3", "stop"]
    words += ["repeat", 2, "k1", "start", "stop", "start", "repeat", 1, "k4", "stop", "memory"]
    folder = run(*words, **WHOLE)
    first, second = counted.read(folder)
    assert (first.record.kernels, second.record.kernels) == (6, 1)
    assert first.record.grid == second.record.grid == (0, 0, 0)
    assert first.record.device == 1
    assert first.record.context == 2
    for metric in (counted.TIME, counted.INSTRUCTIONS, counted.WARPS):
        assert first.values[metric] == 3 * total(metric, (5, 2), (1, 3))
        assert second.values[metric] == total(metric, (1, 4))
    assert counted.output(folder) == "memory 11 of 11, 0 failed\n"


def test_many_ranges(run):
    folder = run(*steps(*["k1", STEP] * 20), **WHOLE)
    ranges = counted.read(folder)
    assert [one.record.kernels for one in ranges] == [1, 4] * 20
    wanted = [total(counted.TIME, (1, 1)), total(counted.TIME, (1, 1), (2, 2), (5, 3), (2, 2))]
    assert [one.values[counted.TIME] for one in ranges] == wanted * 20
    assert len({one.record.name for one in ranges}) == 40


def test_a_graph_is_part_of_a_range(run):
    words = ["init", "stream", 3, "begin_capture", "repeat", 1, "k5g4,k6", "end_capture"]
    words += ["start", "repeat", 1, "k1", "launch_graph", 2, "repeat", 1, "k2g2", "stop", "memory"]
    folder = run(*words, **WHOLE)
    (one,) = counted.read(folder)
    launched = [(1, 1), (4, 5), (1, 6), (4, 5), (1, 6), (2, 2)]
    assert one.values[counted.TIME] == total(counted.TIME, *launched)
    assert counted.output(folder) == "memory 6 of 6, 0 failed\n"


def test_a_capture_ends_a_range(run):
    words = ["init", "stream", 3, "start", "repeat", 1, "k1", "begin_capture", "repeat", 1, "k5g4"]
    words += ["end_capture", "repeat", 1, "k2g2", "launch_graph", 1, "stop", "memory"]
    folder = run(*words, **WHOLE)
    before, after = counted.read(folder)
    assert before.values[counted.TIME] == total(counted.TIME, (1, 1))
    assert after.values[counted.TIME] == total(counted.TIME, (2, 2), (4, 5))
    assert counted.output(folder) == "memory 3 of 3, 0 failed\n"


def test_launches_of_threads_in_a_range(run):
    words = ["init", "start", "thread_kernels", 3, 10, 1, "stop", "memory"]
    folder = run(*words, **WHOLE)
    (one,) = counted.read(folder)
    launched = [(1000 * t + i + 1, t) for t in range(3) for i in range(10)]
    assert one.record.kernels == 30
    assert one.values[counted.TIME] == total(counted.TIME, *launched)


def test_a_range_in_each_context(run):
    words = ["init", "start", "repeat", 1, "k1g2", "context", 3, "repeat", 2, "k2g3", "stop"]
    folder = run(*words, "memory", **WHOLE)
    ranges = {one.record.context: one for one in counted.read(folder)}
    assert {context: one.record.kernels for context, one in ranges.items()} == {2: 1, 3: 2}
    assert ranges[2].values[counted.TIME] == total(counted.TIME, (2, 1))
    assert ranges[3].values[counted.TIME] == total(counted.TIME, (3, 2), (3, 2))


@pytest.mark.parametrize("words", [("exit", 0), ("end_context", 2)])
def test_a_range_that_is_open_at_an_end(run, words):
    folder = run("init", "start", "repeat", 3, "k1g2", *words, **WHOLE)
    (one,) = counted.read(folder)
    assert one.record.kernels == 3
    assert one.values[counted.TIME] == total(counted.TIME, *[(2, 1)] * 3)


def test_more_passes_than_one_of_a_range(run):
    keys = counted.keys(counted.HEAVY, replay="range") | PROFILER
    folder = run(*steps(STEP, STEP), **keys)
    (text,) = refusals(folder)
    assert "9 passes" in text
    assert counted.read(folder) == []


def test_sessions_in_process(cuda, session, tmp_path):
    sessions = [session(cuda=1, cupti_path=[cuda.cupti13], **counted.keys()) for _ in range(2)]
    words: list[object] = ["init", "repeat", 1, "k9"]
    for number, one in enumerate(sessions):
        words += ["attach", one.folder, cuda.agent, "repeat", 2, f"k{number}g3"]
        words += ["detach", "repeat", 1, "k9"]
    alone = cuda.environment(None, CUDA_INJECTION64_PATH="")
    del alone["CUDA_INJECTION64_PATH"]
    done = subprocess.run(
        cuda.command(*words, "memory"),
        env=alone,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.endswith("memory 7 of 7, 0 failed\n")
    for number, one in enumerate(sessions):
        kernels = counted.read(one.folder)
        assert Counter(kernel.item for kernel in kernels) == {f"k{number}g3": 2}
        counted.check_values(kernels)


NVTX = f"""{PRELUDE}
ctypes.CDLL(sys.argv[3]).cuInit(0)
import nvtx
launch(9)
for number in range(3):
    with nvtx.annotate("step"):
        launch(2, 64); launch(3)
    with nvtx.annotate("other"):
        launch(9)
assert (memory.value, executions.value) == (10, 10)
"""


@pytest.mark.parametrize("replay", ["auto", "range"])
def test_nvtx_ranges_are_steps(cuda, session, tmp_path, replay):
    pytest.importorskip("nvtx")
    new = session(mode=RangeMode.NVTX, range_name="step", cuda=1, cupti_path=[cuda.cupti13])
    configure(new, **counted.keys(replay=replay))
    program = tmp_path / "program.py"
    program.write_text(NVTX)
    done = subprocess.run(
        [sys.executable, program, cuda.cupti13, counted.TIME, cuda.driver],
        env=cuda.environment(new),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    times = [one.values[counted.TIME] for one in counted.read(new.folder)]
    wanted = {"auto": [2000, 3000] * 3, "range": [5000] * 3}
    assert times == wanted[replay]
