"""Steps without a range: detected from periodic launches."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent_cuda import cuda_logs as logs
from agent_cuda.conftest import configure

from warpline.capture.session.control import ControlFile, RangeMode, State

LAUNCH = "cudaLaunchKernel_v7000"
GRAPH = "cudaGraphLaunch_v10000"
COPY = "cudaMemcpyAsync_v3020"
STEPS = {"mode": RangeMode.STEPS, "sample_steps": 5, "sample_every": 100}
BEGIN, END, FOUND = 6, 7, 8

# A copy is what is rare in it, so that at rest only copies have to be seen.
WITH_COPY = "m,k1x20,k2,u1000"
# Here every call is a launch: to see them all at rest would cost too much.
LAUNCHES = "k1x20,k2,u1000"


def notes(folder, *kinds):
    """Return the notes of some kinds in the order of their making."""
    return [(kind, text) for log in logs.read(folder) for kind, text in log.notes if kind in kinds]


def patterns(folder):
    """Return the period in ns, the launches and how rests are timed, of each pattern found."""
    return [tuple(map(int, text.split())) for _, text in notes(folder, FOUND)]


def windows(folder):
    """Return the numbers of the steps with which samples began and ended."""
    begins = [int(text) for _, text in notes(folder, BEGIN)]
    ends = [int(text) for _, text in notes(folder, END)]
    return sorted(begins), sorted(ends)


def counted(folder):
    """Return how many callbacks the program had, each time that it asked."""
    return [int(count) for count in re.findall(r"callbacks (\d+)", (folder / "stdout").read_text())]


def _counters(folder):
    page = ControlFile.open(folder)
    try:
        return page.counters()
    finally:
        page.close()


def test_a_rare_call_is_counted_exactly(run):
    folder = run("init", "repeat", 700, WITH_COPY, **STEPS)
    ((period_ns, launches, is_timed),) = patterns(folder)
    assert period_ns > 1_000_000
    assert (launches, is_timed) == (21, 0)
    begins, ends = windows(folder)
    assert begins == [100 * n for n in range(len(begins))]
    assert len(begins) >= 3
    assert ends == [begin + 5 for begin in begins][: len(ends)]
    # Whole steps: what is between two anchors. The program may end within a sample.
    calls, kernels = logs.calls(folder), len(logs.found(folder, logs.KERNEL))
    assert calls[LAUNCH] == kernels
    if len(ends) == len(begins):
        assert calls == {LAUNCH: 105 * len(ends), COPY: 5 * len(ends)}
    else:
        assert 105 * len(ends) <= kernels <= 105 * len(begins)


def test_rests_by_the_clock(run):
    folder = run("init", "repeat", 700, LAUNCHES, **STEPS)
    ((_, launches, is_timed),) = patterns(folder)
    assert (launches, is_timed) == (21, 1)
    begins, ends = windows(folder)
    assert begins == [100 * n for n in range(len(begins))]
    assert len(begins) >= 2  # the clock decides: 7 where nothing else runs
    # The clock decides where the samples lie: the program may end within one.
    assert len(begins) - len(ends) in (0, 1)
    (name, launched), *others = logs.calls(folder).items()
    assert (name, others) == (LAUNCH, [])
    assert 105 * len(ends) <= launched <= 105 * len(begins)
    # The share of the steps is about right.
    begun = _counters(folder).steps_begun
    assert 80 * (len(begins) - 1) <= begun <= 130 * len(begins)


@pytest.mark.parametrize(("pattern", "most"), [(WITH_COPY, 2), (LAUNCHES, 10)])
def test_little_is_seen_at_rest(run, pattern, most):
    # 1,000 steps of every 10,000 steps: the first sample has ended before what is counted begins.
    folder = run(
        *("init", "repeat", 500, pattern, "callbacks", "repeat", 300, pattern, "callbacks"),
        mode=RangeMode.STEPS,
        sample_steps=1,
        sample_every=10_000,
    )
    assert len(windows(folder)[1]) == 1
    searching, resting = counted(folder)
    assert searching > 256 * 21 * 2
    assert resting <= most * 300


@pytest.mark.parametrize("pattern", [WITH_COPY, LAUNCHES])
def test_one_sample_of_so_many_steps(run, pattern):
    once = {"mode": RangeMode.STEPS, "sample_steps": 4, "sample_every": 4, "sample_once": 1}
    folder = run("init", "repeat", 700, pattern, **once)
    assert windows(folder) == ([0], [4])
    assert logs.calls(folder)[LAUNCH] == len(logs.found(folder, logs.KERNEL)) == 4 * 21
    assert _counters(folder).windows_done == 1


def test_launches_before_the_start_of_recording_are_no_steps(run):
    once = {"sample_steps": 4, "sample_every": 4, "sample_once": 1, "state": State.WAITING}
    folder = run("init", "repeat", 700, WITH_COPY, mode=RangeMode.STEPS, **once)
    assert windows(folder) == ([], [])
    assert _counters(folder).step_processes == 0


def test_another_pattern_before(run):
    warm_up = ("repeat", 40, "k5x30,k6,u1100", "repeat", 2000, "k7")
    folder = run("init", *warm_up, "repeat", 700, WITH_COPY, **STEPS)
    assert [launches for _, launches, _ in patterns(folder)] == [21]
    assert set(logs.calls(folder)) == {LAUNCH, COPY}


@pytest.mark.parametrize("more", ["m,k1x20,k8,k2,u1000", "m,k1x20,k2,s,u1000"])
def test_a_call_more_every_tenth_time(run, more):
    # Such as a loss that is printed: the pattern is the step all the same.
    words: list[object] = ["init"]
    for _ in range(60):
        words += ["repeat", 9, WITH_COPY, "repeat", 1, more]
    folder = run(*words, **STEPS)
    assert [launches for _, launches, _ in patterns(folder)] == [21]
    begins, _ = windows(folder)
    assert len(begins) >= 2


def test_a_graph_a_step(run):
    folder = run("init", "repeat", 700, "g1,u1100", **STEPS)
    ((_, launches, is_timed),) = patterns(folder)
    assert (launches, is_timed) == (1, 0)
    begins, ends = windows(folder)
    assert begins == [100 * n for n in range(len(begins))]
    assert logs.calls(folder) == {GRAPH: 5 * len(ends)}


def test_the_longest_pattern_counts(run):
    # Eight times forward and backward, then the optimizer.
    accumulation = ",".join(["k1x9,k2,u1100"] * 8) + ",k9x5"
    folder = run("init", "repeat", 290, accumulation, **STEPS)
    assert [launches for _, launches, _ in patterns(folder)] == [85]


def test_only_the_grid_tells_the_launches_apart(run):
    folder = run("init", "repeat", 700, "k1x20,k1g7,u1000", **STEPS)
    assert [launches for _, launches, _ in patterns(folder)] == [21]


def test_no_pattern(run):
    choose = random.Random(5)
    words: list[object] = ["init"]
    for _ in range(900):
        words += [
            "repeat",
            choose.randrange(1, 9),
            f"k{choose.randrange(5)},u{choose.randrange(99)}",
        ]
    folder = run(*words, **STEPS)
    assert notes(folder, BEGIN, FOUND) == []
    assert logs.calls(folder) == {}
    assert _counters(folder).step_processes == 0


def test_a_pattern_too_short_for_a_step(run):
    folder = run("init", "repeat", 20_000, "m,k1x3", **STEPS)
    assert notes(folder, BEGIN, FOUND) == []


def test_queries_are_no_part_of_a_pattern(run):
    words: list[object] = ["init"]
    for step in range(600):
        words += ["repeat", 1, f"m,k1x20,ex{1 + step * 7 % 13},k2,u1000"]
    folder = run(*words, **STEPS)
    assert [launches for _, launches, _ in patterns(folder)] == [21]


def test_the_pattern_changes(run):
    folder = run("init", "repeat", 400, WITH_COPY, "repeat", 700, "s,k3x10,u1500", **STEPS)
    assert [launches for _, launches, _ in patterns(folder)] == [21, 10]
    begins, ends = windows(folder)
    assert len(begins) == len(ends)
    assert _counters(folder).step_processes == 1


def test_a_pattern_that_ends_within_a_sample(run):
    # All of it is recorded, until launches come that have nothing to do with it.
    folder = run(
        *("init", "repeat", 400, WITH_COPY, "launch", 4000),
        **{**STEPS, "sample_steps": 1000, "sample_every": 1000},
    )
    begins, ends = windows(folder)
    assert (begins, len(ends)) == ([0], 1)
    assert logs.calls(folder)[LAUNCH] < 21 * 145 + 200
    assert _counters(folder).step_processes == 0


def test_calls_are_seen_though_none_is_recorded(run):
    folder = run("init", "repeat", 600, WITH_COPY, **STEPS, cuda_api="none")
    assert [launches for _, launches, _ in patterns(folder)] == [21]
    _, ends = windows(folder)
    assert logs.calls(folder) == {}
    kernels = len(logs.found(folder, logs.KERNEL))
    assert 0 <= kernels - 105 * len(ends) < 105
    assert kernels % 21 == 0


def test_the_time_of_a_step_chooses_how_many(run):
    folder = run("init", "repeat", 1200, WITH_COPY, mode=RangeMode.STEPS, sample_duty_ppm=500_000)
    steps, every = _counters(folder).plan
    assert 100 < steps < 200  # 0.2 s
    assert every == 2 * steps
    begins, ends = windows(folder)
    assert begins[0] == 1
    assert ends[0] == 1 + steps


@pytest.mark.parametrize("keys", [{"sample_calls": 1}, {"sample_range": "it_*"}])
def test_whoever_says_what_a_step_is_is_believed(run, keys):
    folder = run("init", "repeat", 400, WITH_COPY, "callbacks", **STEPS, **keys)
    assert notes(folder, BEGIN, FOUND) == []
    assert counted(folder) == [0]


CALLS = """
import ctypes, queue, sys, threading, time
driver, cupti = (ctypes.CDLL(path) for path in sys.argv[1:3])
driver.cuInit(0)
def calls(*ids):
    for id in ids:
        for site in (0, 1):
            cupti.fake_call(2, id, site, 1, 0)
