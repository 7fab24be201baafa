"""``warpline attach`` to a program with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import warpline
from warpline.capture.attaching.injecting import Attacher
from warpline.capture.machine.agent import INJECTION_VARIABLE, agent_library
from warpline.trace import Trace

Compile = Callable[..., Path]

PROGRAM = Path(__file__).parent / "programs" / "tree.py"
RANGES = 20
WAIT_S = 60.0


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class Tree:
    """A program with five processes or more, whose NVTX will look for the agent."""

    def __init__(self, folder: Path, static: Path) -> None:
        self.folder = folder
        source = Path(warpline.__file__).parents[1]
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{source}:{os.environ.get('PYTHONPATH', '')}",
            "XDG_RUNTIME_DIR": str(folder),
        }
        self._static = static
        self.started: list[subprocess.Popen[str]] = []

    def start(self, kind: str, names: list[str]) -> subprocess.Popen[str]:
        words = [PROGRAM, "parent", self.folder, kind, self._static]
        process = self._run(
            [sys.executable, *map(str, words)], {INJECTION_VARIABLE: str(agent_library())}
        )
        wait_until(lambda: all((self.folder / f"{name}.ready").exists() for name in names))
        wait_until((self.folder / "static").exists)
        return process

    def attach(self, *words: str) -> subprocess.Popen[str]:
        return self._run([sys.executable, "-m", "warpline", "attach", *words], {})

    def _run(self, command: list[str], more: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def touch(self, name: str) -> None:
        (self.folder / name).touch()

    def clean_up(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def tree(tmp_path: Path, attacher: Attacher, compile_program: Compile) -> Iterator[Tree]:
    pytest.importorskip("nvtx")
    made = Tree(tmp_path, compile_program("sleeps.c", "static_sleeps", "-static"))
    yield made
    made.clean_up()


def said_until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """Return the lines that a command prints up to one that begins so."""
    lines: list[str] = []
    assert process.stderr is not None
    while not lines or not lines[-1].startswith(beginning):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    return lines


def names_by_process(trace: Trace) -> dict[int, list[str]]:
    """Return the names of the ranges of each process, in order, by its pid."""
    ranges = trace["range"].sort("start_ns")
    pids = trace["process"]["pid"].to_list()
    found: dict[int, list[str]] = {}
    for process, name in zip(ranges["process_id"].to_list(), ranges["name"].to_list(), strict=True):
        found.setdefault(pids[process], []).append(name)
    return found


def test_all_processes_of_a_program_are_recorded(tree: Tree) -> None:
    names = [*(f"worker{number}" for number in range(4)), "brief"]
    process = tree.start("worker", names)
    attaching = tree.attach("-o", "run", str(process.pid))
    refused, recording = said_until(attaching, "note: recording ")
    static = (tree.folder / "static").read_text()
    assert refused.startswith(f"warning: not recorded: process {static}: it is statically linked")
    assert recording.startswith("note: recording 6 processes (")
    tree.touch("go")
    wait_until(lambda: all((tree.folder / f"{name}.done").exists() for name in names))
    attaching.send_signal(signal.SIGINT)
    assert (
        "in each of 6 processes was stopped for at most" in attaching.communicate(None, WAIT_S)[1]
    )
    assert attaching.returncode == 0
    tree.touch("end")
    assert process.communicate(None, WAIT_S)[1] == ""
    assert process.returncode == 0
    trace = warpline.open(tree.folder / "run.warpline")
    # A fork of a recorded process is recorded; a program that is started later is not.
    expected = [[f"{name} {number}" for number in range(RANGES)] for name in names]
    assert sorted(names_by_process(trace).values()) == sorted([*expected, ["worker0 fork"]])
    assert trace.meta.lost == {}


def test_so_many_steps_of_each_process_end_the_recording(tree: Tree) -> None:
    process = tree.start("stepper", [f"worker{number}" for number in range(4)])
    attaching = tree.attach("-o", "run", "--steps", "5", str(process.pid))
    said_until(attaching, "note: recording 5 processes (")
    tree.touch("go")
    said = attaching.communicate(None, WAIT_S)[1]
    assert attaching.returncode == 0
    assert "5 steps were recorded in each of 4 processes" in said
    tree.touch("end")
    assert process.wait(WAIT_S) == 0
    found = names_by_process(warpline.open(tree.folder / "run.warpline"))
    assert len(found) == 4
    for names in found.values():
        numbers = [int(name.removeprefix("step ")) for name in names]
        assert numbers == list(range(numbers[0], numbers[0] + 5))


def test_one_process_only(tree: Tree) -> None:
    process = tree.start("worker", ["worker0"])
    attaching = tree.attach("--target-processes=application-only", "-o", "run", str(process.pid))
    said_until(attaching, f"note: recording process {process.pid};")
    tree.touch("go")
    wait_until((tree.folder / "worker0.done").exists)
    attaching.send_signal(signal.SIGINT)
    assert "nothing was recorded" in attaching.communicate(None, WAIT_S)[1]
    tree.touch("end")
    assert process.wait(WAIT_S) == 0


def test_processes_in_which_nothing_can_be_recorded_are_left_alone(tree: Tree) -> None:
    command = [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '1000'])"]
    process = tree._run(command, {})
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: bool(children.read_text()))
    attaching = tree.attach("-o", "run", str(process.pid))
    said_until(attaching, f"note: recording process {process.pid};")
    maps = Path(f"/proc/{children.read_text().strip()}/maps").read_text()
    assert "libc" in maps
    assert agent_library().name not in maps
    attaching.send_signal(signal.SIGINT)
    attaching.communicate(None, WAIT_S)


ITSELF = """
import sys, time, warpline
from pathlib import Path
folder = Path(sys.argv[1])
def wait_for(name):
    while not (folder / name).exists(): time.sleep(0.005)
for number in range(3):
    (folder / f"{number}.ready").touch()
    wait_for(f"go{number}")
    with warpline.profile(folder / f"own{number}"):
        with warpline.annotate(f"own {number}"): pass
        (folder / f"{number}.inside").touch()
        if number == 2: wait_for("end")
"""


def test_a_program_that_records_itself(tree: Tree) -> None:
    process = tree._run([sys.executable, "-c", ITSELF, str(tree.folder)], {})
    wait_until((tree.folder / "0.ready").exists)
    attaching = tree.attach("-o", "run", str(process.pid))
    said_until(attaching, "note: recording process ")
    tree.touch("go0")  # while it is attached to
    wait_until((tree.folder / "1.ready").exists)
    attaching.send_signal(signal.SIGINT)
    attaching.communicate(None, WAIT_S)
    tree.touch("go1")  # afterwards
    wait_until((tree.folder / "2.ready").exists)
    tree.touch("go2")
    wait_until((tree.folder / "2.inside").exists)
    late = tree.attach("-o", "late", str(process.pid))  # while it records itself
    said = late.communicate(None, WAIT_S)[1]
    assert (late.returncode, "records itself, or is recorded already" in said) == (1, True)
    assert not list(tree.folder.glob("late*"))
    tree.touch("end")
    said = process.communicate(None, WAIT_S)[1]
    assert process.returncode == 0
    (told,) = [line for line in said.splitlines() if "Warning: " in line]
    assert told.endswith(
        "already being recorded; " + str(tree.folder / "own0") + " records nothing"
    )
    assert not (tree.folder / "own0.warpline").exists()
    for number in (1, 2):
        found = names_by_process(warpline.open(tree.folder / f"own{number}.warpline"))
        assert found == {process.pid: [f"own {number}"]}
