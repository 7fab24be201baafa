"""``-t osrt``: calls of the C library are recorded, and the program behaves as it does alone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections import Counter

import pytest
from processes.conftest import PROGRAMS

import warpline
from warpline.capture.machine.agent import agent_library
from warpline.capture.session.preload import SHIM

FLAGS = ("-t", "osrt", "--gpu-health=off")
# They sleep or wait whenever the program calls them.
WAITS = {
    "usleep",
    "sleep",
    "nanosleep",
    "poll",
    "sem_timedwait",
    "pthread_mutex_lock",
    "pthread_cond_timedwait",
    "waitpid",
    "system",
}


@pytest.fixture(scope="module")
def os_calls(tmp_path_factory):
    if not agent_library().with_name(SHIM).is_file():
        pytest.skip("the native libraries are not built")
    program = tmp_path_factory.mktemp("os_calls") / "os_calls"
    source = PROGRAMS / "os_calls.c"
    build = [os.environ.get("CC", "cc"), "-O1", "-Wall", source, "-o", program, "-pthread", "-lrt"]
    subprocess.run(build, check=True)
    return str(program)


def recorded(lab, command, *flags):
    """Record a command, which must behave as it does alone; return the rows of os_call."""
    alone = lab.alone(command)
    run = lab.profile(command, flags=[*FLAGS, *flags])
    assert (run.status, run.stdout) == (alone.status, alone.stdout)
    trace = warpline.open(lab.output)
    assert not any(trace.meta.lost.values())
    return trace, list(trace["os_call"].iter_rows(named=True))


def frames_of(trace, stack_id):
    """Return the rows of frame of a stack, innermost first."""
    stacks, frames, found = trace["stack"], trace["frame"], []
    while stack_id is not None:
        stack = stacks.row(stack_id, named=True)
        found.append(frames.row(stack["frame_id"], named=True))
        stack_id = stack["parent_id"]
    return found


def waits(rows, process=0):
    """Count the waits of a process by name, return value and nesting."""
    return Counter(
        (row["name"], row["return_value"], row["nesting_level"])
        for row in rows
        if row["process_id"] == process and row["name"] in WAITS
    )


def test_each_kind_of_wait_is_recorded_with_its_result(lab, os_calls):
    _, rows = recorded(lab, [os_calls, "kinds"])
    assert waits(rows) == {
        ("nanosleep", 0, 0): 2,  # before main and after it
        ("usleep", 0, 0): 6,
        ("poll", 0, 0): 1,
        ("sem_timedwait", -1, 0): 1,
        ("pthread_mutex_lock", 0, 0): 1,
        ("pthread_cond_timedwait", 110, 0): 2,
    }


def test_processes_have_their_own_calls(lab, os_calls):
    trace, rows = recorded(lab, [os_calls, "forks"])
    pids = trace["process"]["pid"].to_list()
    assert len(set(pids)) >= 4
    found = waits(rows)
    # The child of vfork slept in its parent's memory.
    assert ("usleep", 0, 0) not in found
    assert found[("waitpid", pids[1], 0)] == 1
    assert found[("system", 5 << 8, 0)] == 1
    assert waits(rows, process=1)[("usleep", 0, 0)] == 1


def test_calls_of_cancelled_threads_are_recorded(lab, os_calls):
    _, rows = recorded(lab, [os_calls, "cancel"])
    found = waits(rows)
    assert found[("sleep", 0, 0)] == 1
    assert found[("usleep", 0, 0)] == 2
    assert [row["return_value"] for row in rows if row["name"] == "read"] == [0]


def test_handlers_may_jump_out_of_calls(lab, os_calls):
    _, rows = recorded(lab, [os_calls, "jumps"])
    assert waits(rows) == {("nanosleep", 0, 0): 2, ("usleep", 0, 0): 3}


def test_calls_of_handlers_are_nested(lab, os_calls):
    _, rows = recorded(lab, [os_calls, "handlers"])
    assert waits(rows) == {("nanosleep", 0, 0): 2, ("poll", -1, 0): 3, ("usleep", 0, 1): 3}


def test_threads_lose_nothing(lab, os_calls):
    _, rows = recorded(lab, [os_calls, "threads"])
    assert waits(rows)[("usleep", 0, 0)] == 200


def test_shorter_calls_are_left_out(lab, os_calls):
    _, rows = recorded(lab, [os_calls, "kinds"], "--osrt-threshold=10000000")
    assert "pthread_mutex_lock" in {row["name"] for row in rows}
    assert min(row["end_ns"] - row["start_ns"] for row in rows) >= 10_000_000


def test_long_calls_have_the_line_of_python(lab):
    (lab.folder / "naps.py").write_text(
        "import time\n\n\ndef nap():\n    time.sleep(0.01)\n\n\nnap()\n"
    )
    trace, rows = recorded(lab, [sys.executable, str(lab.folder / "naps.py")])
    (sleep,) = (row for row in rows if row["name"].endswith("nanosleep") or row["name"] == "select")
    frames = frames_of(trace, sleep["stack_id"])
    lines = [(frame["symbol"], frame["line"]) for frame in frames if frame["kind"] == "Python"]
    assert lines == [("nap", 5), ("<module>", 8)]


def test_the_interpreter_may_free_its_frames(lab):
    """It unmaps memory of a generator's frame while the thread's state still points there."""
    (lab.folder / "deep.py").write_text(
        "def generate(a, b, c):\n    yield a, b, c\n\n\n"
        "def deep(left):\n    return deep(left - 1) if left else generate(1, 2, 3)\n\n\n"
        "for depth in range(600):\n    deep(depth)\n"
    )
    program = [sys.executable, str(lab.folder / "deep.py")]
    _, rows = recorded(lab, program, "--osrt-threshold=0", "--osrt-backtrace-threshold=1")
    assert any(row["name"] == "munmap" for row in rows)


LIBC = tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2] if part.isdigit())


@pytest.mark.skipif(LIBC < (2, 35), reason="the C library has no look-up of modules without a lock")
@pytest.mark.parametrize("holder", ["iterate", "constructor"])
def test_backtraces_do_not_wait_for_the_loader(lab, tmp_path, holder):
    """Another thread may hold the loader's lock and wait for one that the call's thread has."""
    compiler = os.environ.get("CC", "cc")
    program, library = tmp_path / "loader_locks", tmp_path / "liblate.so"
    source = PROGRAMS / "loader_locks.c"
    flags = ("-O1", "-Wall", "-rdynamic", "-pthread")
    subprocess.run([compiler, *flags, source, "-o", program, "-ldl"], check=True)
    late = tmp_path / "late.c"
    late.write_text(
        "void in_constructor(void);\n"
        "__attribute__((constructor)) static void begin(void) { in_constructor(); }\n"
    )
    subprocess.run([compiler, "-shared", "-fPIC", late, "-o", library], check=True)
    how = "iterate" if holder == "iterate" else str(library)
    trace, rows = recorded(lab, [str(program), how], "--osrt-backtrace-threshold=1000000")
    (nap,) = (row for row in rows if row["name"] == "usleep")
    functions = [frame["symbol"] for frame in frames_of(trace, nap["stack_id"])]
    assert functions[:2] == ["nap_with_lock", "main"]
    if holder == "constructor":  # a module that was not there when the program began
        (lock,) = (row for row in rows if row["name"] == "pthread_mutex_lock")
        modules = [frame["module"] for frame in frames_of(trace, lock["stack_id"])]
        assert str(library) in modules
    assert lab.alone([str(program), how]).stdout == b"slept\njoined\n"
