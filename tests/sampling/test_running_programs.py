"""CPU samples, context switches and Python samples of programs that run already.

A program has threads and a child that wait for the end of its standard input. Once they are
sampled, it ends, and they work, as do those that start then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support import hot_programs
from support.hot_programs import Sampled

import warpline
from warpline.capture.machine import processes
from warpline.capture.machine.agent import agent_library
from warpline.capture.machine.perf import perf_obstacle, sampler_library
from warpline.trace import Trace

BUDGET_MS = 300
ROUNDS = int(os.environ.get("WARPLINE_SESSION_ROUNDS", "8"))  # 20 for the figures in the docs
WAIT_S = 60.0
READS_INPUT = "0 0x0 "  # the number of the system call, and of the file
WARPLINE = [sys.executable, "-m", "warpline"]
WITHOUT_PERF = [sys.executable, str(Path(hot_programs.__file__).with_name("without_perf.py"))]
ROUNDS_PROGRAM = Path(__file__).parent / "programs" / "rounds.py"
QUIET = ("-t", "none", "--gpu-health=off", "--no-summary", "-f", "true")
# Of the program: two threads and a child that wait, then itself, a thread and a child.
WORDS = ("early", "early", "early_fork", "await", "work", "thread", "fork")
WORKERS = 6


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


class Waiting:
    """A program that waits for the end of its standard input."""

    def __init__(self, command: Sequence[object], folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        self.others: list[subprocess.Popen[str]] = []

    def wait_for(self, pid: int, *, threads: int, children: int) -> None:
        """Wait until a process has so many threads and children that wait."""

        def is_so() -> bool:
            tasks = [*Path(f"/proc/{pid}/task").iterdir()]
            below = processes.descendants(pid)
            calls = [Path(task, "syscall").read_text() for task in tasks]
            calls += [Path(f"/proc/{child}/syscall").read_text() for child in below]
            waiting = [call.startswith(READS_INPUT) for call in calls]
            return sum(waiting) == threads + children == len(tasks) + len(below)

        wait_until(is_so)

    def attach(self, *flags: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Attach to the program, and wait until all of its processes are sampled."""
        words = [*before, *WARPLINE, "attach", *QUIET, "-o", "run", *flags, str(self.process.pid)]
        attached = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.others.append(attached)
        pids = [self.process.pid, *processes.descendants(self.process.pid)]

        def are_sampled() -> bool:
            assert attached.poll() is None, attached.communicate()
            logs = [path.name for path in self.folder.glob("run*.raw/*.outside.wlraw")]
            return all(any(name.startswith(f"{pid}-") for name in logs) for pid in pids)

        wait_until(are_sampled)
        return attached

    def go_on(self) -> tuple[int, str]:
        """Let it work; return its status and its output."""
        output, _ = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, output

    def clean_up(self) -> None:
        for process in (self.process, *self.others):
            process.kill()
            process.communicate()


Start = Callable[..., Waiting]


