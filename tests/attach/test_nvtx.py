"""NVTX of programs that looked for a tool before they were attached to, and found none."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent.conftest import nvtx_include
from attach.conftest import Compile

import warpline
from warpline.capture.attaching.injecting import Attacher
from warpline.capture.session.session import measure
from warpline.trace import Trace

ROUNDS = int(os.environ.get("WARPLINE_ATTACH_ROUNDS", "10"))
EVENTS = 10_000
WAIT_S = 60.0
SHARED = ("-shared", "-fPIC")

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(attacher: Attacher, compile_program: Compile) -> Build:
    """Return a function that compiles what includes NVTX's headers."""
    include = nvtx_include()
    if include is None:
        pytest.skip("no headers of NVTX: pip install nvidia-nvtx")
    assert attacher is not None

    def built(source: str, name: str, *options: str) -> Path:
        return compile_program(source, name, f"-isystem{include}", *options)

    return built


class Shell:
    """A program that loads libraries and calls their functions, as it is told."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [program], stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1
        )
        self._answer()

    def tell(self, *words: object) -> int:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)
        return int(self._answer())

    def end(self) -> tuple[str, str, int]:
        output, errors = self.process.communicate(timeout=WAIT_S)
        return output, errors, self.process.returncode

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def shell(build: Build) -> Iterator[Shell]:
    made = Shell(build("nvtx_shell.c", "nvtx_shell"))
    yield made
    made.process.kill()
    made.process.wait()
    for pipe in (made.process.stdin, made.process.stdout, made.process.stderr):
        assert pipe is not None
        pipe.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextlib.contextmanager
def attached(pid: int, output: Path) -> Iterator[None]:
    """Record a process meanwhile; the block is to wait for what shows that it is recorded."""
    command = [sys.executable, "-m", "warpline", "attach", "-q", "-o", str(output), str(pid)]
    attaching = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield
        attaching.send_signal(signal.SIGINT)
        errors = attaching.communicate(timeout=WAIT_S)[1]
        assert attaching.returncode == 0, errors
    finally:
        attaching.kill()
        attaching.wait()
        assert attaching.stderr is not None
        attaching.stderr.close()


def threads_of(pid: int) -> int:
    return len([*Path(f"/proc/{pid}/task").iterdir()])


def is_complete(shell: Shell, number: int) -> Callable[[], bool]:
    return lambda: shell.tell("call", number, "state", "-") == 2


def has_functions(shell: Shell, number: int) -> Callable[[], bool]:
    return lambda: shell.tell("call", number, "functions", "-") > 0


def is_bound(shell: Shell, number: int) -> Callable[[], bool]:
    # One that has not looked for a tool yet has functions of its own, and is not complete.
    complete, has = is_complete(shell, number), has_functions(shell, number)
    return lambda: complete() and has()


def is_released(shell: Shell, number: int) -> Callable[[], bool]:
    return lambda: shell.tell("call", number, "functions", "-") == 0


def names(trace: Trace) -> list[str | None]:
    return trace["range"].sort("start_ns")["name"].to_list()


def test_libraries_are_bound_whatever_they_have_done_before(
    shell: Shell, build: Build, tmp_path: Path
) -> None:
    in_c = build("nvtx_user.c", "libin_c.so", *SHARED)
    in_cpp = build("nvtx_user.c", "libin_cpp.so", *SHARED, "-xc++")
    later = build("nvtx_user.c", "liblater.so", *SHARED)
    for number, library in enumerate((in_c, in_cpp)):
        assert shell.tell("load", number, library) == 0
    shell.tell("call", 0, "use", "early")  # the other one has not looked yet
    assert [shell.tell("call", each, "state", "-") for each in (0, 1)] == [2, 0]
    with attached(shell.process.pid, tmp_path / "run.warpline"):
        for number in (0, 1):
            wait_until(is_bound(shell, number))
            shell.tell("call", number, "use", f"one{number}")
        shell.tell("load", 2, later)  # found a moment later
        wait_until(is_complete(shell, 2))
        shell.tell("call", 2, "use", "later")
        shell.tell("load", 3, build("nvtx_user.c", "liblooks.so", *SHARED))
        shell.tell("call", 3, "use", "unheard")  # looks for a tool before it is found
        wait_until(is_bound(shell, 3))
        shell.tell("call", 3, "use", "heard")
    for number in range(4):
        wait_until(is_released(shell, number))
        shell.tell("call", number, "use", "after")
    assert shell.end() == ("ok\n", "", 0)
    recorded = names(warpline.open(tmp_path / "run.warpline"))
    assert [name for name in recorded if name != "unheard"] == ["one0", "one1", "later", "heard"]


def test_what_was_registered_before_has_no_name(shell: Shell, build: Build, tmp_path: Path) -> None:
    library = build("nvtx_user.c", "libin_c.so", *SHARED)
    copy = build("nvtx_user.c", "libcopy.so", *SHARED)
    shell.tell("load", 0, library)
    shell.tell("load", 1, copy)
    shell.tell("call", 0, "use_domain", "early")
    with attached(shell.process.pid, tmp_path / "run.warpline"):
        for number in (0, 1):
            wait_until(is_bound(shell, number))
            shell.tell("call", number, "use_domain", f"text{number}")
    assert shell.end() == ("ok\n", "", 0)
    trace = warpline.open(tmp_path / "run.warpline")
    rows = trace["range"].sort("start_ns").select("name", "domain").rows()
    assert rows == [
        ("text0", None),
        (None, None),
        ("text1", "domain"),
        ("registered", "domain"),
    ]
    assert trace["mark"].select("name", "domain").rows() == [(None, None), ("registered", "domain")]


def test_ranges_that_are_open_at_either_end(shell: Shell, build: Build, tmp_path: Path) -> None:
    shell.tell("load", 0, build("nvtx_user.c", "libin_c.so", *SHARED))
    shell.tell("call", 0, "push", "begins_before")
    for number in range(2):
        with attached(shell.process.pid, tmp_path / f"run{number}.warpline"):
            wait_until(is_bound(shell, 0))
            shell.tell("call", 0, "use", "whole")
            shell.tell("call", 0, "pop", "-")
            shell.tell("call", 0, "push", "ends_after")
            shell.tell("call", 0, "use", "inside")
        wait_until(is_released(shell, 0))
    assert shell.end() == ("ok\n", "", 0)
    for number in range(2):
        trace = warpline.open(tmp_path / f"run{number}.warpline")
        assert names(trace) == ["whole", "ends_after", "inside"]
        whole, outer, inner = trace["range"].sort("start_ns")["end_ns"].to_list()
        assert whole < inner < outer


def test_another_tool_and_decoys_are_left_alone(shell: Shell, build: Build, tmp_path: Path) -> None:
    shell.tell("load", 0, build("nvtx_user.c", "libin_c.so", *SHARED))
    shell.tell("load", 1, build("nvtx_user.c", "libother.so", *SHARED, "-DOTHER_TOOL"))
    shell.tell("load", 2, build("nvtx_decoys.c", "libdecoys.so", *SHARED))
    for number in (0, 1):
        shell.tell("call", number, "use", "early")
    assert shell.tell("call", 1, "functions", "-") == 1
    with attached(shell.process.pid, tmp_path / "run.warpline"):
        wait_until(is_bound(shell, 0))
        # The one decoy that has no fault is bound, so the others were looked at.
        wait_until(lambda: shell.tell("call", 2, "changed", "right") > 40)
        for number in (0, 1):
            shell.tell("call", number, "use", f"by{number}")
        assert shell.tell("call", 1, "functions", "-") == 1
        assert shell.tell("call", 2, "changed", "others") == 0
    wait_until(lambda: shell.tell("call", 2, "changed", "right") == 0)
    assert shell.tell("call", 2, "changed", "others") == 0
    assert shell.tell("call", 1, "tool_count", "-") == 2
    assert shell.end() == ("ok\n", "", 0)
    assert names(warpline.open(tmp_path / "run.warpline")) == ["by0"]


def test_libraries_that_are_unloaded_meanwhile(shell: Shell, build: Build, tmp_path: Path) -> None:
    library = build("nvtx_user.c", "libin_c.so", *SHARED)
    other = build("nvtx_user.c", "libcopy.so", *SHARED)
    for number, each in enumerate((library, other)):
        shell.tell("load", number, each)
        shell.tell("call", number, "use", "early")
    with attached(shell.process.pid, tmp_path / "run.warpline"):
        for number in (0, 1):
            wait_until(is_bound(shell, number))
        for round_ in range(3):
            assert shell.tell("close", 1) == 0
            assert shell.tell("load", 1, other) == 0
            wait_until(is_bound(shell, 1))
            shell.tell("call", 1, "use", f"again{round_}")
        assert shell.tell("close", 1) == 0
    wait_until(is_released(shell, 0))
    assert shell.end() == ("ok\n", "", 0)
    assert names(warpline.open(tmp_path / "run.warpline")) == ["again0", "again1", "again2"]


def test_the_library_of_version_2(shell: Shell, build: Build, tmp_path: Path) -> None:
    shell.tell("load", 0, build("nvtx_library.c", "libnvToolsExt.so.1", *SHARED))
    assert shell.tell("call", 0, "functions", "-") == 63
    shell.tell("call", 0, "use", "early")
    assert shell.tell("call", 0, "functions", "-") == 0
    for number in range(2):
        with attached(shell.process.pid, tmp_path / f"run{number}.warpline"):
            wait_until(has_functions(shell, 0))
            shell.tell("call", 0, "use", f"heard{number}")
        wait_until(is_released(shell, 0))
        assert names(warpline.open(tmp_path / f"run{number}.warpline")) == [f"heard{number}"]
    assert shell.end() == ("ok\n", "", 0)


def test_a_fork_of_the_program_is_recorded_too(shell: Shell, build: Build, tmp_path: Path) -> None:
    shell.tell("load", 0, build("nvtx_user.c", "libin_c.so", *SHARED))
    shell.tell("call", 0, "use", "early")
    with attached(shell.process.pid, tmp_path / "run.warpline"):
        wait_until(is_bound(shell, 0))
        shell.tell("call", 0, "use", "parent")
        assert shell.tell("fork", 0, "use", "child") == 0
    assert shell.end() == ("ok\n", "", 0)
    trace = warpline.open(tmp_path / "run.warpline")
    assert names(trace) == ["parent", "child"]
    assert trace["range"]["process_id"].n_unique() == 2


def test_a_recording_ends_while_the_program_exits(build: Build, tmp_path: Path) -> None:
    # The objects of our library that a program destroys at its exit are not those of its thread.
    pipe = subprocess.PIPE
    program = build("exits_slowly.c", "exits_slowly")
    # glibc writes over what is freed.
    tunables = "glibc.malloc.perturb=85:glibc.malloc.tcache_count=0"
    environment = {**os.environ, "GLIBC_TUNABLES": tunables}
    process = subprocess.Popen([program], stdin=pipe, stdout=pipe, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"runs\n"
        with attached(process.pid, tmp_path / "run.warpline"):
            assert process.stdout.readline() == b"recorded\n"
            os.write(process.stdin.fileno(), b"1")
            assert process.stdout.readline() == b"exits\n"
        wait_until(lambda: threads_of(process.pid) == 1)
        process.communicate(b"2", timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert names(warpline.open(tmp_path / "run.warpline")) == ["work"]


def numbers_of(trace: Trace) -> dict[str, list[int]]:
    """Return the numbers in the names of ranges, by what precedes them."""
    found: dict[str, list[int]] = {}
    for name in names(trace):
        matched = re.fullmatch(r"(\w+)-(\d+)", name or "")
        if matched:
            found.setdefault(matched[1], []).append(int(matched[2]))
    return found


@pytest.mark.slow  # CI runs it with the address sanitizer
def test_threads_that_call_meanwhile_lose_no_range(build: Build, tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    program = build("nvtx_threads.c", "nvtx_threads")
    process = subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in range(ROUNDS):
            with attached(process.pid, tmp_path / f"run{number}.warpline"):
                raw = tmp_path / f"run{number}.warpline.raw"
                wait_until(lambda: measure(raw).events > EVENTS)  # noqa: B023 - used at once
            wait_until(lambda: threads_of(process.pid) == 5)  # nothing of ours is left
        output, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert (errors, process.returncode) == ("", 0)
    counts = [int(line) for line in output.split()]
    next_of = Counter[str]()
    for number in range(ROUNDS):
        trace = warpline.open(tmp_path / f"run{number}.warpline")
        found = numbers_of(trace)
        for thread, numbers in found.items():
            # One after the other, none twice and none left out, all after the last recording.
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert numbers[0] >= next_of[thread]
            next_of[thread] = numbers[-1] + 1
        table = trace["range"]
        inner = table.filter(table["name"] == "inner")
        outer = sum(len(numbers) for thread, numbers in found.items() if thread[0] == "t")
        # A thread may be within its outer range when recording begins or ends.
        assert abs(len(inner) - outer) <= 4
        assert trace.meta.lost == {}
        assert trace["diagnostic"]["text"].to_list() == [f"NVTX is recorded: {program}"]
    assert len(counts) == 4
    for number, count in enumerate(counts):
        assert 0 < next_of[f"t{number}"] <= count
        assert abs(next_of[f"t{number}"] - next_of[f"s{number}"]) <= 1
