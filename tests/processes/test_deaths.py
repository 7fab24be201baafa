"""However a program ends, its events are recorded, and the shell sees its exit status."""

from __future__ import annotations

import os
import signal
import time

import pytest

from warpline.capture.machine import processes


@pytest.mark.parametrize(
    ("way", "status"),
    [
        ("nothing", 0),
        ("exit_at_once", 3),
        ("exception", 1),
        ("abort", -signal.SIGABRT),
        ("segfault", -signal.SIGSEGV),
        ("bus_error", -signal.SIGBUS),
    ],
)
def test_the_end_is_its_own(lab, way, status):
    run = lab.profile(lab.program("deaths", way))
    assert run.status == status, run.said
    assert run.recording.counts == lab.noted()
    assert run.recording.totals() == {"early": 5}
    assert run.recording.lost == 0
    assert not run.recording.truncated()
    assert not lab.raw.exists()


def test_open_ranges_of_a_killed_program_end_with_it(lab):
    run = lab.profile(lab.program("deaths", "killed"))
    assert run.status == -signal.SIGKILL
    assert run.recording.totals() == {"early": 5, "inner": 2, "open": 1, "started": 1}
    assert run.recording.truncated() == ["open", "started"]
    assert "was killed (SIGKILL) with 2 ranges open" in run.recording.warnings


def signalled(lab, way, number, *, to_launcher):
    """Profile a program and send it a signal when it is ready."""
    launcher = lab.start(lab.profiled(lab.program("deaths", way)))
    lab.wait_for("ready")
    program = next(pid for pid in processes.descendants(launcher.pid))
    os.kill(launcher.pid if to_launcher else program, number)
    return lab.end(launcher)


@pytest.mark.parametrize("to_launcher", [False, True])
@pytest.mark.parametrize(
    ("way", "number", "status", "ranges"),
    [
        ("terminated", signal.SIGTERM, -signal.SIGTERM, {"early": 5}),
        ("terminated", signal.SIGHUP, -signal.SIGHUP, {"early": 5}),
        ("terminated_in_order", signal.SIGTERM, 7, {"early": 5, "saving": 2}),
    ],
)
def test_signals(lab, way, number, status, ranges, to_launcher):
    run = signalled(lab, way, number, to_launcher=to_launcher)
    assert run.status == status, run.said
    assert run.recording.totals() == ranges
    assert run.recording.counts == lab.noted()


def test_one_interrupt_ends_the_recording_in_order(lab):
    terminal = lab.on_terminal(lab.profiled(lab.program("deaths", "interrupted")))
    lab.wait_for("ready")
    terminal.type("\x03")
    assert terminal.end() == 5, terminal.shown
    found = lab.read("run.warpline")
    assert found.totals() == {"early": 5}  # what came after it is not in the recording
    assert not lab.raw.exists()


def test_the_second_interrupt_kills(lab):
    terminal = lab.on_terminal(lab.profiled(lab.program("deaths", "interrupted_and_deaf")))
    lab.wait_for("ready")
    terminal.type("\x03")
    time.sleep(0.5)
    terminal.type("\x03")
    assert terminal.end() == -signal.SIGINT, terminal.shown
    found = lab.read("run.warpline")
    assert found.totals() == {"early": 5}
    assert found.counts == lab.noted()


def check_nothing_lost(found, noted):
    """Every range that was noted is there; at most one per thread was not noted any more."""
    assert found.keys() == noted.keys()
    for pid, names in noted.items():
        assert names["early"] == found[pid]["early"] if "early" in names else True
        assert names["count"] <= found[pid]["count"] <= names["count"] + 3


def test_a_killed_program_loses_nothing(lab):
    launcher = lab.start(lab.profiled(lab.program("deaths", "counting")))
    lab.wait_for("ready")
    time.sleep(0.3)
    for pid in reversed(processes.descendants(launcher.pid)):
        os.kill(pid, signal.SIGKILL)
    run = lab.end(launcher)
    assert run.status == -signal.SIGKILL
    check_nothing_lost(run.recording.counts, lab.noted())
    assert run.recording.lost == 0


def test_without_the_launcher_the_program_goes_on(lab):
    launcher = lab.start(lab.profiled(lab.program("deaths", "going_on")))
    lab.wait_for("ready")
    launcher.kill()
    launcher.wait()
    lab.tell("go on")
    lab.wait_for("done")
    time.sleep(0.1)
    assert not lab.output.exists()
    recovered = lab.recover()
    assert recovered.status == 0, recovered.said
    found = lab.read("run.warpline")
    assert found.counts == lab.noted()
    assert found.totals() == {"early": 10, "later": 500, "in a new thread": 3}


def test_launcher_and_program_killed(lab):
    launcher = lab.start(lab.profiled(lab.program("deaths", "counting")))
    lab.wait_for("ready")
    time.sleep(0.3)
    below = processes.descendants(launcher.pid)
    for pid in (launcher.pid, *below):
        os.kill(pid, signal.SIGKILL)
    launcher.wait()
    while any(processes.is_alive(pid) for pid in below):
        time.sleep(0.01)
    noted = lab.noted()
    # The next run in this folder tells of it, and touches nothing.
    other = ["-o", str(lab.folder / "other")]
    following = lab.profile(lab.program("deaths", "nothing"), flags=other)
    assert f"unfinished recording found; run warpline recover {lab.raw}\n" in following.said
    recovered = lab.recover()
    assert recovered.status == 0, recovered.said
    check_nothing_lost(lab.read("run.warpline").counts, noted)
    following = lab.profile(lab.program("deaths", "nothing"), flags=[*other, "-f", "true"])
    assert "unfinished recording" not in following.said