"""

PROGRAM = f"""{CALLS}
import nvtx
def step(rest):
    calls(20, *[13] * 20)
    time.sleep(rest)
for number in range(400):
    step(0.0012)
for number in range(40):
    with nvtx.annotate(f"step_{{number}}"):
        step(0)
"""

# Forward by one thread, backward by another, as PyTorch does it.
THREADS = f"""{CALLS}
work, done = queue.Queue(), queue.Queue()
def backward():
    while work.get():
        calls(*[13] * 40, 20, 13, 20)
        done.put(None)
thread = threading.Thread(target=backward)
thread.start()
for number in range(500):
    calls(*[13] * 20)
    work.put(True)
    done.get()
    calls(22)
    time.sleep(0.001)
work.put(False)
thread.join()
"""


@pytest.fixture
def run_python(cuda, session, tmp_path):
    """Return a function that records a program in Python and returns the session's folder."""

    def record(code: str, **keys: object) -> Path:
        new = session(mode=RangeMode.STEPS)
        configure(new, cuda=1, cupti_path=[cuda.cupti13], **keys)
        program = tmp_path / "program.py"
        program.write_text(code)
        done = subprocess.run(
            [sys.executable, program, cuda.driver, cuda.cupti13],
            env=cuda.environment(new),
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return Path(new.folder)

    return record


def test_ranges_take_over(run_python):
    pytest.importorskip("nvtx")
    folder = run_python(PROGRAM, sample_steps=2, sample_every=10)
    assert len(patterns(folder)) == 1
    numbers = [int(text) for kind, text in notes(folder, BEGIN)]
    # From 0 again: steps 0, 10, 20 and 30 of the ranges' own.
    assert numbers[-4:] == [0, 10, 20, 30]
    assert len(windows(folder)[0]) == len(windows(folder)[1])


def test_a_step_of_two_threads(run_python):
    folder = run_python(THREADS, sample_steps=5, sample_every=50)
    ((_, launches, is_timed),) = patterns(folder)
    # The anchor is the wait of the thread that has fewer calls: there is one in a step.
    assert (launches, is_timed) == (61, 0)
    begins, ends = windows(folder)
    assert begins == [50 * n for n in range(len(begins))]
    found = logs.calls(folder)
    assert found["cudaStreamSynchronize_v3020"] in range(5 * len(ends), 5 * len(begins) + 1)
    assert found[LAUNCH] // found["cudaStreamSynchronize_v3020"] in (61, 62)


SEEN = 80_000  # calls that a search may see at once


def test_a_search_in_vain_ends(run):
    # All the launches are the same, which is no step.
    folder = run("init", "launch", 20 * SEEN, "callbacks", "sleep", 100, **STEPS)
    assert notes(folder, BEGIN, FOUND) == []
    (seen,) = counted(folder)
    # Four a launch; that it is over is noticed at the watcher's next tick.
    assert 4 * SEEN < seen < 4 * 20 * SEEN / 2


def test_a_search_ends_with_what_it_has_found(run):
    # Few repetitions for so many calls, as of a step of 601 launches that are nearly all the same.
    step = "s,k1," + ",".join(["k2x60,u300"] * 10)
    folder = run(
        "init", "repeat", 400, step, "callbacks", "repeat", 100, step, "callbacks", **STEPS
    )
    ((_, launches, is_timed),) = patterns(folder)
    assert (launches, is_timed) == (601, 0)
    begins, ends = windows(folder)
    assert len(begins) >= 2
    assert logs.calls(folder)[LAUNCH] in range(5 * 601 * len(ends), 5 * 601 * len(begins) + 1)
    searching, resting = counted(folder)
    recorded = 4 * 602 * 5
    assert searching < 4 * SEEN * 1.3 + recorded * len(begins)
    # Two for each wait, and a sample or two.
    assert resting <= 2 * 100 + 2 * recorded


def test_a_time_window_keeps_no_step_from_being_recorded(run):
    folder = run("init", "repeat", 500, WITH_COPY, state=State.TIME_WINDOW, **STEPS)
    assert len(patterns(folder)) == 1
    begins, _ = windows(folder)
    assert begins == [100 * n for n in range(len(begins))]
    assert begins