@pytest.fixture
def start(agent: Path, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a program that waits."""
    library = sampler_library(agent)
    obstacle = perf_obstacle(library) if library.exists() else None
    if obstacle is not None or not library.exists():
        pytest.skip(obstacle.cause if obstacle else f"{library.name} is not built")
    started: list[Waiting] = []

    def run(*command: object) -> Waiting:
        started.append(Waiting(command, tmp_path))
        return started[-1]

    yield run
    for each in started:
        each.clean_up()


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program."""
    return hot_programs.compiled(tmp_path_factory.mktemp("hot"))


def check_end(attached: subprocess.Popen[str]) -> None:
    """Check that attaching has ended without a warning."""
    _, said = attached.communicate(timeout=WAIT_S)
    assert (attached.returncode, "warning" in said) == (0, False), said


def within(samples: Sequence[Sampled], *functions: str) -> list[Sampled]:
    return [each for each in samples if set(functions) & set(each.functions)]


def check_all_workers(trace: Trace) -> None:
    """Check that all threads were sampled for all of their work, with whole stacks."""
    samples = hot_programs.samples_of(trace)
    hot_programs.check_shares(samples, hot_programs.SHARES)
    inner = within(samples, *hot_programs.SHARES)
    assert len({each.thread for each in inner}) == WORKERS
    used_ms = sum(each.period_ns for each in inner) / 1e6
    assert 0.9 * WORKERS * BUDGET_MS < used_ms < 1.1 * WORKERS * BUDGET_MS
    rooted = within(inner, "main", "thread", "later")
    assert len(rooted) >= 0.98 * len(inner)
    assert len(within(samples, "[broken backtrace]")) <= 0.02 * len(samples)
    assert trace.row_count("process") == 3


def waits_of(trace: Trace) -> list[tuple[str, ...]]:
    """Return the functions of stacks where threads were blocked, by thread, if they are known."""
    stacks = hot_programs.stacks_of(trace)
    columns = trace.columns("sched_event", "is_sched_in", "stack_id")
    is_in, stack = columns["is_sched_in"].values, columns["stack_id"].filled(-1)
    rows = stack[~is_in & (stack >= 0)].tolist()
    return [tuple(frame.function for frame in stacks[each]) for each in rows]


def test_threads_and_children_from_before_and_after_attaching(start: Start, hot: Path) -> None:
    program = start(hot, BUDGET_MS, *WORDS)
    program.wait_for(program.process.pid, threads=3, children=1)
    attached = program.attach("-s", "process-tree")
    assert program.go_on() == (3, "worked\n")
    check_end(attached)
    trace = warpline.open(program.folder / "run.warpline")
    check_all_workers(trace)
    # Where a thread is stuck is known, although it never stopped while it was recorded.
    stuck = [each for each in waits_of(trace) if "wait_for_end" in each]
    assert len(stuck) == 4
    assert sum("later" in each for each in stuck) == 3
    assert sum("main" in each for each in stuck) == 2


def test_a_thread_that_is_stuck_all_the_time_has_its_stack(start: Start, hot: Path) -> None:
    program = start(hot, BUDGET_MS, "early", "await")
    program.wait_for(program.process.pid, threads=2, children=0)
    attached = program.attach("-s", "process-tree")
    attached.send_signal(signal.SIGINT)
    assert attached.wait(WAIT_S) == 0
    stuck = waits_of(warpline.open(program.folder / "run.warpline"))
    assert len(stuck) == 2
    assert all("wait_for_end" in each for each in stuck)
    assert program.go_on() == (3, "worked\n")


def test_python_of_a_running_program(start: Start, tmp_path: Path) -> None:
    script = hot_programs.python_program(tmp_path)
    program = start(sys.executable, script, BUDGET_MS, *WORDS[:-1])
    program.wait_for(program.process.pid, threads=3, children=1)
    flags = ("-s", "process-tree", "--python-sampling=true", "-t", "python-gil")
    attached = program.attach(*flags)
    assert program.go_on() == (3, "worked\n")
    assert attached.wait(WAIT_S) == 0  # a warning may say that frames were read late, under load
    trace = warpline.open(program.folder / "run.warpline")
    samples = hot_programs.samples_of(trace)
    hot_programs.check_shares(samples, {"hot_double": 2 / 3, "consume": 1 / 3})
    inner = within(samples, "hot_double", "consume")
    assert len({each.thread for each in inner}) == WORKERS - 1
    assert len(within(inner, "work")) >= 0.98 * len(inner)
    stacks = hot_programs.stacks_of(trace)
    rows = trace["python_sample"]
    by_thread: dict[int, set[str]] = {}
    for thread, stack in zip(rows["thread_id"], rows["stack_id"], strict=True):
        by_thread.setdefault(thread, set()).update(each.function for each in stacks[stack])
    assert sum({"later", "work"} <= names for names in by_thread.values()) == 3
    assert {each.thread for each in inner} <= set(trace["gil_span"]["thread_id"])


def test_where_perf_is_refused_python_is_sampled_and_a_line_says_so(
    start: Start, tmp_path: Path
) -> None:
    script = hot_programs.python_program(tmp_path)
    program = start(sys.executable, script, BUDGET_MS, *WORDS[:-1])
    program.wait_for(program.process.pid, threads=3, children=1)
    flags = ("-s", "process-tree", "--python-sampling=true")
    attached = program.attach(*flags, before=WITHOUT_PERF)
    assert program.go_on() == (3, "worked\n")
    said = attached.communicate(timeout=WAIT_S)[1]
    lines = [line for line in said.splitlines() if line.startswith("warning: ")]
    assert len(lines) == 1
    assert "CPU samples and context switches are not recorded: " in lines[0]
    trace = warpline.open(program.folder / "run.warpline")
    assert not trace.has("cpu_sample")
    assert trace.row_count("process") == 2
    stacks = hot_programs.stacks_of(trace)
    names = {
        each.function for stack in trace["python_sample"]["stack_id"] for each in stacks[stack]
    }
    assert {"later", "work", "hot_double"} <= names


def test_without_perf_nothing_is_left_to_attach_for(start: Start, hot: Path) -> None:
    program = start(hot, BUDGET_MS, "await")
    words = [*WITHOUT_PERF, *WARPLINE, "attach", *QUIET, "-s", "process-tree", "-d", "1"]
    done = subprocess.run(
        [*words, str(program.process.pid)],
        capture_output=True,
        text=True,
        check=False,
        cwd=program.folder,
    )
    assert done.returncode == 1
    assert "error: cannot sample process" in done.stderr
    assert not [*program.folder.glob("report*")]
    assert program.go_on() == (3, "worked\n")


class Session:
    """A program under ``warpline launch``, and the commands that steer it."""

    def __init__(self, start: Start, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        (folder / "runtime").mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
        self._start, self.folder = start, folder

    def launch(self, *command: object, flags: Sequence[str] = ()) -> Waiting:
        """Launch a program, and wait until it can be recorded."""
        words = [*WARPLINE, "launch", "-q", "--session=s1", *flags, "--", *command]
        program = self._start(*words)
        wait_until(lambda: self.say("status").returncode == 0)
        return program

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*WARPLINE, *words], check=False, capture_output=True, text=True, cwd=self.folder
        )

    def do(self, *words: str) -> None:
        done = self.say(*words)
        assert done.returncode == 0, done.stderr

    @property
    def pid(self) -> int:
        return int(json.loads(self.say("status", "--json").stdout)["pid"])


