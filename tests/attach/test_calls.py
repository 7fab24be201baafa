"""Calls in other programs that take long, or whose caller is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attach.conftest import Compile
from attach.test_rounds import Target, command_of

from warpline.capture.attaching.injecting import Attacher
from warpline.errors import CaptureError

KILLS = 30


@pytest.fixture
def target(counted: Path, compile_program: Compile, tmp_path: Path) -> Target:
    """A program that sleeps again and again."""
    stop = tmp_path / "stop"
    return Target(command_of("nanosleep", stop, counted, compile_program), stop)


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_the_thread_of_a_call_takes_no_signals(
    attacher: Attacher, counted: Path, target: Target
) -> None:
    # All of 1 to 31 that can be blocked. The C library keeps two for itself, above these.
    assert attacher.inject(target.pid, counted, "blocked_signals", "", timeout_s=60).result == 29
    assert target.end() == (b"ok\n", b"", 0)


def test_a_call_that_takes_long_goes_on(
    attacher: Attacher, counted: Path, target: Target, tmp_path: Path
) -> None:
    wait = tmp_path / "wait"
    wait.touch()
    with pytest.raises(CaptureError, match="goes on in its own thread"):
        attacher.inject(target.pid, counted, "waiting", str(wait), timeout_s=2)
    assert threads_of(target.pid) == 2
    wait.unlink()
    deadline = time.monotonic() + 60
    while threads_of(target.pid) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "rwxp" not in Path(f"/proc/{target.pid}/maps").read_text()
    assert attacher.inject(target.pid, counted, "counted", "ok", timeout_s=60).result == 1
    assert target.end() == (b"ok\n", b"", 0)


@pytest.mark.parametrize("mode", ["nanosleep", "registers"])
def test_a_caller_that_is_killed_changes_nothing(
    mode: str, attacher: Attacher, counted: Path, compile_program: Compile, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    target = Target(command_of(mode, stop, counted, compile_program), stop)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from warpline.capture.attaching.injecting import Attacher\n"
        "attacher = Attacher()\n"
        "print(flush=True)\n"
        "while True:\n"
        f"    attacher.inject({target.pid}, Path(sys.argv[1]), 'counted', 'ok', timeout_s=60)\n"
    )
    choice = random.Random(29)
    for _ in range(KILLS):
        caller = subprocess.Popen(
            [sys.executable, "-c", code, counted], stdout=subprocess.PIPE, start_new_session=True
        )
        assert caller.stdout is not None
        caller.stdout.readline()
        time.sleep(choice.random() * 0.02)
        os.killpg(caller.pid, signal.SIGKILL)
        caller.stdout.read()  # until the process that traces has ended, too
        caller.wait()
        caller.stdout.close()
    assert attacher.inject(target.pid, counted, "counted", "ok", timeout_s=60).result > 0
    assert target.end() == (b"ok\n", b"", 0)
