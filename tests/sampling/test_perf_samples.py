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
from warpline.capture.finishing.raw_session import log_files
from warpline.capture.session.raw_numbers import LogHeader
from warpline.trace import Trace

BUDGET_MS = 300

# The recording of a program's run.
Record = Callable[..., Trace]


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


def test_code_without_call_frame_tables_and_frame_pointers_is_walked_by_its_instructions(
    record: Record, tmp_path: Path
) -> None:
    options = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer")
    program = hot_programs.compiled(tmp_path, options=options)
    samples = hot_programs.samples_of(record([program, BUDGET_MS, "work", "thread"]))
    hot_programs.check_shares(samples, hot_programs.SHARES)
    inner = within(samples, *hot_programs.SHARES)
    chains = {("caller", "work", root) for root in ("main", "thread")}
    whole = [
        each
        for each in inner
        if chains & {each.functions[at : at + 3] for at in range(len(each.functions))}
    ]
    assert len(whole) >= 0.98 * len(inner)
    assert len(within(samples, "[broken backtrace]")) <= 0.02 * len(samples)


def test_a_python_that_starts_later_takes_nothing_from_others(
    record: Record, hot: Path, tmp_path: Path
) -> None:
    # Its samples have to be read at once, so all events are replaced when it is found.
    python = hot_programs.python_program(tmp_path)
    script = (
        f'"{hot}" 800 work thread & sleep 0.2; "{sys.executable}" "{python}" {BUDGET_MS} work; wait'
    )
    samples = hot_programs.samples_of(record(["sh", "-c", script], ends=(0, "worked\nworked\n")))
    native = within(samples, *hot_programs.SHARES)
    hot_programs.check_shares(native, hot_programs.SHARES)
    assert 0.95 * 1600 < used_ms(native) < 1.05 * 1600
    in_python = within(samples, "hot_double", "consume")
    assert 0.6 * BUDGET_MS < used_ms(in_python) < 1.1 * BUDGET_MS  # under load some have no frames


def test_methods_have_their_names(record: Record, tmp_path: Path) -> None:
    program = hot_programs.compiled(tmp_path, is_cpp=True)
    samples = hot_programs.samples_of(record([program, BUDGET_MS]))
    hot_programs.check_shares(samples, hot_programs.CPP_SHARES)


def test_processes_and_stacks_that_come_and_go(record: Record, hot: Path) -> None:
    trace = record([hot, BUDGET_MS, "exec", "many", "coroutine"])
    samples = hot_programs.samples_of(trace)
    hot_programs.check_shares(samples, hot_programs.SHARES)
    in_coroutine = within(samples, "coroutine")
    assert used_ms(within(in_coroutine, "caller")) > 0.9 * BUDGET_MS
    # What was started has a row of its own, beside that of the fork that it was before.
    inner = within(samples, *hot_programs.SHARES)
    processes = trace.columns("thread", "process_id")["process_id"].values.tolist()
    assert len({processes[each.thread] for each in inner}) == 2


def test_fewer_samples_without_backtraces(record: Record, hot: Path) -> None:
    flags = ("--sampling-frequency", "200", "-b", "none", "--cpuctxsw", "none")
    trace = record([hot, BUDGET_MS, "work"], *flags)
    samples = hot_programs.samples_of(trace)
    assert {each.period_ns for each in samples} == {5_000_000}
    assert 0.8 * BUDGET_MS < used_ms(within(samples, *hot_programs.SHARES)) < 1.2 * BUDGET_MS
    assert not within(samples, "main")
    assert not trace.has("sched_event")


def test_a_blocked_thread_has_the_stack_where_it_waits(record: Record, tmp_path: Path) -> None:
    program = tmp_path / "naps.py"
    program.write_text(
        "import time\nfor _ in range(10): time.sleep(0.03)\nprint('worked')\nexit(3)\n"
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


def test_context_switches_alone_tell_when_a_thread_ran(record: Record, hot: Path) -> None:
    trace = record([hot, BUDGET_MS, "work"], "-s", "none", "--cpuctxsw", "process-tree")
    assert not trace.has("cpu_sample")
    columns = trace.columns("sched_event", "time_ns", "is_sched_in")
    ran, since = 0, None
    for time_ns, is_in in zip(*(columns[name].values.tolist() for name in columns), strict=True):
        if is_in:
            since = time_ns
        elif since is not None:
            ran, since = ran + time_ns - since, None
    assert ran / 1e6 > 0.9 * BUDGET_MS


def test_time_outside_of_the_recording_is_not_sampled(record: Record, hot: Path) -> None:
    trace = record([hot, BUDGET_MS, "work"], "--delay", "3600")
    assert not trace.row_count("cpu_sample")
    assert not trace.row_count("sched_event")


def test_logs_from_outside_belong_to_the_agents_process(tmp_path: Path) -> None:
    def log(incarnation: int, *, writer: int) -> None:
        header = LogHeader(
            magic=b"WLRAW\r\n\x1a", version=1, pid=7, incarnation=incarnation, writer=writer
        )
        path = tmp_path / f"7-{incarnation}-{writer}.wlraw"
        path.write_bytes(bytes(header).ljust(4096, b"\0"))

    # Two images of a process: the agent was in the second only, and began there after its exec.
    log(100, writer=1)
    log(200, writer=1)
    log(250, writer=0)
    found = [(each.incarnation, each.is_from_outside) for each in log_files(tmp_path)]
    assert found == [(100, True), (250, False), (250, True)]


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
