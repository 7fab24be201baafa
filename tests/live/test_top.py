"""``warpline top`` of programs with the fake CUDA: its numbers are those of the recording."""

from __future__ import annotations

import itertools
import json
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from live.conftest import WAIT_S, Shell, recorded_again
from support.browsing import busy_ns
from support.json_schema import violations

import warpline
from warpline.live import watch
from warpline.live.answers import plain
from warpline.live.finding import find

# Steps of 21 kernels, a copy back and a wait, with pauses; a range around each.
STEPS = ("repeat", 100_000_000, "k1x20,k2,u20000")
ROOT = Path(__file__).parents[2]


def check_by_hand(trace: warpline.Trace, line: dict[str, Any]) -> None:
    """Busy time and operations by going through all kernels, and what parts must add up to."""
    kernels = trace["kernel"].select("start_ns", "end_ns").rows()
    second, times = line["second"], line["times"]
    low, high = second["start_ns"], second["end_ns"]
    inside = [(start, end, 0) for start, end in kernels if start < high and end > low]
    (gpu,) = second["gpus"]
    assert gpu["operations"] == len(inside) > 100
    assert gpu["busy_ns"] == busy_ns(inside, low, high) > 0
    low, high = times["start_ns"], times["end_ns"]
    (rank,) = times["ranks"]
    assert sum(rank["parts_ns"].values()) == high - low
    inside = [(start, end, 0) for start, end in kernels if start < high and end > low]
    assert rank["busy_ns"] == busy_ns(inside, low, high)


def updates_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_where_there_are_many_events_causes_and_steps_are_those_of_the_newest_second(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shell.folder))
    monkeypatch.setattr(watch, "_OLD_S", 0.0)  # any number is many
    program = shell.start("profile", "-t", "cuda,nvtx", "-o", "run", "--", *shell.program(*STEPS))
    shell.wait_for_kernels("run")
    lines: list[dict[str, Any]] = []
    with closing(watch.Watcher(find("run"), 2.0, share=1.0)) as watched:
        end = time.monotonic() + WAIT_S
        while len(lines) < 2 and time.monotonic() < end:
            line = plain(watched.update())
            second, times = line["second"], line["times"]
            if times is not None and times["start_ns"] == second["start_ns"]:
                lines += [line] if times["end_ns"] == second["end_ns"] else []
            time.sleep(1.0)
    program.send_signal(signal.SIGINT)
    program.wait(WAIT_S)
    trace = warpline.open(shell.folder / "run.warpline")
    assert len(lines) == 2
    for line in lines:
        if line["times"]["is_settled"]:
            assert recorded_again(trace, line)["times"] == line["times"]
        if line["steps"]["is_settled"]:
            assert recorded_again(trace, line)["steps"] == line["steps"]
    assert any(line["times"]["is_settled"] for line in lines)
    assert lines[-1]["steps"]["end_ns"] - lines[-1]["steps"]["start_ns"] == 10**9
    assert lines[-1]["steps"]["ranks"][0]["count"] > 5


def test_numbers_are_those_of_the_same_part_of_the_recording(shell: Shell) -> None:
    program = shell.start("profile", "-t", "cuda,nvtx", "-o", "run", "--", *shell.program(*STEPS))
    shell.wait_for_kernels("run")
    done = shell.do("top", "run", "--format", "json", "-n", 3, "--window", 2)
    assert done.returncode == 0, done.stderr
    program.send_signal(signal.SIGINT)
    program.wait(WAIT_S)
    trace = warpline.open(shell.folder / "run.warpline")
    lines = updates_of(done.stdout)
    assert len(lines) == 3
    schema = json.loads((ROOT / "docs" / "top.schema.json").read_text())
    settled = 0
    for line in lines:
        assert violations(line, schema) == []
        again = recorded_again(trace, line)
        for name in ("second", "times", "steps"):
            settled += line[name]["is_settled"]
            if line[name]["is_settled"]:
                assert again[name] == line[name], (name, lines.index(line), line["now_ns"])
    assert settled >= 3
    assert all(line["damaged_logs"] == line["lost_events"] == 0 for line in lines)
    check_by_hand(trace, lines[0])
    ends = [line["second"]["end_ns"] for line in lines]
    assert [late - early for early, late in itertools.pairwise(ends)] == [10**9] * 2
    assert lines[-1]["steps"]["ranks"][0]["count"] > 5
    assert lines[-1]["times"]["ranks"][0]["parts_ns"]["launch-bound"] > 10**9
