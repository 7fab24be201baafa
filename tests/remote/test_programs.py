"""``warpline profile --host`` with a real ssh: the program cannot tell, nor can its user."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.launching import names, until
from support.machines import HOST, Machine

PROGRAM = """\
import json, os, sys
from warpline import annotate
with annotate("step"):
    said = sys.stdin.read()
told = {"args": [os.fsencode(word).hex() for word in sys.argv[1:]], "directory": os.getcwd(),
        "value": os.environ.get("WORD"), "said": said, "terminal": os.isatty(1),
        "path": os.environ.get("PYTHONPATH")}
print(json.dumps(told), flush=True)
print("to stderr", file=sys.stderr)
sys.exit(3)
"""
# Ranges until it is told to end; then it ends as it wants to.
ENDLESS = """\
import pathlib, signal, sys, time
from warpline import annotate
def end(*_):
    print("ended by itself", flush=True)
    sys.exit(5)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with annotate("step"):
    pass
pathlib.Path("begun").touch()
while not pathlib.Path("enough").exists():
    time.sleep(0.01)
"""
WORDS = [
    "a b",
    "",
    "it's",
    '"',
    "$HOME `id` $(id)",
    "two\nlines\t",
    "\\",
    "ü☃",
    "*",
    "~",
    "-x",
    "!",
]


@pytest.fixture
def program(machine: Machine) -> list[str]:
    """The command that runs `PROGRAM` there; it finds Warpline as users' programs do."""
    return python_there(machine, PROGRAM)


def python_there(machine: Machine, code: str) -> list[str]:
    """Write a program to a directory there, and return the command that runs it."""
    folder = machine.home / "my project"
    folder.mkdir(exist_ok=True)
    for name in ("begun", "enough"):
        (folder / name).unlink(missing_ok=True)
    source = str(Path(sys.modules["warpline"].__file__ or "").parents[1])
    text = f"import sys\nsys.path.insert(0, {source!r})\n{code}"
    (folder / "program.py").write_text(text, encoding="utf-8")
    return ["--host-dir", "my project", "--", sys.executable, "-I", "program.py"]


def told(out: str) -> dict[str, object]:
    """Return what the program said; what login shells say comes first, as with ssh."""
    found: dict[str, object] = json.loads(out.splitlines()[-1])
    return found


def test_the_program_has_its_words_streams_and_status(machine, program):
    options = ["-e", "WORD=a=b c", "--no-summary", "-o", "%h.%p.%q{WORD}", "--force-overwrite"]
    found = machine.profile(*options, *program, *WORDS, os.fsdecode(b"\xff\xfe"), given="given\n")
    assert found.status == 3
    said = told(found.out)
    assert said == {
        "args": [word.encode().hex() for word in WORDS] + ["fffe"],
        "directory": str(machine.home / "my project"),
        "value": "a=b c",
        "said": "given\n",
        "terminal": False,
        "path": None,
    }
    assert "to stderr" in found.err.splitlines()
    (written,) = machine.local.glob("*.warpline")
    assert written.name.startswith(f"{os.uname().nodename}.")
    assert written.name.endswith(".a=b c.warpline")
    assert f"note: wrote {written.name}" in found.err.splitlines()
    assert names(written) == ["step"]
    written.unlink()


@pytest.mark.slow
def test_a_program_that_does_not_exist_is_told_as_at_home(machine):
    found = machine.profile("-o", "nothing", "--", "no-such-program")
    assert found.status == 127
    assert found.err.splitlines()[-1] == "error: far: no-such-program: command not found"
    assert not (machine.local / "nothing.warpline").exists()


def test_what_would_fail_in_the_end_fails_before(machine):
    (machine.local / "taken.warpline").touch()
    found = machine.profile("-o", "taken", "--", "touch", "has-run")
    assert found.status == 2
    assert "taken.warpline already exists" in found.err
    assert not (machine.home / "has-run").exists()


def interrupted(machine: Machine, process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C once the program runs."""
    until((machine.home / "my project/begun").exists)
    os.killpg(process.pid, signal.SIGINT)


def test_ctrl_c_without_a_terminal_ends_the_program_only(machine):
    cache = machine.home / ".cache/warpline"
    before = [path.name for path in cache.iterdir()] if cache.exists() else []
    words = python_there(machine, ENDLESS)
    process = machine.start("profile", "--host", HOST, "-t", "nvtx", "-f", "-o", "int", *words)
    interrupted(machine, process)
    out, err = process.communicate(timeout=60)
    assert (out.splitlines()[-1], process.returncode) == ("ended by itself", 5), err
    assert names(machine.local / "int.warpline") == ["step"]
    assert "\nint.warpline\n" in err  # the summary, of the file that is here
    after = [path.name for path in cache.iterdir()]
    assert len(after) == 1  # nothing unfinished either
    assert ("note: copied Warpline to far (" in err) is (after != before)


@pytest.mark.slow
def test_a_terminal_here_is_one_there(machine):
    words = python_there(machine, ENDLESS)
    terminal, inner = pty.openpty()
    code = "import os, pty, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-m", "warpline", "profile", "--host", HOST, "-t", "nvtx", "-f"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command, "-q", "-o", "tty", *words],
        cwd=machine.local,
        env=machine.variables(TERM="dumb"),
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    until((machine.home / "my project/begun").exists)
    os.write(terminal, b"\x03")
    said = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            said += os.read(terminal, 4096)
        except OSError:  # its other end is closed
            break
    os.close(terminal)
    assert process.wait(timeout=60) == 5, said
    assert b"ended by itself" in said
    assert names(machine.local / "tty.warpline") == ["step"]


def test_a_lost_connection_leaves_the_recording_there(machine):
    words = python_there(machine, ENDLESS)
    process = machine.start("profile", "--host", HOST, "-t", "nvtx", "-q", "-o", "lost", *words)
    until((machine.home / "my project/begun").exists)
    for pid in machine.connections():
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: the connection to far was lost; the program goes on there" in err.splitlines()
    (folder,) = machine.jobs()
    hint = f"hint: when it has ended, scp '{HOST}:{folder}/*.warpline' . copies the recording"
    assert hint in err.splitlines()
    assert not (machine.local / "lost.warpline").exists()
    (machine.home / "my project/enough").touch()
    until((folder / "outcome.json").exists)
    assert names(folder / "recording.warpline") == ["step"]
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_killed_launcher_leaves_what_can_be_recovered(machine):
    words = python_there(machine, ENDLESS)
    process = machine.start("profile", "--host", HOST, "-t", "nvtx", "-o", "killed", "-f", *words)
    until((machine.home / "my project/begun").exists)
    (folder,) = machine.jobs()
    os.kill(int((folder / "launcher.pid").read_text()), signal.SIGKILL)
    (machine.home / "my project/enough").touch()  # the program goes on, and so does its output
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: far: the process that records was killed" in err.splitlines()
    hint = err.splitlines()[-1].removeprefix("hint: ").partition(" writes what there is;")[0]
    command = hint.replace("ssh far", f"{machine.ssh} far")
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert names(folder / "recording.warpline") == ["step"]
    shutil.rmtree(folder)
