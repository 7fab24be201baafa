"""A range that is open when its process dies, or when recording stops, ends there.

Times are compared with those that the programs and the test noted themselves, on the same clock.
Lower bounds are exact; upper ones allow for a machine that is busy with other things.
"""

from __future__ import annotations

import io
import os
import signal
import time
from pathlib import Path

import pytest
from processes.conftest import Laboratory, Recording, wait_until

import warpline
from warpline.capture.machine import processes
from warpline.capture.session.control import ControlFile
from warpline.capture.session.exits import read_exits
from warpline.capture.session.facts import read_facts
from warpline.render import Options
from warpline.render.diagnosis.text import render as render_diagnosis
from warpline.render.screen import render
from warpline.result import Diagnosis, describe_meta
from warpline.trace import ProcessEnd

LATE_NS = 10_000_000_000  # by how much a busy machine may be late


def noted_ns(lab: Laboratory, name: str) -> int:
    """Return a time that the program noted."""
    return int(Path(f"{lab.ledger}.{name}").read_text())


def times_ns(recording: Recording, name: str) -> tuple[int, int]:
    """Return when the one range of a name began and ended, from the origin."""
    ranges = recording.trace["range"]
    ((start, end),) = ranges.filter(ranges["name"] == name).select("start_ns", "end_ns").rows()
    return start, end


def how_it_ended(recording: Recording) -> str | None:
    """Return what summary and analyze say first."""
    found: str | None = describe_meta(recording.trace)["ended"]
    return found


def end_of(recording: Recording) -> ProcessEnd:
    """Return the one end that is told."""
    (end,) = recording.trace.meta.ends
    return end


def hang_and_kill(lab: Laboratory, way: str = "hang") -> tuple[Recording, int]:
    """Profile a program, kill it as it hangs, and return when that was."""
    launcher = lab.start(lab.profiled(lab.program("hangs", way)))
    lab.wait_for("ready")
    (pid,) = processes.descendants(launcher.pid)
    killed_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    run = lab.end(launcher)
    assert run.status == -signal.SIGKILL, run.said
    return run.recording, killed_ns


def check_times(lab: Laboratory, found: Recording, died_ns: int, name: str = "step_1") -> None:
    """Check that the range was open for as long as it really was."""
    start, end = times_ns(found, name)
    opening_ns, opened_ns = noted_ns(lab, "opening"), noted_ns(lab, "opened")
    assert died_ns - opened_ns <= end - start <= died_ns - opening_ns + LATE_NS
    assert found.truncated() == [name]


def test_a_hang_that_is_killed(lab):
    found, killed_ns = hang_and_kill(lab)
    check_times(lab, found, killed_ns)
    end = end_of(found)
    assert (end.cause, end.signal, end.path) == ("killed", "SIGKILL", ("step_1",))
    assert end.is_program
    assert (end.opened_ns, end.ended_ns) == times_ns(found, "step_1")
    said = how_it_ended(found)
    assert said is not None
    assert said.startswith("The program was killed (SIGKILL) in `step_1`, open for ")
    for shown in (warpline.summary(found.trace), warpline.analyze(found.trace)):
        out = io.StringIO()
        (render_diagnosis if isinstance(shown, Diagnosis) else render)(shown, out, Options())
        assert out.getvalue().splitlines()[1] == f"  {said}"


@pytest.mark.parametrize(
    ("way", "cause", "how", "said"),
    [
        ("segfault", "crashed", "SIGSEGV", "The program crashed (SIGSEGV) in `step_1`, open for "),
        ("abort", "crashed", "SIGABRT", "The program crashed (SIGABRT) in `step_1`, open for "),
        ("exit_at_once", "exited", 3, "The program exited with status 3 in `step_1`, open for "),
    ],
)
def test_other_ways_to_die(lab, way, cause, how, said):
    found = lab.profile(lab.program("hangs", way)).recording
    check_times(lab, found, noted_ns(lab, "died"))
    end = end_of(found)
    assert (end.cause, end.signal or end.exit_status) == (cause, how)
    assert (how_it_ended(found) or "").startswith(said)


