"""CPU samples and context switches through the kernel's perf events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support import hot_programs
from support.hot_programs import Sampled

import warpline
from warpline.capture.machine.perf import perf_obstacle, sampler_library
from warpline.trace import Trace

BUDGET_MS = 500

# The recording of a program's run.
Record = Callable[..., Trace]


@pytest.fixture
def record(agent: Path, tmp_path: Path) -> Record:
    """Return a function that records a program, and checks that it does as it does alone."""
    library = sampler_library(agent)
    if not library.exists():
        pytest.skip(f"{library.name} is not built")
    obstacle = perf_obstacle(library)
    if obstacle is not None:
        pytest.skip(obstacle.cause)

    def run(
        command: Sequence[object], *flags: str, ends: tuple[int, str] = (3, "worked\n")
    ) -> Trace:
        output = tmp_path / "run.warpline"
        words = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", "-t", "none"]
        words += ["--gpu-health=off", "-s", "process-tree", "-o", str(output), *flags]
        done = subprocess.run(
            [*words, *map(str, command)], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout) == ends, done.stderr
        return warpline.open(output)

    return run


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program."""
    return hot_programs.compiled(tmp_path_factory.mktemp("hot"))


def used_ms(samples: Sequence[Sampled]) -> float:
    return sum(sample.period_ns for sample in samples) / 1e6


def within(samples: Sequence[Sampled], *functions: str) -> list[Sampled]:
    return [each for each in samples if set(functions) & set(each.functions)]


def test_threads_and_forks_are_sampled_with_whole_stacks(record: Record, hot: Path) -> None:
    trace = record([hot, BUDGET_MS, "work", "thread", "fork"])
    samples = hot_programs.samples_of(trace)
    hot_programs.check_shares(samples, hot_programs.SHARES)
    inner = within(samples, *hot_programs.SHARES)
    assert 0.9 * 3 * BUDGET_MS < used_ms(inner) < 1.1 * 3 * BUDGET_MS
    assert len({each.thread for each in inner}) == 3
    assert trace.row_count("process") == 2
    whole = [each for each in inner if {"caller", "work"} < set(each.functions)]
    rooted = [each for each in whole if {"main", "thread"} & set(each.functions)]
    assert len(rooted) >= 0.98 * len(inner)
    broken = within(samples, "[broken backtrace]")
    assert len(broken) <= 0.02 * len(samples)


def test_frame_pointers_are_enough_where_there_are_some(record: Record, tmp_path: Path) -> None:
    program = hot_programs.compiled(tmp_path, options=("-fno-omit-frame-pointer",))
    samples = hot_programs.samples_of(record([program, BUDGET_MS, "work"], "-b", "fp"))
    inner = within(samples, "hot_seventy")
    assert len([each for each in inner if "work" in each.functions]) >= 0.95 * len(inner)


def test_code_without_call_frame_tables_is_walked_by_frame_pointers(
    record: Record, tmp_path: Path
) -> None:
    options = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer")
    program = hot_programs.compiled(tmp_path, options=options)
    inner = within(hot_programs.samples_of(record([program, BUDGET_MS, "work"])), "hot_seventy")
    assert len([each for each in inner if "main" in each.functions]) >= 0.95 * len(inner)


def test_no_backtraces(record: Record, hot: Path) -> None:
    samples = hot_programs.samples_of(record([hot, BUDGET_MS, "work"], "-b", "none"))
    hot_programs.check_shares(samples, hot_programs.SHARES)
    assert within(samples, "hot_seventy")
    assert not within(samples, "main")


def test_methods_have_their_names(record: Record, tmp_path: Path) -> None:
    program = hot_programs.compiled(tmp_path, is_cpp=True)
    samples = hot_programs.samples_of(record([program, BUDGET_MS]))
    hot_programs.check_shares(samples, hot_programs.CPP_SHARES)


def test_programs_that_are_started_have_rows_of_their_own(record: Record, hot: Path) -> None:
    trace = record([hot, BUDGET_MS, "exec"])
    hot_programs.check_shares(hot_programs.samples_of(trace), hot_programs.SHARES)
    pids = trace.columns("process", "pid")["pid"].values.tolist()
    assert len(set(pids)) == 2


