"""``warpline launch`` and the commands that steer it from another shell."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes.conftest import Laboratory, Recording

from warpline.capture.launcher import steering
from warpline.capture.session import named

WAIT_S = 60.0
ROUNDS = 20
WARPLINE = [sys.executable, "-m", "warpline"]


def wait_until(is_so):
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


class Steered:
    """A launched program that makes numbered ranges, and the commands to steer it."""

    def __init__(self, lab: Laboratory, monkeypatch) -> None:
        self.lab, self.folder = lab, lab.folder
        runtime = lab.folder / "runtime"
        runtime.mkdir()
        lab.environment["XDG_RUNTIME_DIR"] = str(runtime)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self, *flags: str, program: str = "numbered", session: str = "s1") -> None:
        (self.folder / "wanted").write_text("0")
        command = self.lab.program("steered", program, str(self.folder))
        words = [*WARPLINE, "launch", f"--session={session}", *flags, "--", *command]
        self.process = self.lab.start(words)
        self.lab.wait_for("ready")

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Warpline in another shell."""
        return subprocess.run(
            [*WARPLINE, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            cwd=self.folder,
            env=self.lab.environment,
        )

    def do(self, *words: str) -> str:
        """Run a command that succeeds; return what it printed."""
        done = self.say(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def range_up_to(self, number: int) -> None:
        """Have the program make all ranges below a number."""
        (self.folder / "new").write_text(str(number))
        (self.folder / "new").rename(self.folder / "wanted")
        wait_until(lambda: (self.folder / "done").read_text() == str(number))

    def end(self):
        (self.folder / "wanted").unlink()
        assert self.process is not None
        return self.lab.end(self.process)

    def go(self, number: int, meanwhile: tuple[str, ...] = ()) -> None:
        """Have the program record itself, and run a command meanwhile."""
        self.lab.tell(f"go {number}")
        self.lab.wait_for(f"inside {number}")
        if meanwhile:
            self.do(*meanwhile)
        self.lab.tell(f"leave {number}")
        self.lab.wait_for(f"done {number}")

    def ranges(self, name: str) -> list[int]:
        """Return the numbers of the ranges in a recording."""
        trace = Recording.read(self.folder / name).trace
        return sorted(int(text.split()[1]) for text in trace["range"]["name"].to_list())


@pytest.fixture
def steered(lab, monkeypatch):
    return Steered(lab, monkeypatch)


def test_two_recordings_have_what_was_done_in_each(steered):
    steered.launch("-t", "nvtx")
    steered.range_up_to(10)
    steered.do("start", "--session=s1", "-o", "one")
    steered.range_up_to(30)
    assert re.search(r"one\.warpline, for [\d.]+ s: recording, \d+ events", steered.do("status"))
    assert "one.warpline" in steered.do("stop", "--session=s1")
    steered.range_up_to(35)
    steered.do("start", "-o", "two")
    steered.range_up_to(60)
    steered.do("stop")
    steered.range_up_to(70)
    run = steered.end()
    assert (run.status, run.stdout) == (7, b"did 70\n")
    assert steered.ranges("one.warpline") == list(range(10, 30))
    assert steered.ranges("two.warpline") == list(range(35, 60))
    found = Recording.read(steered.folder / "two.warpline")
    assert (found.lost, found.warnings) == (0, "")
    assert found.trace["process"]["pid"].to_list() != []
    assert not list(steered.folder.glob("*.raw"))
    assert not list((steered.folder / "runtime" / "warpline").iterdir())


def test_the_programs_end_writes_the_recording_that_is_under_way(steered):
    steered.launch("-t", "nvtx")
    steered.do("start", "-o", "last")
    steered.range_up_to(20)
    run = steered.end()
    assert (run.status, run.stdout) == (7, b"did 20\n")
    assert steered.ranges("last.warpline") == list(range(20))


def test_a_launch_without_recording_leaves_nothing(steered):
    steered.launch()
    steered.range_up_to(5)
    run = steered.end()
    assert (run.status, run.stdout) == (7, b"did 5\n")
    assert not list(steered.folder.glob("*.warpline*"))


def test_cancelled_deferred_and_timed_recordings(steered):
    steered.launch("-t", "nvtx")
    steered.do("start", "-o", "cancelled")
    steered.range_up_to(5)
    steered.do("cancel")
    steered.do("start", "-o", "deferred")
    steered.range_up_to(9)
    steered.do("stop", "--defer")
    assert "not written: deferred.warpline" in steered.do("status")
    assert not (steered.folder / "deferred.warpline").exists()
    steered.do("finalize")
    assert steered.ranges("deferred.warpline") == list(range(5, 9))
    steered.do("start", "-o", "timed", "-d", "0.2")
    # The launcher writes it by itself, and the program goes on.
    wait_until((steered.folder / "timed.warpline").exists)
    steered.do("start", "-o", "at-end")
    steered.range_up_to(12)
    steered.do("stop", "--defer")
    run = steered.end()
    assert run.status == 7
    assert steered.ranges("at-end.warpline") == list(range(9, 12))
    assert not (steered.folder / "cancelled.warpline").exists()
    assert not list(steered.folder.glob("*.raw"))


def test_processes_that_began_before_the_recording(steered):
    steered.launch("-t", "nvtx", program="parent")
    wait_until(lambda: all((steered.folder / f"{n}.ready").exists() for n in ("fork", "program")))
    steered.do("start", "-o", "both")
    (steered.folder / "go").touch()
    wait_until(lambda: all((steered.folder / f"{n}.done").exists() for n in ("fork", "program")))
    steered.do("stop")
    (steered.folder / "wanted").unlink()
    assert steered.lab.end(steered.process).status == 0
    found = Recording.read(steered.folder / "both.warpline")
    assert found.totals() == {"fork recorded": 1, "program recorded": 1}


def test_a_program_that_records_itself(steered):
    steered.launch("-t", "nvtx", program="itself")
    steered.go(0)  # nobody else records
    steered.do("start", "-o", "outer")
    steered.go(1)  # in that recording
    steered.do("stop")
    steered.go(2, ("start", "-o", "late"))  # its own has begun first
    steered.do("stop")
    steered.lab.tell("end")
    run = steered.lab.end(steered.process)
    assert run.status == 0
    told = [line.partition(": ")[2] for line in run.said.splitlines() if "Warning: " in line]
    first, second = told
    own = str(steered.folder / "own1")
    assert f"already being recorded; adding {own} as a range to that recording" in first
    assert "started meanwhile; it has this process from now on" in second

    def names(file: str) -> list[str]:
        return sorted(Recording.read(steered.folder / f"{file}.warpline").totals())

    assert names("own0") == ["inside 0", "still inside 0"]
    assert names("outer") == sorted(["after 1", "inside 1", "still inside 1", own])
    assert names("own2") == ["inside 2", "still inside 2"]
    assert names("late") == ["after 2"]
    assert not (steered.folder / "own1.warpline").exists()
    assert not list(steered.folder.glob("*.raw"))


def test_a_program_is_recorded_from_its_start(steered):
    steered.launch("--start", "-o", "first", "-t", "nvtx")
    steered.range_up_to(10)
    assert "first.warpline" in steered.do("stop")
    steered.range_up_to(15)
    steered.do("start")  # with the flags of all, not those of the first
    steered.range_up_to(20)
    steered.do("stop")
    assert steered.end().status == 7
    assert steered.ranges("first.warpline") == list(range(10))
    assert steered.ranges("report1.warpline") == list(range(15, 20))


def test_flags_of_a_recording_need_a_start(steered):
    done = steered.say("launch", "-o", "one", "--", "true")
    assert (done.returncode, "-o is a flag of one recording" in done.stderr) == (2, True)
    (steered.folder / "one.warpline").touch()
    done = steered.say("launch", "--start", "-o", "one", "--", "touch", "ran")
    assert (done.returncode, "one.warpline" in done.stderr) == (2, True)
    assert not (steered.folder / "ran").exists()
    assert not list((steered.folder / "runtime" / "warpline").iterdir())
    done = steered.say("launch", "--start", "--steps", "5", "--every", "3", "--", "true")
    assert (done.returncode, "--steps 5 exceeds --every 3" in done.stderr) == (2, True)


def test_so_many_steps_end_a_recording(steered):
    (steered.folder / "flags").write_text("-o from-file --steps 3 --step-range 'range *'\n")
    steered.launch("-t", "nvtx", "--start", "--command-file", str(steered.folder / "flags"))
    steered.range_up_to(5)
    # The launcher writes it by itself, and the program goes on.
    wait_until((steered.folder / "from-file.warpline").exists)
    steered.do("start", "-o", "later", "--steps", "4", "--step-range", "range *")
    assert "waiting for the first step" in steered.do("status")
    steered.range_up_to(12)
    wait_until((steered.folder / "later.warpline").exists)
    assert steered.end().status == 7
    assert steered.ranges("from-file.warpline") == [0, 1, 2]
    assert steered.ranges("later.warpline") == [5, 6, 7, 8]
    assert "4 steps were recorded" in Recording.read(steered.folder / "later.warpline").warnings


def test_shutdown_ends_the_program(steered):
    steered.launch("-t", "nvtx")
    steered.do("start", "-o", "until-then")
    steered.range_up_to(8)
    assert "session s1 has ended" in steered.do("shutdown")
    run = steered.lab.end(steered.process)
    assert run.status in (0, -signal.SIGTERM)
    assert steered.ranges("until-then.warpline") == list(range(8))


@pytest.mark.slow
def test_many_rounds_leave_nothing_behind(steered):
    steered.launch("-t", "nvtx")
    pid = steering.status_of("s1")["pid"]

    def held():
        maps = Path(f"/proc/{pid}/maps").read_text().count("\n")
        files, threads = (len([*Path(f"/proc/{pid}/{name}").iterdir()]) for name in ("fd", "task"))
        return files, maps, threads

    counts = []
    for number in range(ROUNDS):
        output = steered.folder / f"round{number}.warpline"
        steering.start("s1", ["-o", str(output)], lambda _: None)
        steered.range_up_to(10 * number + 10)
        steering.write("s1", steering.stop("s1"), lambda _: None)
        counts.append(held())
    for number in range(ROUNDS):
        expected = list(range(10 * number, 10 * number + 10))
        assert steered.ranges(f"round{number}.warpline") == expected
    assert counts[-1][:1] + counts[-1][2:] == counts[0][:1] + counts[0][2:]
    assert counts[-1][1] - counts[0][1] <= ROUNDS + 4  # the control page of each stays mapped
    assert steered.end().status == 7


def test_what_is_refused(steered):
    assert "no session is running" in steered.say("status").stderr
    steered.launch("-t", "nvtx,osrt")
    assert "is not recording" in steered.say("stop").stderr
    assert "no session named other" in steered.say("stop", "--session=other").stderr
    done = steered.say("launch", "--session=s1", "--", "true")
    assert (done.returncode, "a session named s1 is running" in done.stderr) == (2, True)
    steered.do("start", "-o", "one")
    done = steered.say("start", "-o", "two")
    assert (done.returncode, "is recording to" in done.stderr) == (2, True)
    assert not list(steered.folder.glob("two*"))
    assert "expected letters" in steered.say("start", "--session=../s1").stderr
    assert "put" not in steered.say("start", "--no-such-flag").stdout
    steered.do("cancel")
    run = steered.end()
    assert "-t osrt is not recorded in sessions" in run.said


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\n",
        b"[]\n",
        b"{}\n",
        b'{"do": "start"}\n',
        b'{"do": 1}\n',
        b"\xff\n",
        b"[" * 5000 + b"\n",
    ],
)
def test_a_bad_request_is_answered_and_changes_nothing(steered, sent):
    steered.launch("-t", "nvtx")
    with named.connected(
        Path(steered.lab.environment["XDG_RUNTIME_DIR"]) / "warpline" / "s1"
    ) as link:
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        answer = link.recv(1 << 16)
    assert not answer or "error" in json.loads(answer)
    steered.do("start", "-o", "one")
    steered.range_up_to(3)
    steered.do("stop")
    assert steered.ranges("one.warpline") == [0, 1, 2]
    assert steered.end().status == 7


def test_a_launcher_that_was_killed_leaves_a_name_that_can_be_used(steered):
    steered.launch("-t", "nvtx")
    steered.process.kill()
    steered.process.wait()
    (steered.folder / "wanted").unlink()  # the program ends by itself
    wait_until(lambda: "no session is running" in steered.say("sessions").stderr)
    steered.launch("-t", "nvtx")
    assert steered.end().status == 7


def test_a_session_that_is_being_set_up_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = named.create_folder("s1", "program")
    seen = []
    listen = socket.socket.listen

    def listen_later(link: socket.socket, count: int) -> None:
        seen.append((named.all_names(), folder.is_dir()))
        listen(link, count)

    monkeypatch.setattr(socket.socket, "listen", listen_later)
    with named.listening(folder):
        assert seen == [([], True)]
        assert named.all_names() == ["s1"]
    assert named.all_names() == []
    assert not folder.exists()  # its launcher is gone


def test_others_cannot_have_the_directory(steered):
    (steered.folder / "runtime" / "warpline").mkdir(mode=0o777)
    (steered.folder / "runtime" / "warpline").chmod(0o777)
    done = steered.say("launch", "--", "true")
    assert (done.returncode, "not a directory of this user alone" in done.stderr) == (1, True)
