"""When CUDA is recorded: capture ranges, the launcher's switch, sessions in process."""

from __future__ import annotations

import contextlib
import subprocess
import time

import pytest
from agent_cuda import cuda_logs as logs

from warpline.capture.session.control import RangeMode, State

LAUNCH = "cudaLaunchKernel_v7000"
START, STOP = "cudaProfilerStart_v4000", "cudaProfilerStop_v4000"
PROFILER = RangeMode.CUDA_PROFILER_API
GRAPHS = 51  # CUPTI's kind


def test_cuda_profiler_api_bounds_what_is_recorded(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *("init", "launch", 5, "start", "launch", 3, "stop", "launch", 7),
        *("start", "launch", 2, "stop", "launch", 1),
        mode=PROFILER,
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    assert logs.calls(folder) == {LAUNCH: 5}
    assert len(logs.found(folder, logs.KERNEL)) == 5
    assert told.read_text().count("on 10\n") == 2
    assert told.read_text().count("off 10\n") == 2
    collecting = [one.collects != 0 for one in logs.found(folder, logs.COLLECTING)]
    assert collecting == [True, False, True, False]


GRAPH = ("call", 25, 0, "graph_exec")  # captured and instantiated


@pytest.mark.parametrize("cupti", ["cupti13", "cupti12"])
def test_a_graph_that_is_made_before_the_first_range_is_traced(run, cuda, tmp_path, cupti):
    # A graph that is made before they are, and launched after, crashes in the driver.
    told = tmp_path / "told"
    run(
        *("init", *GRAPH, *GRAPH, "start", "launch", 1, "stop", "launch", 1),
        mode=PROFILER,
        cuda_graph="graph",
        cupti=getattr(cuda, cupti),
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    story = told.read_text().split("\n")
    assert story.count("graph made 1") == 2
    assert story.count(f"on {GRAPHS}") == 1
    assert f"off {GRAPHS}" not in story


def test_graphs_are_not_traced_before_there_are_any(run, tmp_path):
    # That makes every launch dearer.
    told = tmp_path / "told"
    run(
        *("init", "launch", 1, "start", "launch", 1, "stop", *GRAPH),
        mode=PROFILER,
        cuda_graph="graph",
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    story = told.read_text().split("\n")
    assert "on 10" in story[: story.index(f"on {GRAPHS}")]
    assert story.count(f"on {GRAPHS}") == story.count("graph made 1") == 1


def test_graphs_are_recorded_node_by_node_where_cuda_was_there_before(cuda, session, tmp_path):
    told = tmp_path / "told"
    new = session(cuda=1, cupti_path=[cuda.cupti13], cuda_graph="graph")
    words = ["init", "attach", new.folder, cuda.agent, "launch", 1, "detach"]
    _run_alone(cuda, words, FAKE_CUPTI_LOG=str(told))
    assert f"on {GRAPHS}" not in told.read_text().split("\n")
    assert any("at node level, because" in text for _, text in logs.notes(new.folder))


@pytest.mark.parametrize(("first", "words"), [("graph", GRAPH), ("graph", ()), ("node", GRAPH)])
def test_how_graphs_are_traced_stays_once_a_process_has_made_one(
    cuda, session, tmp_path, first, words
):
    told = tmp_path / "told"
    levels = {"graph": "node", "node": "graph"}
    of_environment = session(cuda=1, cupti_path=[cuda.cupti13], cuda_graph=first)
    later = session(cuda=1, cupti_path=[cuda.cupti13], cuda_graph=levels[first])
    every: list[object] = ["init", *words]
    for one in (of_environment, later):
        every += ["attach", one.folder, cuda.agent, "launch", 1, "detach"]
    environment = cuda.environment(of_environment, FAKE_CUPTI_LOG=str(told))
    subprocess.run(cuda.command(*every), env=environment, check=True, timeout=60)
    story = told.read_text().split("\n")
    is_whole = first == "graph" and bool(words)
    assert story.count(f"on {GRAPHS}") == (first == "graph")
    assert story.count(f"off {GRAPHS}") == (first == "graph" and not words)
    said = [text for _, text in logs.notes(later.folder)]
    assert any("at graph level, as in an earlier recording" in text for text in said) == is_whole
    assert any("at node level, because" in text for text in said) == (first == "node")


def test_a_session_ends_after_the_wanted_ranges(run):
    words = ("start", "launch", 2, "stop", "launch", 1)
    folder = run("init", *words, *words, *words, mode=PROFILER, windows_wanted=2)
    assert logs.calls(folder) == {LAUNCH: 4}


def test_profiler_calls_are_plain_calls_without_that_mode(run):
    folder = run("init", "start", "launch", 1, "stop")
    assert logs.calls(folder) == {START: 1, LAUNCH: 1, STOP: 1}


def test_ranges_in_ranges_count_once(run):
    words = ("start", "start", "launch", 1, "stop", "launch", 1, "stop", "launch", 1)
    assert logs.calls(run("init", *words, mode=PROFILER)) == {LAUNCH: 2}


@pytest.mark.parametrize("version", ["130000", "130001"])
def test_the_launchers_switch_is_followed(cuda, session, tmp_path, version):
    new = session(State.WAITING, cuda=1, cupti_path=[cuda.cupti13])
    gates = [tmp_path / str(i) for i in range(5)]
    words = ["init", "launch", 1, "touch", gates[0], "wait", gates[1]]
    words += ["launch", 2, "touch", gates[2], "wait", gates[3], "launch", 4]
    told = tmp_path / "told"
    more = {"FAKE_CUPTI_VERSION": version, "FAKE_CUPTI_LOG": str(told)}
    environment = cuda.environment(new, **more)
    with subprocess.Popen(cuda.command(*words), env=environment) as program, _killing(program):
        _wait_for(gates[0])
        new.control.state = State.RECORDING
        _wait_until_told(told, "on 10")
        time.sleep(0.03)
        gates[1].touch()
        _wait_for(gates[2])
        new.control.state = State.STOPPED
        _wait_until_told(told, "off 1\n")
        time.sleep(0.03)
        gates[3].touch()
    assert program.returncode == 0
    assert logs.calls(new.folder) == {LAUNCH: 2}
    assert len(logs.found(new.folder, logs.KERNEL)) == 2
    # What 13.0.0 cannot turn off without the danger of hanging stays on.
    assert ("off 10\n" in told.read_text()) == (version == "130001")


def test_nothing_is_done_for_a_session_without_cuda(run, tmp_path):
    told = tmp_path / "told"
    folder = run("init", "launch", 3, cuda=0, environment={"FAKE_CUPTI_LOG": str(told)})
    assert not told.exists()
    assert not list(folder.glob("*.wlraw"))


def test_in_process_begin_end_and_begin_again(cuda, session):
    first, second = (session(cuda=1, cupti_path=[cuda.cupti13]) for _ in range(2))
    words: list[object] = ["init"]
    for one, launches in ((first, 2), (second, 3)):
        words += ["attach", one.folder, cuda.agent, "launch", launches, "detach", "launch", 1]
    done = _run_alone(cuda, words)
    assert done.stdout == "attach 0 0\ndetach 0\n" * 2
    assert logs.calls(first.folder) == {LAUNCH: 2}
    assert logs.calls(second.folder) == {LAUNCH: 3}
    for one, launches in ((first, 2), (second, 3)):
        assert len(logs.found(one.folder, logs.KERNEL)) == launches
        assert len(logs.found(one.folder, logs.DEVICE)) == 1
        assert logs.found(one.folder, logs.STREAM)  # though they were there before


@pytest.mark.parametrize(
    "words",
    [
        ["launch", 1],
        ["repeat", 1, "k1,g1"],
        ["launch", 1, "graph_exec"],
        ["launch", 1, "call", 25, 0],  # a capture has begun
    ],
)
def test_after_a_profile_in_process_cupti_is_left_but_not_finalized(cuda, session, tmp_path, words):
    new = session(cuda=1, cupti_path=[cuda.cupti13])
    told = tmp_path / "told"
    every = ["init", "attach", new.folder, cuda.agent, *words, "detach", "launch", 1]
    _run_alone(cuda, every, FAKE_CUPTI_LOG=str(told))
    assert told.read_text().split("\n").count("finalize 0") == 0
    assert logs.calls(new.folder)[LAUNCH] == 1


def test_in_process_before_the_driver_is_initialised(cuda, session):
    new = session(cuda=1, cupti_path=[cuda.cupti13])
    done = _run_alone(cuda, ["attach", new.folder, cuda.agent, "init", "launch", 4, "detach"])
    assert done.stdout == "attach 0 0\ndetach 0\n"
    assert logs.calls(new.folder) == {LAUNCH: 4}


def _run_alone(cuda, words, **more):
    environment = cuda.environment(None, **more)
    del environment["CUDA_INJECTION64_PATH"]
    return subprocess.run(
        cuda.command(*words), env=environment, check=True, capture_output=True, text=True
    )


@contextlib.contextmanager
def _killing(program):
    """Kill a program that would otherwise be waited for when the test has failed."""
    try:
        yield
    except BaseException:
        program.kill()
        raise


def _wait_for(path):
    _wait(path.exists)


def _wait_until_told(told, text):
    _wait(lambda: told.exists() and text in told.read_text())


def _wait(is_done):
    deadline = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.002)
