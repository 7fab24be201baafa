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
from agent_cuda import cuda_logs as logs

import warpline
from warpline.capture.attaching.injecting import Attacher
from warpline.capture.machine.agent import AGENT_NAME
from warpline.capture.session.session import Session, measure
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
        self.library = library = folder / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
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

    def start(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=self.environment, cwd=self.folder, **more)
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
    # Once while CUDA is initialized, since that may crash a program later; and left again.
    wait_until(lambda: shell.count("subscribe 0") == 1)
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
    assert (shell.count("subscribe 0"), shell.count("finalize 0")) == (1 + 3, 0)
    shell.do("shutdown", "--kill=sigkill")
    assert process.wait(WAIT_S) == 0  # as it was asked to end it


def test_a_recording_that_is_started_waits_for_that_of_the_program_itself(
    shell: Shell, cuda: Any, session: Callable[..., Session]
) -> None:
    own = session(cuda=1, cupti_path=[str(shell.library)])
    words = ("attach", own.folder, cuda.agent, "repeat", 2000, "k1x20,k2,u1000", "detach")
    program = cuda.command("init", *words, *FOR_EVER[1:], cupti=shell.library)
    process = shell.start(
        [sys.executable, "-m", "warpline", "launch", "-t", "cuda", "--", *program]
    )
    wait_until(lambda: measure(own.folder).events > 100)
    shell.do("start", "-o", "outer")
    wait_until(lambda: events_of(shell.do("status")) > 100)
    shell.do("stop")
    shell.do("shutdown", "--kill=sigkill")
    process.wait(WAIT_S)
    assert len(logs.found(own.folder, logs.KERNEL)) == 2000 * 21  # all of its own
    trace = shell.recorded("outer")
    assert len(trace["kernel"]) > 20
    assert trace.meta.lost == {}


def skip_unless_possible(pid: int) -> None:
    try:
        obstacle = Attacher().obstacle(pid)
    except WarplineError as error:
        pytest.skip(str(error))
    if obstacle is not None and obstacle.is_about_rights:
        pytest.skip(obstacle.cause)


def test_a_process_is_attached_to_again_and_again(shell: Shell) -> None:
    process = shell.start(shell.program)
    skip_unless_possible(process.pid)
    wait_until(lambda: "libcuda" in Path(f"/proc/{process.pid}/maps").read_text())
    threads = Path(f"/proc/{process.pid}/task")
    for number in range(3):
        attach_until_recorded(shell, process.pid, f"run{number}")
        assert len(shell.recorded(f"run{number}")["kernel"]) > 20
        wait_until(lambda: len([*threads.iterdir()]) == 1)  # nothing of ours is left
    assert process.poll() is None
    # They can hang a program with graphs that were made before. The fake has two devices.
    assert (shell.count("on 10"), shell.count("on 22")) == (3, 0)
    warnings = " ".join(shell.recorded("run0").meta.warnings)
    assert "copies between GPUs are not recorded" in warnings


def test_cupti_is_not_used_without_cuda_in_the_trace(shell: Shell) -> None:
    process = shell.start(
        [sys.executable, "-m", "warpline", "launch", "-t", "nvtx", "--", *shell.program]
    )
    wait_until(lambda: shell.do("sessions").startswith("session cuda_app-1"))
    wait_until(lambda: "libwarpline" in Path(f"/proc/{program_of(process)}/maps").read_text())
    shell.do("start", "-o", "run")
    shell.do("stop")
    shell.do("shutdown", "--kill=sigkill")
    process.wait(WAIT_S)
    assert shell.count("subscribe 0") == 0


def program_of(launcher: subprocess.Popen[bytes]) -> int:
    """Return the process that a launcher has started, once it executes its program."""
    found = [
        pid
        for pid in children_of(launcher.pid)
        if "cuda_app" in Path(f"/proc/{pid}/exe").readlink().name
    ]
    return found[0] if found else launcher.pid