def test_a_range_that_is_never_popped_is_no_death(lab):
    run = lab.profile(lab.program("hangs", "forget"))
    assert run.status == 0
    assert run.recording.truncated() == ["step_1"]
    assert end_of(run.recording).cause == "exited"
    assert how_it_ended(run.recording) is None
    assert run.recording.warnings == ""


def test_a_hang_at_the_end_of_the_duration(lab):
    run = lab.profile(lab.program("hangs", "hang"), flags=["-d", "2"])
    found = run.recording
    start, end = times_ns(found, "step_1")
    assert end == found.trace.meta.span_ns[1]  # when recording stopped
    assert 2e9 <= end <= 2e9 + LATE_NS
    assert end_of(found).cause == "stopped"
    is_silent = end - (end_of(found).last_event_ns or end) >= 1_000_000_000
    said = how_it_ended(found)  # a program may take long to start
    assert (said is not None) is is_silent
    assert said is None or said.startswith("Recording stopped at the end of -d in `step_1`, open")
    assert end > start


def test_several_threads(lab):
    found, _ = hang_and_kill(lab, "with_threads")
    ends = {name: times_ns(found, name)[1] for name in ("run", "step_1", "waiting", "left")}
    assert ends["run"] == ends["step_1"] == ends["waiting"]
    # The thread that ended took its range with it.
    assert ends["left"] < times_ns(found, "run")[0]
    end = end_of(found)
    assert (end.path, end.tid, end.open_ranges) == (("run", "step_1"), end.pid, 4)
    assert " in `run/step_1`, open for " in (how_it_ended(found) or "")


def test_a_child_that_is_killed_says_so_for_itself_alone(lab):
    launcher = lab.start(lab.profiled(lab.program("hangs", "with_child")))
    lab.wait_for("child")
    child = int(Path(f"{lab.ledger}.child").read_text())
    control = ControlFile.open(lab.raw)
    wait_until(lambda: control.heartbeat_ns > noted_ns(lab, "opened"), "a look at the child")
    killed_ns = time.monotonic_ns()
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: [e.pid for e in read_exits(lab.raw)] == [child], "the note of its end")
    lab.tell("reap")
    control.close()
    run = lab.end(launcher)
    assert run.status == 0, run.said
    check_times(lab, run.recording, killed_ns)
    end = end_of(run.recording)
    assert (end.pid, end.is_program, end.cause, end.signal) == (child, False, "killed", "SIGKILL")
    said = how_it_ended(run.recording) or ""
    assert said.startswith(f"Process {child} was killed (SIGKILL) in `step_1`, open for ")
    after = times_ns(run.recording, "after")
    assert after[0] >= end.ended_ns


def test_another_program_in_the_same_process(lab):
    run = lab.profile(lab.program("hangs", "become"))
    assert run.status == 0, run.said
    check_times(lab, run.recording, noted_ns(lab, "died"))
    assert times_ns(run.recording, "step_1")[1] <= times_ns(run.recording, "of the next program")[0]
    assert end_of(run.recording).cause == "replaced"
    assert how_it_ended(run.recording) is None


def test_launcher_and_program_killed(lab):
    """The range ends when the launcher last saw the program alive."""
    launcher = lab.start(lab.profiled(lab.program("hangs", "hang")))
    lab.wait_for("ready")
    (pid,) = processes.descendants(launcher.pid)
    control = ControlFile.open(lab.raw)
    wait_until(lambda: control.heartbeat_ns > noted_ns(lab, "opened"), "a look at the program")
    launcher.kill()
    launcher.wait()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes.is_alive(pid), "the program's death")
    heartbeat_ns, began_ns = control.heartbeat_ns, read_facts(lab.raw)["started_monotonic_ns"]
    control.close()
    recovered = lab.recover()
    assert recovered.status == 0, recovered.said
    found = lab.read("run.warpline")
    start, end = times_ns(found, "step_1")
    assert end == heartbeat_ns - began_ns
    assert start + began_ns < noted_ns(lab, "opened") < end + began_ns
    assert end_of(found).cause == "unwatched"
    said = how_it_ended(found) or ""
    assert said.startswith("Recording was cut off in `step_1`, open for at least ")
