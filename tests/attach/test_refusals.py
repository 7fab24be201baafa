"""What cannot be attached to is refused, with the cause and what to do."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attach.conftest import Compile

from warpline.capture.attaching.injecting import Attacher
from warpline.capture.attaching.refusals import obstacle, rights
from warpline.errors import CaptureError

OWN, OTHER = os.getuid(), os.getuid() + 1
ALL = "000001ffffffffff"
MAPS = (
    "7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /usr/lib/libc.so.6\n"
    "7f0000002000-7f0000003000 r-xp 00000000 08:01 2 /usr/lib/ld-linux-x86-64.so.2\n"
)


@contextmanager
def running(*command: str | Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that sleeps, and end it."""
    child = subprocess.Popen(command, env={**os.environ, **environment})
    name = Path(command[0]).name.encode()
    while name[:15] not in Path(f"/proc/{child.pid}/comm").read_bytes():
        time.sleep(0.001)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def process(root: Path, pid: int, maps: str = MAPS, environ: str = "", **status: str) -> Path:
    """Write what /proc has of a process, and of us; returns the root."""
    mine = {"Uid": f"{OWN} {OWN} {OWN} {OWN}", "CapEff": "0", "CapPrm": "0"}
    its = {"State": "S (sleeping)", "Tgid": str(pid), "TracerPid": "0", **mine, **status}
    if its.pop("own_seccomp", ""):
        mine["Seccomp"] = "2"
    mine["CapEff"] = its.pop("own_capabilities", "0")
    for name, fields in (("self", mine), (str(pid), its)):
        folder = root / "proc" / name
        folder.mkdir(parents=True)
        text = "".join(f"{key}:\t{value}\n" for key, value in fields.items())
        (folder / "status").write_text(text)
    folder = root / "proc" / str(pid)
    (folder / "stat").write_text(f"{pid} (a b) S 1 1 1 0 -1 4194304 0 0")
    (folder / "maps").write_text(maps)
    (folder / "environ").write_text(environ)
    (folder / "exe").symlink_to(sys.executable)
    return root


def cause(root: Path, number: int = 0) -> str:
    found = obstacle(7, lambda _: number, root)
    assert found is None or found.cure
    return "" if found is None else found.cause


def test_nothing_stands_in_the_way_of_a_usual_program(tmp_path: Path) -> None:
    assert cause(process(tmp_path, 7)) == ""


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"State": "Z (zombie)"}, "it has ended"),
        ({"State": "T (stopped)"}, "it is stopped"),
        ({"Tgid": "5"}, "it is a thread of process 5"),
        ({"Seccomp": "1"}, "its sandbox (strict seccomp) forbids it"),
        ({"TracerPid": "9"}, "another program (process 9) traces it already"),
    ],
)
def test_states(tmp_path: Path, status: dict[str, str], expected: str) -> None:
    assert cause(process(tmp_path, 7, **status)) == expected


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ("/lib/ld-musl-x86_64.so.1", "it uses musl"),
        ("/opt/nsys/libToolsInjection64.so", "Nsight Systems is loaded into it"),
        ("/opt/ncu/libcuda-injection.so", "Nsight Compute is loaded into it"),
        ("/usr/lib/libtsan.so.2", "it was built with ThreadSanitizer"),
    ],
)
def test_libraries(tmp_path: Path, maps: str, expected: str) -> None:
    line = f"7f0000004000-7f0000005000 r-xp 00000000 08:01 3 {maps}\n"
    assert cause(process(tmp_path, 7, MAPS + line)) == expected


def test_a_c_library_that_was_replaced(tmp_path: Path) -> None:
    root = process(tmp_path, 7, MAPS.replace("libc.so.6", "libc.so.6 (deleted)"))
    assert "replaced by an update" in cause(root)


def test_no_c_library(tmp_path: Path) -> None:
    assert "no glibc" in cause(process(tmp_path, 7, MAPS.replace("libc.so.6", "libother.so")))


