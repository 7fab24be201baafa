"""Starts ``warpline profile`` in a separate process, for tests with real programs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import warpline
from warpline.capture.machine.agent import AGENT_VARIABLE, agent_library
from warpline.errors import AgentMissingError

SOURCE = str(Path(warpline.__file__).parents[1])
TIMEOUT_S = 60


class Ended(NamedTuple):
    """The result of a run."""

    status: int
    out: str
    err: str


def needs_agent() -> None:
    """Skip the test if the agent was not built."""
    try:
        agent_library()
    except AgentMissingError as error:
        pytest.skip(error.message)


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which this Warpline is found from any directory."""
    own = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONSAFEPATH": "1", **more}
    if AGENT_VARIABLE in own:
        own[AGENT_VARIABLE] = str(Path(own[AGENT_VARIABLE]).absolute())
    return own


def start(
    folder: Path,
    words: Sequence[str],
    *,
    more: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """Start ``warpline profile`` with these arguments in a directory, without waiting.

    With `through`, start this command instead, which then executes it.
    """
    return subprocess.Popen(
        [*through, sys.executable, "-m", "warpline", "profile", *words],
        cwd=folder,
        env=environment(**(more or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def end(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process started by `start`."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Ended(process.returncode, out, err)


def profile(folder: Path, *words: str, **more: str) -> Ended:
    """Run ``warpline profile`` with these arguments in a directory until it exits."""
    return end(start(folder, words, more=more))


def python(folder: Path, code: str, name: str = "program.py") -> list[str]:
    """Write a program and return the command that runs it."""
    path = folder / name
    path.write_text(code, encoding="utf-8")
    return [sys.executable, str(path)]


def names(recording: Path) -> list[str]:
    """Return the names of the recording's ranges, by start."""
    trace = warpline.open(recording)
    ranges = trace.columns("range", "name_id")
    return [trace.strings.text(int(number)) or "" for number in ranges["name_id"].values]


def open_files(pid: int) -> set[str]:
    """Return the paths of the files that a process has open; none if it has ended."""
    try:
        entries = [*Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return set()
    found = set()
    for entry in entries:
        with contextlib.suppress(OSError):
            found.add(str(entry.readlink()))
    return found


def with_open(*paths: Path) -> list[int]:
    """Return the processes that have one of some files open."""
    names = set(map(str, paths))
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if names & open_files(pid)]


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)
