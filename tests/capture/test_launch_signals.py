"""Signals to ``warpline profile``: the program gets its own, and the recording is written."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import end, environment, names, needs_agent, profile, python, start

_DEADLINE_S = 30

# Says that it is ready, then makes a range every few ms until a signal or a minute ends it.
LOOP = """
import nvtx, os, signal, sys, time
def caught(number, frame):
    print("caught", number, flush=True)
    if "count" not in sys.argv:
        sys.exit(7)
for number in map(int, os.environ.get("CATCH", "").split()):
    signal.signal(number, caught)
for number in map(int, os.environ.get("IGNORE", "").split()):
    signal.signal(number, signal.SIG_IGN)
nvtx.push_range("first")
nvtx.pop_range()
print("ready", flush=True)
end = time.monotonic() + float(os.environ.get("SECONDS", "60"))
while time.monotonic() < end:
    with nvtx.annotate("step"):
        time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def _agent():
    needs_agent()


@pytest.fixture
def loop(tmp_path) -> list[str]:
    return python(tmp_path, LOOP)


def ready(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """Wait until the program runs."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_us_is_passed_on(tmp_path, loop, number):
    process = ready(start(tmp_path, ["-q", "-o", "run", *loop]))
    process.send_signal(number)
    found = end(process)
    assert found.status == -number
    assert names(tmp_path / "run.warpline")[0] == "first"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_may_answer_a_signal_as_it_likes(tmp_path, loop, number):
    process = start(tmp_path, ["-q", "-o", "run", *loop], more={"CATCH": str(int(number))})
    ready(process).send_signal(number)
    found = end(process)
    assert (found.status, found.out) == (7, f"caught {int(number)}\n")
    assert (tmp_path / "run.warpline").exists()


def test_user_signals_are_passed_on_and_mean_nothing_to_us(tmp_path, loop):
    more = {"CATCH": str(int(signal.SIGUSR1)), "SECONDS": "1.5"}
    process = ready(start(tmp_path, ["-q", *loop, "count"], more=more))
    process.send_signal(signal.SIGUSR1)
    found = end(process)
    assert (found.status, found.out) == (0, f"caught {int(signal.SIGUSR1)}\n")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGKILL)]
)
def test_a_second_signal_kills(tmp_path, loop, number, status):
    more = {"IGNORE": f"{int(signal.SIGINT)} {int(signal.SIGTERM)}"}
    process = ready(start(tmp_path, ["-q", "-o", "run", *loop], more=more))
    process.send_signal(number)
    time.sleep(0.4)
    assert process.poll() is None
    process.send_signal(number)
    assert end(process).status == status
    assert names(tmp_path / "run.warpline")[0] == "first"


def test_the_same_signal_twice_at_once_is_one(tmp_path, loop):
    """As `timeout` sends it: to the process, and to its group."""
    more = {"IGNORE": str(int(signal.SIGTERM)), "SECONDS": "0.8"}
    process = ready(start(tmp_path, ["-q", *loop], more=more))
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert end(process).status == 0


@pytest.mark.slow
def test_a_program_that_outlives_its_end_is_told_of(tmp_path, loop):
    more = {"IGNORE": str(int(signal.SIGTERM)), "SECONDS": "5"}
    found = end(start(tmp_path, ["-d", "0.5", "--no-summary", *loop], more=more))
    assert found.status == 0
    assert "note: the program is still running after SIGTERM (press Ctrl-C twice" in found.err


NOHUP = ["sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_that_was_ignored_stays_so(tmp_path, loop, number):
    """As under nohup, and for the background jobs of a script."""
    process = start(tmp_path, ["-q", "-o", "run", *loop], more={"SECONDS": "0.8"}, through=NOHUP)
    ready(process).send_signal(number)
    assert end(process).status == 0
    assert len(names(tmp_path / "run.warpline")) > 10  # it was recorded to its end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_that_was_ignored_is_passed_on_to_a_handler(tmp_path, loop, number):
    """And a second one does not kill, as it would if the first had asked us to end."""
    more = {"CATCH": str(int(number)), "SECONDS": "1.5"}
    process = ready(start(tmp_path, ["-q", *loop, "count"], more=more, through=NOHUP))
    process.send_signal(number)
    assert process.stdout is not None
    assert process.stdout.readline() == f"caught {int(number)}\n"
    time.sleep(0.4)
    process.send_signal(number)
    found = end(process)
    assert (found.status, found.out) == (0, f"caught {int(number)}\n")


# --- On a terminal -------------------------------------------------------------------------------


class Terminal:
    """``warpline profile`` on a terminal of its own, 24 rows by 80 columns."""

    def __init__(self, folder: Path, words: list[str], **more: str) -> None:
        self.shown = ""
        self._pid, self._handle = pty.fork()
        if self._pid == 0:
            try:
                os.chdir(folder)
                command = [sys.executable, "-m", "warpline", "profile", *words]
                os.execve(sys.executable, command, environment(**{"TERM": "xterm", **more}))
            finally:
                os._exit(99)

    def wait_for(self, text: str, *, times: int = 1) -> None:
        """Read until a text has been shown so many times."""
        deadline = time.monotonic() + _DEADLINE_S
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._handle], [], [], 0.1)[0]:
                self.shown += os.read(self._handle, 65536).decode()

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self._handle, keys.encode())

    def end(self) -> int:
        """Read to the end; return the status as subprocess would."""
        try:
            while part := os.read(self._handle, 65536):
                self.shown += part.decode()
        except OSError:
            pass  # how a terminal without programs ends
        os.close(self._handle)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@pytest.fixture
def terminal(tmp_path, loop) -> Callable[..., Terminal]:
    def open_terminal(*words: str, **more: str) -> Terminal:
        import fcntl
        import struct
        import termios

        found = Terminal(tmp_path, [*words, *loop], **more)
        fcntl.ioctl(found._handle, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        return found

    return open_terminal


def test_ctrl_c_is_the_programs_once(terminal, tmp_path):
    found = terminal("--no-summary", "-o", "run", CATCH=str(int(signal.SIGINT)))
    found.wait_for("ready")
    found.type("\x03")
    assert found.end() == 7
    assert found.shown.count("caught 2") == 1
    assert "wrote run.warpline" in found.shown
    assert (tmp_path / "run.warpline").exists()


def test_ctrl_c_twice_kills(terminal):
    found = terminal("--no-summary", IGNORE=str(int(signal.SIGINT)))
    found.wait_for("ready")
    found.type("\x03")
    found.wait_for("recording has stopped; waiting for the program (press Ctrl-C to kill it")
    found.type("\x03")
    assert found.end() == -signal.SIGINT
    assert "wrote " in found.shown


def test_the_status_line_has_a_row_of_its_own(terminal):
    found = terminal(SECONDS="1.9")
    found.wait_for("warpline: recording")
    status = found.end()
    assert status == 0
    assert "\x1b[1;23r\x1b[24;1H\x1b[2K" in found.shown  # rows 1 to 23 scroll, row 24 is ours
    line = found.shown.split("warpline: recording")[1].split("\x1b")[0]
    assert " events  " in line
    assert "1 process" in line
    given_back = found.shown.rindex("\x1b[r")
    assert "warpline: recording" not in found.shown[given_back:]
    assert "warpline: writing recording" in found.shown[given_back:]
    assert "next: warpline stats report1.warpline" in found.shown[given_back:]


def test_quiet_means_quiet_on_a_terminal(terminal):
    found = terminal("-q", SECONDS="1.3")
    assert found.end() == 0
    assert found.shown.replace("\r\n", "\n") == "ready\n"


def test_a_dumb_terminal_gets_no_escape_sequences(terminal):
    found = terminal("--no-summary", SECONDS="1.3", TERM="dumb")
    assert found.end() == 0
    assert "\x1b" not in found.shown


def test_stopping_and_going_on(terminal, tmp_path):
    """Ctrl-Z gives the terminal's row back; the program goes on when we do."""
    found = terminal("--no-summary", "-o", "run", SECONDS="2.2")
    found.wait_for("warpline: recording")
    before = found.shown.count("\x1b[r")
    os.kill(found._pid, signal.SIGTSTP)
    found.wait_for("\x1b[r", times=before + 1)
    os.kill(found._pid, signal.SIGCONT)
    assert found.end() == 0
    assert (tmp_path / "run.warpline").exists()


def test_nobody_listens_and_all_is_recorded(tmp_path, loop):
    """Standard output and error end in pipes that are closed."""
    words = [sys.executable, "-m", "warpline", "profile", "-o", "run", "--stats", "true", "true"]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=_DEADLINE_S) == 0
    assert (tmp_path / "run.warpline").exists()
    assert profile(tmp_path, "-q", "true").status == 0
