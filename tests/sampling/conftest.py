"""Programs whose CPU and Python stacks are sampled: by perf events, by timers, from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import warpline
from warpline.capture.machine.agent import agent_library
from warpline.capture.machine.perf import perf_obstacle, sampler_library
from warpline.errors import AgentMissingError
from warpline.trace import Trace


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's library, with the sampler and the preloaded libraries beside it."""
    try:
        return agent_library()
    except AgentMissingError as error:
        pytest.skip(str(error))


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