@pytest.fixture
def session(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    return Session(start, monkeypatch, tmp_path)


def test_a_session_samples_again_and_again(session: Session, hot: Path) -> None:
    program = session.launch(hot, BUDGET_MS, *WORDS, flags=(*QUIET[:2], "-s", "process-tree"))
    program.wait_for(session.pid, threads=3, children=1)
    session.do("start", "-o", "first")
    session.do("stop")
    session.do("start", "-o", "cancelled")
    session.do("cancel")
    session.do("start", "-o", "second")
    assert program.go_on() == (3, "worked\n")  # it ends while it is recorded
    first, second = (warpline.open(session.folder / f"{n}.warpline") for n in ("first", "second"))
    assert not first.row_count("cpu_sample")
    assert len([each for each in waits_of(first) if "wait_for_end" in each]) == 4
    check_all_workers(second)
    assert not [*session.folder.glob("*.raw")]


def test_a_program_whose_parent_has_ended_is_sampled(session: Session, hot: Path) -> None:
    script = f'exec 3<&0; "{hot}" {BUDGET_MS} await work <&3 & exit 3'
    program = session.launch("sh", "-c", script, flags=(*QUIET[:2], "-s", "process-tree"))
    launcher = program.process.pid
    wait_until(
        lambda: [processes.name_of(pid) for pid in processes.descendants(launcher)] == ["hot"]
    )
    session.do("start", "-o", "run")
    assert program.go_on() == (3, "worked\n")
    trace = warpline.open(session.folder / "run.warpline")
    hot_programs.check_shares(hot_programs.samples_of(trace), hot_programs.SHARES)


def test_a_launcher_that_adopts_the_samplers_does_not_wait_for_them(
    session: Session, hot: Path
) -> None:
    # As init of a container does; here they are started by the program itself.
    start = f'"{sys.executable}" -m warpline start -q -o run -s process-tree'
    script = f'cat; {start}; "{hot}" {BUDGET_MS} work'
    program = session.launch("sh", "-c", script, flags=QUIET[:2])
    assert program.go_on() == (3, "worked\n")
    trace = warpline.open(session.folder / "run.warpline")
    hot_programs.check_shares(hot_programs.samples_of(trace), hot_programs.SHARES)


def test_the_end_of_a_session_by_shutdown(session: Session, hot: Path) -> None:
    program = session.launch(hot, 60_000, "work", flags=(*QUIET[:2], "-s", "process-tree"))
    session.do("start", "-o", "run")
    folder = session.folder / "run.warpline.raw"
    wait_until(lambda: any(log.stat().st_size > 8192 for log in folder.glob("*.outside.wlraw")))
    session.do("shutdown")
    program.process.communicate(timeout=WAIT_S)
    trace = warpline.open(session.folder / "run.warpline")
    hot_programs.check_shares(hot_programs.samples_of(trace), hot_programs.SHARES)


@pytest.mark.slow
def test_many_rounds_leave_nothing_behind(session: Session, hot: Path) -> None:
    program = session.launch(hot, BUDGET_MS, "early", "early_fork", "await", flags=QUIET[:3])
    program.wait_for(session.pid, threads=2, children=1)
    words = [sys.executable, str(ROUNDS_PROGRAM), "s1", str(ROUNDS), str(session.folder)]
    words += ["-s", "process-tree", "--python-sampling=true", *QUIET[:2]]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    held = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(held) == ROUNDS
    first, last = held[0], held[-1]
    assert last["files"] == first["files"]
    assert last["program"] == first["program"]
    assert last["children"] == first["children"] == 0
    assert last["kilobytes"] - first["kilobytes"] <= 4096
    for number in range(ROUNDS):
        trace = warpline.open(session.folder / f"round{number}.warpline")
        assert len([each for each in waits_of(trace) if "wait_for_end" in each]) == 3
    assert program.go_on() == (3, "worked\n")


def test_samples_and_ranges_are_of_the_same_process(session: Session) -> None:
    pytest.importorskip("nvtx")
    script = session.folder / "ranges.py"
    script.write_text(
        "import os, time, nvtx\n"
        "with nvtx.annotate('before'): pass\n"
        "while os.read(0, 1): pass\n"
        "with nvtx.annotate('work'):\n"
        "    until = time.thread_time() + 0.3\n"
        "    while time.thread_time() < until: pass\n"
        "print('worked')\n"
    )
    program = session.launch(sys.executable, script, flags=("-t", "nvtx", "-s", "process-tree"))
    call = Path(f"/proc/{session.pid}/syscall")  # NumPy has threads of its own
    wait_until(lambda: call.read_text().startswith(READS_INPUT))
    session.do("start", "-o", "run")
    assert program.go_on() == (0, "worked\n")
    trace = warpline.open(session.folder / "run.warpline")
    assert trace.row_count("process") == 1
    assert trace["range"]["name"].to_list() == ["work"]
    assert set(trace["range"]["thread_id"]) <= set(trace["cpu_sample"]["thread_id"])


def test_where_perf_is_refused_start_says_so(session: Session, hot: Path) -> None:
    program = session.launch(
        hot, BUDGET_MS, "await", "work", flags=(*QUIET[:2], "-s", "process-tree")
    )
    words = [*WITHOUT_PERF, *WARPLINE, "start", "-q", "-o", "run"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=session.folder, check=False)
    assert done.returncode == 0
    assert "CPU samples and context switches are not recorded" in done.stderr
    assert program.go_on() == (3, "worked\n")
    assert not warpline.open(session.folder / "run.warpline").has("cpu_sample")


def test_a_library_of_another_version_is_refused() -> None:
    assert perf_obstacle(agent_library().with_name("missing.so")) is not None


def test_a_process_that_is_not_there(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    words = [*WARPLINE, "attach", *QUIET, "-s", "process-tree", str(ended.pid)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "there is no such process" in done.stderr
    assert not [*tmp_path.iterdir()]
