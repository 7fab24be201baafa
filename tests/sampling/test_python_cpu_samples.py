"""Python frames in CPU samples of perf events: those of the sample's moment, or none."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_cuda.pythons import VERSIONS, interpreter

import warpline
from warpline.capture.finishing.cpu_tables import tell_sampler
from warpline.capture.finishing.told import Told
from warpline.capture.machine.perf import perf_obstacle, sampler_library
from warpline.trace import Trace

PROGRAM = Path(__file__).parent / "programs" / "python_shares.py"
LINES = PROGRAM.read_text().splitlines()
FREE_POINTS = 0.02  # beside what chance does to a share
CALLERS = {
    "short_one": {"outer_one", "deep"},
    "short_two": {"outer_two"},
    "outer_one": {"in_turn", "only_one"},
    "outer_two": {"in_turn", "only_two"},
    "in_generator": {"drain"},
    "key_of": {"sort"},
}

Record = Callable[..., Trace]
Stack = list[tuple[str, int | None, bool]]  # function, line, whether it is Python; outermost first


@pytest.fixture
def record(agent: Path, tmp_path: Path) -> Record:
    """Return a function that samples the program in a Python."""
    library = sampler_library(agent)
    if not library.exists():
        pytest.skip(f"{library.name} is not built")
    obstacle = perf_obstacle(library)
    if obstacle is not None:
        pytest.skip(obstacle.cause)

    def run(python: str, *words: object) -> Trace:
        output = tmp_path / "run.warpline"
        command = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", "-t", "none"]
        command += ["--gpu-health=off", "-s", "process-tree", "-o", str(output), python]
        done = subprocess.run(
            [*command, str(PROGRAM), str(tmp_path / "result"), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        ends = (done.returncode, done.stdout.split())
        assert ends == (0, ["worked"] * (2 if "fork" in words else 1)), done.stderr
        return warpline.open(output)

    return run


def samples_of(trace: Trace) -> list[tuple[int, Stack]]:
    """Return the thread and the stack of each sample."""
    columns = (trace["frame"][name].to_list() for name in ("symbol", "line", "kind"))
    frames = [
        (symbol.rpartition(".")[2] if kind == "Python" else symbol, line, kind == "Python")
        for symbol, line, kind in zip(*columns, strict=True)
    ]
    stacks: list[Stack] = []
    table = trace["stack"]
    for parent, frame in zip(table["parent_id"], table["frame_id"], strict=True):
        stacks.append([*([] if parent is None else stacks[parent]), frames[frame]])
    samples = trace["cpu_sample"]
    return [
        (thread, [] if stack is None else stacks[stack])
        for thread, stack in zip(samples["thread_id"], samples["stack_id"], strict=True)
    ]


def python_of(stack: Stack) -> list[tuple[str, int]]:
    return [(name, line or 0) for name, line, is_python in stack if is_python]


def in_work(samples: Sequence[tuple[int, Stack]]) -> list[list[tuple[str, int]]]:
    """Return the Python frames of samples that have the function work."""
    found = [python_of(stack) for _, stack in samples]
    return [frames for frames in found if any(name == "work" for name, _ in frames)]


def check_shares(stacks: Sequence[list[tuple[str, int]]], result: Path) -> None:
    used: dict[str, float] = json.loads(result.read_text())
    counts = Counter(name for frames in stacks for name in {name for name, _ in frames})
    for function, seconds in used.items():
        share = seconds / sum(used.values())
        allowed = FREE_POINTS + 5 * math.sqrt(share * (1 - share) / len(stacks))
        found = counts[function] / len(stacks)
        assert found == pytest.approx(share, abs=allowed), function


def is_called_there(caller: tuple[str, int], callee: str) -> bool:
    """Whether the line of a caller has the call."""
    text = LINES[caller[1] - 1]
    return callee in text or (caller[0] == "work" and "function()" in text)


def calls_of(stacks: Sequence[list[tuple[str, int]]]) -> list[tuple[tuple[str, int], str]]:
    return [
        (caller, callee)
        for frames in stacks
        for caller, (callee, _) in pairwise(frames)
        if callee in CALLERS
    ]


# 3.15 is refused. Those between run on request.
@pytest.mark.parametrize(
    "version",
    [
        version
        if version in {"3.11", "3.13", "3.14"}
        else pytest.param(version, marks=pytest.mark.slow)
        for version in VERSIONS[:-1]
    ],
)
def test_functions_callers_and_lines_are_those_of_the_sample(
    record: Record, tmp_path: Path, version: Any
) -> None:
    samples = samples_of(record(interpreter(version), "thread"))
    stacks = in_work(samples)
    assert len({thread for thread, stack in samples if python_of(stack)}) == 2
    check_shares(stacks, tmp_path / "result")
    # Under load the sampler may come late, so limits are wide. No frames are better than those of
    # another moment.
    bare = [
        stack
        for _, stack in samples
        if not python_of(stack) and any("_PyEval_Eval" in name for name, _, _ in stack)
    ]
    assert len(bare) <= 0.5 * len(samples)
    whole = [frames for frames in stacks if frames[0][0] in {"<module>", "_bootstrap"}]
    assert len(whole) >= 0.98 * len(stacks)
    calls = calls_of(stacks)
    wrong = [call for call in calls if call[0][0] not in CALLERS[call[1]]]
    assert len(wrong) <= 0.03 * len(calls), Counter(wrong).most_common(5)
    elsewhere = [call for call in calls if not is_called_there(*call)]
    assert len(elsewhere) <= 0.05 * len(calls), Counter(elsewhere).most_common(5)


def test_frames_of_c_are_between_those_of_python(record: Record) -> None:
    found = [stack for _, stack in samples_of(record(sys.executable)) if stack]
    names = [[name for name, _, _ in stack] for stack in found]
    sorting = [each for each in names if "key_of" in each and "sort" in each]
    assert sorting
    for each in sorting:
        between = each[each.index("sort") + 1 : each.index("key_of")]
        assert "builtin_sorted" in between or any("sort" in name for name in between)
        assert "_PyEval_EvalFrameDefault" not in between


def test_forks_have_their_own_frames(record: Record, tmp_path: Path) -> None:
    trace = record(sys.executable, "fork")
    process = trace["thread"]["process_id"].to_list()
    samples = samples_of(trace)
    found = {process[thread] for thread, _ in samples}
    assert len(found) == 2
    for number, result in zip(sorted(found), ("result", "result.child"), strict=True):
        stacks = in_work([each for each in samples if process[each[0]] == number])
        check_shares(stacks, tmp_path / result)


@pytest.mark.parametrize(("unmatched", "warnings"), [(99, 0), (101, 1), (None, 0)])
def test_many_samples_without_python_frames_are_told(unmatched: int | None, warnings: int) -> None:
    told = Told()
    tell_sampler(told, {"samples": 2000, "python_samples": 1000, "python_unmatched": unmatched})
    assert len(told.warnings) == warnings
    if warnings:
        assert told.warnings[0].startswith("10% of the CPU samples in Python code have no Python")
