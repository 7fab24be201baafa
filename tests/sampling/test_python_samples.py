"""Python stacks that are read from outside of the program, and who has the GIL."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_cuda.pythons import VERSIONS, interpreter

import warpline
from warpline.capture.machine.perf import sampler_library
from warpline.trace import Trace

PROGRAM = Path(__file__).parent / "programs" / "python_threads.py"
FREE_POINTS = 0.02  # beside what chance does to a share

Record = Callable[..., Trace]
Stack = list[tuple[str, int]]  # functions and lines, innermost first


@pytest.fixture
def record(agent: Path, tmp_path: Path) -> Record:
    """Return a function that records a Python program."""
    library = sampler_library(agent)
    if not library.exists():
        pytest.skip(f"{library.name} is not built")

    def run(python: str, *words: object, trace: str = "none") -> Trace:
        output = tmp_path / "run.warpline"
        command = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", "-t", trace]
        command += ["--gpu-health=off", "--python-sampling=true", "-o", str(output)]
        done = subprocess.run(
            [*command, python, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout.split()) == (
            0,
            ["worked"] * (2 if "fork" in words else 1),
        )
        return warpline.open(output)

    return run


def stacks_of(trace: Trace) -> list[Stack]:
    """Return the stack of each row of `stack`."""
    frames = [*zip(*(trace["frame"][name].to_list() for name in ("symbol", "line")), strict=True)]
    stacks = trace["stack"]
    found: list[Stack] = []
    for parent, frame in zip(stacks["parent_id"], stacks["frame_id"], strict=True):
        symbol, line = frames[frame]
        outer = [] if parent is None else found[parent]
        found.append([(symbol.rpartition(".")[2], line), *outer])
    return found


def shares(trace: Trace, thread: int) -> tuple[dict[str, float], int]:
    """Return the share of a thread's samples in run() that have a function, and their number."""
    stacks = stacks_of(trace)
    samples = trace["python_sample"]
    counts: Counter[str] = Counter()
    for of_thread, stack_id in zip(samples["thread_id"], samples["stack_id"], strict=True):
        names = {name for name, _ in stacks[stack_id]}
        if of_thread == thread and "run" in names:
            counts.update(names)
    return {name: count / counts["run"] for name, count in counts.items()}, counts["run"]


def free_points(share: float, samples: int) -> float:
    """Return how far a share of so many samples may be from the truth: five standard deviations."""
    return FREE_POINTS + 5 * math.sqrt(share * (1 - share) / samples)


def expected(result: Path) -> dict[str, float]:
    ran = json.loads(result.read_text())
    return {name: seconds / sum(ran.values()) for name, seconds in ran.items()}


def periods_of(trace: Trace, thread: int) -> list[int]:
    samples = trace["python_sample"]
    rows = zip(samples["thread_id"], samples["period_ns"], strict=True)
    return [period for of_thread, period in rows if of_thread == thread]


def periods_in_run(trace: Trace, thread: int) -> tuple[int, int]:
    """Return how long a thread was seen in run(), with the GIL and without it, in ns."""
    stacks = stacks_of(trace)
    samples = trace["python_sample"]
    rows = zip(
        *(samples[name] for name in ("thread_id", "stack_id", "period_ns", "has_gil")), strict=True
    )
    found = [
        (has_gil, period)
        for of_thread, stack_id, period, has_gil in rows
        if of_thread == thread and any(name == "run" for name, _ in stacks[stack_id])
    ]
    with_gil = sum(period for has_gil, period in found if has_gil)
    return with_gil, sum(period for _, period in found) - with_gil


def main_thread(trace: Trace) -> int:
    """Return the thread that runs the functions."""
    stacks = stacks_of(trace)
    samples = trace["python_sample"]
    found = [
        thread
        for thread, stack_id in zip(samples["thread_id"], samples["stack_id"], strict=True)
        if any(name == "main" for name, _ in stacks[stack_id])
    ]
    return int(found[0])


def sleeping(trace: Trace) -> tuple[int, int]:
    """Return the thread that waits, and the line where it does."""
    stacks = stacks_of(trace)
    samples = trace["python_sample"]
    for thread, stack_id in zip(samples["thread_id"], samples["stack_id"], strict=True):
        for name, line in stacks[stack_id]:
            if name == "sleeper":
                return thread, line
    raise AssertionError("no sample of the thread that waits")


@pytest.mark.parametrize("version", VERSIONS[:-1])  # 3.15 is refused
def test_functions_lines_and_threads_are_those_of_the_program(record, tmp_path, version):
    trace = record(interpreter(version), PROGRAM, tmp_path / "result", trace="python-gil")
    main = main_thread(trace)
    found, samples = shares(trace, main)
    for name, share in expected(tmp_path / "result").items():
        allowed = free_points(share, samples)
        assert found.get(name, 0) == pytest.approx(share, abs=allowed), name
    broken = samples * (1 - found["main"])
    assert found["main"] == found["<module>"]
    assert broken <= max(3, 0.02 * samples)  # stacks are whole
    thread, line = sleeping(trace)
    assert thread != main
    assert PROGRAM.read_text().splitlines()[line - 1].endswith("# waits here")
    spans = trace["gil_span"]
    held = sum(
        end - start
        for of_thread, state, start, end in zip(
            *(spans[name] for name in ("thread_id", "state", "start_ns", "end_ns")), strict=True
        )
        if (of_thread, state) == (main, "Holding")
    )
    waited = periods_of(trace, thread)
    assert max(waited) > 0.3 * sum(waited)  # rows of a blocked thread are joined
    # The other thread only waits. While it starts, the program lets go of the GIL to read files.
    with_gil, without = periods_in_run(trace, main)
    assert with_gil > 0.9 * (with_gil + without)
    assert held > 0.9 * with_gil


def test_forks_are_sampled(record, tmp_path):
    trace = record(sys.executable, PROGRAM, tmp_path / "result", "fork")
    threads = {*trace["python_sample"]["thread_id"]}
    processes = {trace["thread"]["process_id"][thread] for thread in threads}
    pids = {trace["process"]["pid"][process] for process in processes}
    assert len(pids) == 2, trace["process"].select("pid", "name").rows()
