"""Programs run under the agent, and the trees of their recorded ranges as plain text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import recording

import warpline
from warpline.capture.finishing.finish import finish
from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import create_session, reserve_folder


@dataclass(frozen=True)
class Recorded:
    """What a program printed and what was recorded of it."""

    status: int
    stdout: str
    stderr: str
    ranges: list[dict[str, Any]]
    marks: list[dict[str, Any]]

    def tree(self, style: str = "PushPop") -> list[str]:
        """The ranges of each thread in order, indented by their depth; threads apart by '--'."""
        lines: list[str] = []
        for thread in sorted({row["thread_id"] for row in self.ranges}):
            lines += ["--"] if lines else []
            open_until: list[int] = []
            for row in self.ranges:
                if row["thread_id"] != thread or row["style"] != style:
                    continue
                while open_until and open_until[-1] <= row["start_ns"]:
                    open_until.pop()
                lines.append("  " * len(open_until) + row["name"])
                open_until.append(row["end_ns"])
        return lines


Run = Callable[..., Recorded]


@pytest.fixture
def recorded(tmp_path: Path) -> Run:
    """Return a function that runs Python with arguments, in a session of its own."""
    agent = recording.skip_unless_possible()

    def run(
        *arguments: str, config: AgentConfig | None = None, cwd: Path = tmp_path, **variables: str
    ) -> Recorded:
        output = tmp_path / "run.warpline"
        facts = session_facts(output, command=[], options={}, environment={}, collected=["nvtx"])
        session = create_session(reserve_folder(output), config or AgentConfig(), facts)
        environment = {**os.environ, **session.variables(agent), **variables}
        done = run_python(arguments, environment, cwd)
        session.end()
        finish(session.folder, output)
        session.remove()
        trace = warpline.open(output)
        return Recorded(
            done.returncode,
            done.stdout,
            done.stderr,
            trace["range"].to_dicts(),
            trace["mark"].to_dicts(),
        )

    return run


@pytest.fixture
def alone(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs Python with arguments while no profiler listens."""

    def run(*arguments: str, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return run_python(arguments, dict(os.environ), cwd)

    return run


def run_python(
    arguments: Sequence[str], environment: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the package that is tested, and wait for it."""
    source = Path(warpline.__file__).parents[1]
    paths = [str(source), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=cwd,
        timeout=60,
    )