def test_attaching_waits_while_the_program_starts_to_use_cuda(shell: Shell) -> None:
    contexts, said = shell.folder / "contexts", shell.folder / "said"
    shell.environment["FAKE_CUDA_CONTEXTS"] = str(contexts)
    process = shell.start(shell.program)
    skip_unless_possible(process.pid)
    wait_until(lambda: "libcuda" in Path(f"/proc/{process.pid}/maps").read_text())
    words = ("attach", "-d", "0.2", "-o", "run", str(process.pid))
    with said.open("w") as stderr:
        attaching = shell.start([sys.executable, "-m", "warpline", *words], stderr=stderr)
    told = f"note: waiting for process {process.pid} to finish initializing CUDA"
    wait_until(lambda: told in said.read_text())
    assert shell.count("subscribe 0") == 0
    contexts.touch()
    assert attaching.wait(WAIT_S) == 0
    assert "recording process" in said.read_text().partition(told)[2]
    assert len(shell.recorded("run")["kernel"]) > 20


def test_a_recording_ends_while_the_program_exits(shell: Shell, cuda: Any) -> None:
    # Handlers of exit() free what CUPTI reads, and those of our library have run: no thread of it
    # may need either any more.
    shell.environment["FAKE_CUPTI_EXIT_MS"] = "2500"
    end = shell.folder / "end"
    words = ("init", "launch_on", 1, "wait", end)
    process = shell.start(cuda.command(*words, cupti=shell.library))
    skip_unless_possible(process.pid)
    wait_until(lambda: "libcuda" in Path(f"/proc/{process.pid}/maps").read_text())
    attaching = shell.start(
        [sys.executable, "-m", "warpline", "attach", "-o", "run", str(process.pid)]
    )
    wait_until(lambda: measure(shell.folder / "run.warpline.raw").events > 100)
    end.touch()
    wait_until(lambda: shell.count("exit 0") == 1)
    attaching.send_signal(signal.SIGINT)
    assert process.wait(WAIT_S) == 0
    assert attaching.wait(WAIT_S) == 0
    # What is launched after its last look is not in it.
    assert len(shell.recorded("run")["kernel"]) > 20


def test_steps_of_all_ranks_of_a_parent(shell: Shell) -> None:
    ranks = 2
    code = f"""
import subprocess, sys
ranks = [subprocess.Popen(sys.argv[1:]) for _ in range({ranks})]
[rank.wait() for rank in ranks]
"""
    process = shell.start([sys.executable, "-c", code, *shell.program])
    skip_unless_possible(process.pid)
    wait_until(lambda: len(using_cuda(process.pid)) == ranks)
    pids = using_cuda(process.pid)
    try:
        said = shell.do("attach", "--steps", "5", "-o", "run", str(process.pid))
        assert f"recording 2 processes ({pids[0]}, {pids[1]}); 5 steps (press Ctrl-C" in said
        assert "5 steps were recorded in each of 2 processes" in said
        trace = shell.recorded("run")
        assert sorted(trace["process"]["pid"].to_list()) == sorted(pids)
        kernels = trace["kernel"]["process_id"].to_list()
        # Before its own first step, a rank is recorded while another one is: the first has no more.
        assert min(kernels.count(rank) for rank in range(ranks)) == 5 * 21
        assert AGENT_NAME not in Path(f"/proc/{process.pid}/maps").read_text()
        assert using_cuda(process.pid) == pids  # they go on
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def using_cuda(pid: int) -> list[int]:
    """Return the children of a process that have loaded the fake driver."""
    return [
        each for each in children_of(pid) if "libcuda" in Path(f"/proc/{each}/maps").read_text()
    ]


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def attach_until_recorded(shell: Shell, pid: int, name: str) -> None:
    """Attach to a process, and press Ctrl-C once events are recorded."""
    attaching = shell.start([sys.executable, "-m", "warpline", "attach", "-o", name, str(pid)])
    raw = shell.folder / f"{name}.warpline.raw"
    wait_until(lambda: attaching.poll() is not None or measure(raw).events > 100)
    attaching.send_signal(signal.SIGINT)
    assert attaching.wait(WAIT_S) == 0
