"""CPU samples by timers within the program: for where perf_event_open is forbidden."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import hot_programs
from support.hot_programs import Sampled

import warpline
from warpline.capture.finishing.finish import Finished, finish
from warpline.capture.session.agent_config import AgentConfig, CpuSamplesConfig
from warpline.capture.session.facts import session_facts
from warpline.capture.session.preload import LOADER
from warpline.capture.session.session import create_session

BUDGET_MS = 800
WITHOUT_PERF = Path(hot_programs.__file__).with_name("without_perf.py")

# Samples of a program's run, and the counts of its recording.
Sample = Callable[..., tuple[list[Sampled], Finished]]


@pytest.fixture
def sample(agent: Path, tmp_path: Path) -> Sample:
    """Return a function that samples a program, and checks that it does as it does alone."""
    if not agent.with_name(LOADER).exists():
        pytest.skip(f"{LOADER} is not built")

    def run(*command: object, python: bool = False) -> tuple[list[Sampled], Finished]:
        words = [str(word) for word in command]
        output, folder = tmp_path / "run.warpline", tmp_path / "run.raw"
        folder.mkdir()
        facts = session_facts(output, command=words, options={}, environment={}, collected=())
        samples = CpuSamplesConfig(1000, python)
        config = AgentConfig(nvtx=False, cpu_samples=samples, preload=(LOADER,))
        session = create_session(folder, config, facts)
        environment = {**os.environ, **session.variables(agent, os.environ)}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, "worked\n", "")
        session.close()
        finished = finish(folder, output)
        return hot_programs.samples_of(warpline.open(output)), finished

    return run


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program."""
    return hot_programs.compiled(tmp_path_factory.mktemp("hot"))


def used_ms(samples: list[Sampled]) -> float:
    return sum(sample.period_ns for sample in samples) / 1e6


def test_threads_and_forks_are_sampled_with_whole_stacks(sample: Sample, hot: Path) -> None:
    samples, _ = sample(hot, BUDGET_MS, "work", "thread", "fork")
    hot_programs.check_shares(samples, hot_programs.SHARES)
    inner = [each for each in samples if set(each.functions) & set(hot_programs.SHARES)]
    # What a thread uses before it is found, and after its last tick, has no sample.
    assert 0.9 * 3 * BUDGET_MS < used_ms(inner) < 1.1 * 3 * BUDGET_MS
    assert len({each.thread for each in inner}) == 3
    whole = [each for each in inner if {"caller", "work"} < set(each.functions)]
    rooted = [each for each in whole if {"main", "thread"} & set(each.functions)]
    assert len(rooted) >= 0.98 * len(inner)


def test_programs_that_are_started_are_sampled(sample: Sample, hot: Path) -> None:
    samples, finished = sample(hot, BUDGET_MS, "exec")
    hot_programs.check_shares(samples, hot_programs.SHARES)
    assert finished.processes >= 1


def test_methods_have_their_names(sample: Sample, tmp_path: Path) -> None:
    program = hot_programs.compiled(tmp_path, is_cpp=True)
    samples, _ = sample(program, BUDGET_MS)
    hot_programs.check_shares(samples, hot_programs.CPP_SHARES)


def test_python_frames_stand_among_native_ones(sample: Sample, tmp_path: Path) -> None:
    program = hot_programs.python_program(tmp_path)
    command = [sys.executable, program, BUDGET_MS, "work", "thread", "fork"]
    samples, _ = sample(*command, python=True)
    inner = [each for each in samples if "work" in each.functions]
    hot_programs.check_shares(inner, {"hot_double": 2 / 3, "generate": 1 / 3})
    assert 0.9 * 3 * BUDGET_MS < used_ms(inner) < 1.1 * 3 * BUDGET_MS
    lines = {
        frame.line for each in inner for frame in each.frames if frame.function == "hot_double"
    }
    first = hot_programs.PYTHON.splitlines().index("def hot_double(turns):") + 1
    assert lines <= {first, first + 1, first + 2, first + 3}
    assert {first + 2, first + 3} <= lines
    generating = [each.functions for each in inner if "generate" in each.functions]
    called = [names for names in generating if "consume" in names[names.index("generate") :]]
    assert len(called) >= 0.98 * len(generating)


def test_an_extension_stands_over_the_line_that_calls_it(sample: Sample, tmp_path: Path) -> None:
    samples, _ = sample(
        sys.executable, hot_programs.python_program(tmp_path), BUDGET_MS, "compress", python=True
    )
    inner = [each for each in samples if "compress" in each.functions]
    assert used_ms(inner) > 0.7 * BUDGET_MS
    native = [each for each in inner if each.frames[0].line < 0]
    assert len(native) >= 0.9 * len(inner)


def test_a_coroutine_on_a_stack_of_its_own_is_walked(sample: Sample, hot: Path) -> None:
    samples, _ = sample(hot, BUDGET_MS, "coroutine")
    hot_programs.check_shares(samples, hot_programs.SHARES)
    assert all("coroutine" in each.functions for each in samples if "caller" in each.functions)


def test_a_thread_that_blocks_all_signals_has_time_without_stacks(
    sample: Sample, hot: Path
) -> None:
    samples, _ = sample(hot, BUDGET_MS, "blocked")
    assert (
        0.8 * BUDGET_MS < used_ms([each for each in samples if not each.frames]) < 1.1 * BUDGET_MS
    )


def test_a_program_keeps_a_handler_of_its_own(sample: Sample, hot: Path) -> None:
    _, finished = sample(hot, BUDGET_MS, "work", "handle", "work")
    assert any("SIGURG" in text for text in finished.warnings)


def test_a_program_that_resets_all_signals_lives_on(sample: Sample, hot: Path) -> None:
    _, finished = sample(hot, 200, "work", "default", "work")
    assert any("SIGURG" in text for text in finished.warnings)


def test_threads_and_forks_that_come_and_go(sample: Sample, hot: Path) -> None:
    samples, _ = sample(hot, 200, "work", "many", "work")
    hot_programs.check_shares(samples, hot_programs.SHARES)


def test_without_perf_the_launcher_says_so_and_samples_within(
    agent: Path, hot: Path, tmp_path: Path
) -> None:
    if not agent.with_name(LOADER).exists():
        pytest.skip(f"{LOADER} is not built")
    output = tmp_path / "run.warpline"
    profile = [sys.executable, "-m", "warpline", "profile", "-t", "none", "-s", "process-tree"]
    words = [sys.executable, WITHOUT_PERF, *profile, "-o", output, hot, BUDGET_MS, "work", "fork"]
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (3, "worked\n")
    said = [line for line in done.stderr.splitlines() if "timers" in line]
    assert len(said) == 1
    assert "perf events are forbidden here: CPU samples come from timers in the program" in said[0]
    trace = warpline.open(output)
    hot_programs.check_shares(hot_programs.samples_of(trace), hot_programs.SHARES)
    assert not trace.has("sched_event")


def test_code_without_tables_and_frame_pointers_is_walked_by_its_instructions(
    sample: Sample, tmp_path: Path
) -> None:
    options = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer")
    program = hot_programs.compiled(tmp_path, options=options)
    samples, _ = sample(program, BUDGET_MS, "work", "thread")
    inner = [each for each in samples if set(each.functions) & set(hot_programs.SHARES)]
    chains = {("caller", "work", root) for root in ("main", "thread")}
    whole = [
        each
        for each in inner
        if chains & {each.functions[at : at + 3] for at in range(len(each.functions))}
    ]
    assert len(whole) >= 0.98 * len(inner)
