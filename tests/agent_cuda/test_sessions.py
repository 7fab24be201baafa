"""Programs that use CUDA, under ``warpline launch`` and ``warpline attach``, with the fake CUDA."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline.capture.attaching.injecting import Attacher
from warpline.capture.session.session import measure
from warpline.errors import WarplineError
from warpline.trace import Trace

WAIT_S = 60.0
# The program goes on until the test ends it.
FOR_EVER = ("init", "repeat", 100_000_000, "k1x20,k2,u1000")


class Shell:
    """Commands of Warpline, and a program that launches kernels meanwhile."""

    def __init__(self, folder: Path, cuda: Any, environment: dict[str, str]) -> None:
        self.folder = folder
        self.told = folder / "told"
        library = folder / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
        library.parent.mkdir(parents=True)
        shutil.copy(cuda.cupti13, library)
        self.program = cuda.command(*FOR_EVER, cupti=library)
        source = Path(warpline.__file__).parents[1]
        self.environment = {
            **environment,
            "FAKE_CUPTI_LOG": str(self.told),
            "PYTHONPATH": f"{folder / 'packages'}:{source}",
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=self.environment, cwd=self.folder)
        self.started.append(process)
        return process

    def do(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "warpline", *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            env=self.environment,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def recorded(self, name: str) -> Trace:
        return warpline.open(self.folder / f"{name}.warpline")

    def count(self, what: str) -> int:
        """Return how often the fake CUPTI was called so."""
        return self.told.read_text().split("\n").count(what) if self.told.exists() else 0


@pytest.fixture
def shell(tmp_path: Path, cuda: Any) -> Iterator[Shell]:
    made = Shell(tmp_path, cuda, dict(os.environ))
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def events_of(text: str) -> int:
    """Return the events in the words of ``warpline status``."""
    words = text.replace(",", "").split()
    return int(words[words.index("events") - 1]) if "events" in words else 0


def test_each_recording_of_a_launch_has_kernels(shell: Shell) -> None:
    process = shell.start([sys.executable, "-m", "warpline", "launch", "--", *shell.program])
    wait_until(lambda: shell.do("sessions").startswith("session cuda_app-1"))
    for number in range(3):
        shell.do("start", "-o", f"run{number}")
        wait_until(lambda: events_of(shell.do("status")) > 100)
        shell.do("stop")
    for number in range(3):
        trace = shell.recorded(f"run{number}")
        launches = [n for n in trace["api_call"]["name"].to_list() if "LaunchKernel" in n]
        assert len(trace["kernel"]) >= len(launches) > 20
        assert trace.meta.lost == {}
    # CUPTI is subscribed to only meanwhile, and never finalized: see cupti/tracing.cpp.
    assert shell.count("finalize 0") == 0
    shell.do("shutdown", "--kill=sigkill")
    assert process.wait(WAIT_S) == 0  # as it was asked to end it


def test_a_process_is_attached_to_again_and_again(shell: Shell) -> None:
    process = shell.start(shell.program)
    try:
        obstacle = Attacher().obstacle(process.pid)
    except WarplineError as error:
        pytest.skip(str(error))
    if obstacle is not None:
        pytest.skip(obstacle.cause)
    wait_until(lambda: "libcuda" in Path(f"/proc/{process.pid}/maps").read_text())
    threads = Path(f"/proc/{process.pid}/task")
    for number in range(3):
        attach_until_recorded(shell, process.pid, f"run{number}")
        assert len(shell.recorded(f"run{number}")["kernel"]) > 20
        wait_until(lambda: len([*threads.iterdir()]) == 1)  # nothing of ours is left
    assert process.poll() is None


def attach_until_recorded(shell: Shell, pid: int, name: str) -> None:
    """Attach to a process, and press Ctrl-C once events are recorded."""
    attaching = shell.start([sys.executable, "-m", "warpline", "attach", "-o", name, str(pid)])
    raw = shell.folder / f"{name}.warpline.raw"
    wait_until(lambda: attaching.poll() is not None or measure(raw).events > 100)
    attaching.send_signal(signal.SIGINT)
    assert attaching.wait(WAIT_S) == 0