def test_threads_and_processes_that_come_and_go(record: Record, hot: Path) -> None:
    samples = hot_programs.samples_of(record([hot, 300, "work", "many", "work"]))
    hot_programs.check_shares(samples, hot_programs.SHARES)


def test_a_coroutine_on_a_stack_of_its_own_is_walked(record: Record, hot: Path) -> None:
    samples = hot_programs.samples_of(record([hot, BUDGET_MS, "coroutine"]))
    inner = within(samples, "caller")
    assert len(within(inner, "coroutine")) >= 0.98 * len(inner)


def test_fewer_samples_stand_for_more_time_each(record: Record, hot: Path) -> None:
    samples = hot_programs.samples_of(
        record([hot, BUDGET_MS, "work"], "--sampling-frequency", "100")
    )
    assert {each.period_ns for each in samples} == {10_000_000}
    assert 0.8 * BUDGET_MS < used_ms(within(samples, "work")) < 1.2 * BUDGET_MS


def test_context_switches_tell_when_a_thread_ran(record: Record, hot: Path) -> None:
    trace = record([hot, BUDGET_MS, "work"])
    columns = trace.columns("sched_event", "time_ns", "thread_id", "is_sched_in")
    threads = columns["thread_id"].values.tolist()
    rows = zip(
        columns["time_ns"].values.tolist(), columns["is_sched_in"].values.tolist(), strict=True
    )
    times = [row for row, thread in zip(rows, threads, strict=True) if thread == threads[0]]
    ran, since = 0, None
    for time_ns, is_in in times:
        if is_in:
            since = time_ns
        elif since is not None:
            ran += time_ns - since
            since = None
    assert ran / 1e6 > 0.9 * BUDGET_MS


def test_a_blocked_thread_has_the_stack_where_it_waits(record: Record, tmp_path: Path) -> None:
    program = tmp_path / "naps.py"
    program.write_text(
        "import time\nfor _ in range(10): time.sleep(0.1)\nprint('worked')\nexit(3)\n"
    )
    trace = record([sys.executable, program])
    stacks = hot_programs.stacks_of(trace)
    columns = trace.columns("sched_event", "is_sched_in", "state", "stack_id")
    found = [
        stacks[stack]
        for is_in, stack in zip(
            columns["is_sched_in"].values.tolist(),
            columns["stack_id"].filled(-1).tolist(),
            strict=True,
        )
        if not is_in and stack >= 0
    ]
    naps = [each for each in found if any("nanosleep" in frame.function for frame in each)]
    assert len(naps) >= 8


def test_switches_alone(record: Record, hot: Path) -> None:
    trace = record([hot, 100, "work"], "-s", "none", "--cpuctxsw", "process-tree")
    assert trace.row_count("sched_event") > 0
    assert not trace.has("cpu_sample")


def test_only_the_recorded_time_is_sampled(record: Record, hot: Path) -> None:
    samples = hot_programs.samples_of(record([hot, 1500, "work"], "--delay", "1"))
    assert 0 < used_ms(samples) < 1400


def test_a_killed_program_keeps_its_samples(record: Record, tmp_path: Path, hot: Path) -> None:
    script = f'"{hot}" 300 work; kill -9 $$'
    trace = record(["sh", "-c", script], ends=(-signal.SIGKILL, "worked\n"))
    hot_programs.check_shares(hot_programs.samples_of(trace), hot_programs.SHARES)


def test_a_killed_launcher_leaves_samples_to_recover(
    record: Record, agent: Path, tmp_path: Path, hot: Path
) -> None:
    output = tmp_path / "lost.warpline"
    words = [sys.executable, "-m", "warpline", "profile", "-q", "-t", "none", "-s", "process-tree"]
    words += ["--gpu-health=off", "-o", str(output), str(hot), "3000", "work"]
    folder = tmp_path / "lost.warpline.raw"
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as launcher:
        for _ in range(300):
            logs = [log for log in folder.glob("*.wlraw") if log.stat().st_size > 8192]
            if logs:
                break
            time.sleep(0.1)
        pid = int(logs[0].name.partition("-")[0])
        launcher.kill()
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)  # the sampler writes what is left
    subprocess.run(
        [sys.executable, "-m", "warpline", "recover", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert within(hot_programs.samples_of(warpline.open(output)), "hot_seventy")
