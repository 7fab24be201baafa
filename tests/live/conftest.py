"""A program that uses the fake CUDA, recorded while a test looks at it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_cuda.conftest import cuda

import warpline
from warpline.capture.session.session import measure as measure_logs
from warpline.live import measure
from warpline.live.answers import plain
from warpline.live.watch import Second, StepTimes, Times, Update

__all__ = ["cuda"]

WAIT_S = 60.0


class Shell:
    """Commands of Warpline in one directory, and programs that they record."""

    def __init__(self, folder: Path, fake: Any) -> None:
        self.folder = folder
        library = folder / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
        library.parent.mkdir(parents=True)
        shutil.copy(fake.cupti13, library)
        self._fake, self._library = fake, library
        source = Path(warpline.__file__).parents[1]
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{folder / 'packages'}:{source}",
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def program(self, *words: object) -> list[str]:
        """Return the command line of a program that does what the words say."""
        found: list[str] = self._fake.command("init", *words, cupti=self._library)
        return found

    def start(self, *words: object, **more: Any) -> subprocess.Popen[bytes]:
        """Start a command of Warpline."""
        command = [sys.executable, "-m", "warpline", *map(str, words)]
        process = subprocess.Popen(command, env=self.environment, cwd=self.folder, **more)
        self.started.append(process)
        return process

    def do(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a command of Warpline."""
        return subprocess.run(
            [sys.executable, "-m", "warpline", *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            env=self.environment,
            cwd=self.folder,
        )

    def wait_for_kernels(self, name: str) -> None:
        """Wait until a recording in progress has some."""
        folder, end = self.folder / f"{name}.warpline.raw", time.monotonic() + WAIT_S
        while measure_logs(folder).events < 500:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.fixture
def shell(tmp_path: Path, cuda: Any) -> Iterator[Shell]:
    made = Shell(tmp_path, cuda)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def recorded_again(trace: warpline.Trace, line: dict[str, Any]) -> dict[str, Any]:
    """Return the update that the recording gives for the times of one."""
    second, times, steps = (line[name] for name in ("second", "times", "steps"))
    update = Update(
        str(line["name"]),
        second=Second(*_span(second), True, measure.activity(trace.window(*_span(second)))),
        times=Times(*_span(times), True, measure.rank_times(trace.window(*_span(times)))),
        steps=StepTimes(*_span(steps), True, measure.rank_steps(trace.window(*_span(steps)))),
    )
    return plain(update)


def _span(part: object) -> tuple[int, int]:
    assert isinstance(part, dict)
    return part["start_ns"], part["end_ns"]
