"""A hundred calls in a running program: it goes on as if nothing had happened."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from warpline.capture.attaching.injecting import Attacher, Injected

Compile = Callable[..., Path]

ROUNDS = int(os.environ.get("WARPLINE_ATTACH_ROUNDS", "10"))  # 100 for the figures in the docs
TIMEOUT_S = 60.0  # of a call: only a machine that is at a standstill takes as long

# What waits, and what computes, each in the only thread of its program.
BLOCKED = ["read", "nanosleep", "poll", "select", "epoll", "epoll_timeout", "futex", "accept"]
CHILDREN = ["wait", "forks"]
BUSY = ["signals", "signals_restart", "jumps", "vectors", "registers"]
THREADED = ["malloc", "dlopen", "threads"]
PYTHON = {
    "python_sleeps": "import time\nwhile not over():\n    time.sleep(0.02)",
    "python_computes": "while not over():\n    assert sum(range(10000)) == 49995000",
    "python_imports": (
        "import sys, importlib\n"
        "while not over():\n"
        "    for name in ('csv', 'decimal', 'json.decoder', '_json', '_csv'):\n"
        "        sys.modules.pop(name, None)\n"
        "        assert importlib.import_module(name)"
    ),
    "python_threads": (
        "import threading, queue\n"
        "work = queue.Queue()\n"
        "def take():\n"
        "    while work.get() is not None: pass\n"
        "threads = [threading.Thread(target=take) for _ in range(4)]\n"
        "[each.start() for each in threads]\n"
        "while not over():\n"
        "    [work.put(1) for _ in range(100)]\n"
        "[work.put(None) for _ in threads]\n"
        "[each.join() for each in threads]"
    ),
}


class Target:
    """A program that has said that it is ready."""

    def __init__(self, command: Sequence[str | Path], stop: Path) -> None:
        self._stop = stop
        stop.write_bytes(b"\0")
        pipe = subprocess.PIPE
        # What a sanitizer of ours needs is not for the program.
        environment = {name: os.environ[name] for name in os.environ.keys() - {"LD_PRELOAD"}}
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    def push(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"x")
        self.process.stdin.flush()

    def end(self) -> tuple[bytes, bytes, int]:
        """End it; return its output, its error output, and its status."""
        with self._stop.open("r+b") as file:
            file.write(b"\1")
        output, errors = self.process.communicate(timeout=300)
        return output, errors, self.process.returncode


def command_of(mode: str, stop: Path, counted: Path, compile_program: Compile) -> list[str | Path]:
    if mode not in PYTHON:
        flags = "-mavx" if "avx" in Path("/proc/cpuinfo").read_text() else "-Wno-psabi"
        program = compile_program("targets.c", "targets", flags)
        return [program, mode, stop, counted]
    head = (
        "import sys\n"
        "def over():\n"
        "    with open(sys.argv[1], 'rb') as file: return file.read(1) == b'\\1'\n"
        "print('ready', flush=True)\n"
    )
    return [sys.executable, "-c", f"{head}{PYTHON[mode]}\nprint('ok')", stop]


def call(attacher: Attacher, target: Target, library: Path, round_: int) -> Injected:
    done = attacher.inject(target.pid, library, "counted", "ok", timeout_s=TIMEOUT_S)
    assert done.result == round_ + 1
    return done


@pytest.mark.parametrize("mode", [*BLOCKED, *CHILDREN, *BUSY, *THREADED, *PYTHON])
def test_a_program_goes_on_as_if_nothing_had_happened(
    mode: str,
    attacher: Attacher,
    counted: Path,
    compile_program: Compile,
    tmp_path: Path,
) -> None:
    command = command_of(mode, tmp_path / "stop", counted, compile_program)
    alone = Target(command, tmp_path / "stop").end()
    target = Target(command, tmp_path / "stop")
    calls = []
    for round_ in range(ROUNDS):
        calls.append(call(attacher, target, counted, round_))
        if round_ % 10 == 0 and mode in {"read", "epoll"}:
            target.push()
    threads = len(list(Path(f"/proc/{target.pid}/task").iterdir()))
    maps = Path(f"/proc/{target.pid}/maps").read_text()
    assert target.end() == alone == (b"ok\n", b"", 0)
    assert maps.count("rwxp") <= 1  # the code of the last call goes in a moment
    assert threads <= 10
    stalls = [each.stall_ns / 1e6 for each in calls]
    stopped = [(each.stall_ns - each.queued_ns) / 1e6 for each in calls]
    attempts = max(each.attempts for each in calls)
    sys.stdout.write(  # shown with -rP
        f"{mode}: stalled {statistics.median(stalls):.2f} ms in the median,"
        f" {max(stalls):.2f} ms at most, without queueing"
        f" {statistics.median(stopped):.2f} and {max(stopped):.2f} ms;"
        f" at most {attempts} attempts\n"
    )