@pytest.mark.parametrize("variable", ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"])
def test_another_profiler_in_the_environment(tmp_path: Path, variable: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    other = process(tmp_path / "a", 7, environ=f"A=1\0{variable}=/opt/libother.so\0")
    assert cause(other) == f"it was started with another profiler ({variable}=/opt/libother.so)"
    ours = process(tmp_path / "b", 7, environ=f"{variable}=/x/libwarpline_agent.so\0")
    assert cause(ours) == ""


def test_a_process_that_warpline_records(tmp_path: Path) -> None:
    line = "7f0000004000-7f0000005000 r-xp 00000000 08:01 3 /x/libwarpline_agent.so\n"
    root = process(tmp_path, 7, MAPS + line, "WARPLINE_SESSION=/tmp/s\0")
    assert cause(root) == "Warpline records it already"


@pytest.mark.parametrize(
    ("level", "expected"), [("1", "its own children"), ("2", "nothing without"), ("3", "switched")]
)
def test_yama(tmp_path: Path, level: str, expected: str) -> None:
    root = process(tmp_path, 7)
    (root / "proc/sys/kernel/yama").mkdir(parents=True)
    (root / "proc/sys/kernel/yama/ptrace_scope").write_text(f"{level}\n")
    found = obstacle(7, lambda _: errno.EPERM, root)
    assert found is not None
    assert expected in found.cause
    assert found.is_about_rights


def test_yama_is_no_obstacle_with_the_capability(tmp_path: Path) -> None:
    root = process(tmp_path, 7, own_capabilities=ALL)
    (root / "proc/sys/kernel/yama").mkdir(parents=True)
    (root / "proc/sys/kernel/yama/ptrace_scope").write_text("1\n")
    assert "security module" in rights(7, errno.EPERM, root).cause


def test_other_reasons_for_a_refusal(tmp_path: Path) -> None:
    for name, status, expected in (
        ("user", {"Uid": f"{OTHER} {OTHER} {OTHER} {OTHER}"}, "it belongs to"),
        ("more", {"CapPrm": ALL}, "it has more rights than you"),
        ("seccomp", {"own_seccomp": "yes"}, "this container does not allow ptrace (seccomp)"),
    ):
        root = process(tmp_path / name, 7, **status)
        assert expected in rights(7, errno.EPERM, root).cause


def test_real_processes(attacher: Attacher, counted: Path, tmp_path: Path) -> None:
    def refusal(pid: int) -> str:
        with pytest.raises(CaptureError) as raised:
            attacher.inject(pid, counted, "counted", "ok")
        assert raised.value.hint
        return raised.value.message

    assert "no such process" in refusal(2**22 + 1)
    assert "Warpline itself" in refusal(os.getpid())
    with running("sleep", "60") as child:
        os.kill(child.pid, signal.SIGSTOP)
        while "T (stopped)" not in Path(f"/proc/{child.pid}/status").read_text():
            time.sleep(0.001)
        assert "it is stopped" in refusal(child.pid)
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert "it has ended" in refusal(child.pid)
    child.wait()
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    assert thread.native_id is not None
    assert f"thread of process {os.getpid()}" in refusal(thread.native_id)
    event.set()
    thread.join()


def test_a_traced_process(attacher: Attacher, counted: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    with running("sleep", "60") as child:
        tracer = subprocess.Popen(
            ["strace", "-o", "/dev/null", "-p", str(child.pid)], stderr=subprocess.DEVNULL
        )
        while "TracerPid:\t0" in Path(f"/proc/{child.pid}/status").read_text():
            time.sleep(0.001)
        with pytest.raises(CaptureError, match=r"strace \(process \d+\) traces it already"):
            attacher.inject(child.pid, counted, "counted", "ok")
        tracer.terminate()
        tracer.wait()


def test_a_static_program(attacher: Attacher, counted: Path, compile_program: Compile) -> None:
    program = compile_program("sleeps.c", "static_sleeps", "-static")
    with running(program) as child, pytest.raises(CaptureError, match="statically linked"):
        attacher.inject(child.pid, counted, "counted", "ok")


def test_ptrace_that_seccomp_forbids(attacher: Attacher, compile_program: Compile) -> None:
    """The filter is in a process that tries to attach, as in a container."""
    program = compile_program("without_ptrace.c", "without_ptrace")
    with running("sleep", "60") as child:
        code = (
            "import sys\n"
            "from warpline.capture.attaching.injecting import Attacher\n"
            f"print(Attacher().obstacle({child.pid}))"
        )
        done = subprocess.run(
            [program, sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert "this container does not allow ptrace (seccomp)" in done.stdout


def test_a_library_that_the_process_does_not_see(
    attacher: Attacher, counted: Path, tmp_path: Path
) -> None:
    with running("sleep", "60") as child:
        maps = Path(f"/proc/{child.pid}/maps")
        while "libc.so" not in maps.read_text():  # it has just begun to start
            time.sleep(0.005)
        with pytest.raises(CaptureError, match="no such file"):
            attacher.inject(child.pid, tmp_path / "none.so", "counted", "ok")
        with pytest.raises(CaptureError, match="undefined symbol: none"):
            attacher.inject(child.pid, counted, "none", "ok")
        text = tmp_path / "text.so"
        text.write_text("text")
        with pytest.raises(CaptureError, match=r"text\.so"):
            attacher.inject(child.pid, text, "none", "ok")
        assert attacher.inject(child.pid, counted, "counted", "ok").result == 1
