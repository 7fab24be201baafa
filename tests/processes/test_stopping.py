"""Recordings of a part of a run: by time, and by a range of the program."""

from __future__ import annotations

import signal
import subprocess

import pytest

# When a part begins or ends. The next is tried if the program began only after it, as on a busy
# machine. Programs that end by themselves run for WHOLE times as long.
PARTS_S = (0.6, 2.0, 8.0)
WHOLE = 5
LATE_S = 30.0  # for programs that would go on for ever


def span_s(found):
    """Return when the first range began and the last one ended, in seconds from the start."""
    ranges = found.trace["range"]
    return ranges["start_ns"].min() / 1e9, ranges["end_ns"].max() / 1e9


def steps(lab, run):
    """Return how many steps were recorded, and how many the program noted."""
    noted = lab.noted()
    return run.recording.totals().get("step", 0), noted.popitem()[1]["step"] if noted else 0


def profile_in_time(lab, flag, *flags, way="until"):
    """Profile a program with a time in its flags that comes after the program's beginning.

    Returns the run, and the time in seconds.
    """
    for part_s in PARTS_S:
        lab.ledger.unlink(missing_ok=True)
        arguments = [str(WHOLE * part_s)] if way == "until" else []
        words = [flag, str(part_s), *flags, "--force-overwrite", "true"]
        run = lab.profile(lab.program("steps", way, *arguments), flags=words)
        recorded, noted = steps(lab, run)
        if recorded and (flag != "--delay" or recorded < noted):
            break
    return run, part_s


def test_a_delay(lab):
    run, part_s = profile_in_time(lab, "--delay")
    assert run.status == 0, run.said
    found = run.recording
    first, _ = span_s(found)
    began_ns, ended_ns = found.trace.meta.span_ns
    assert part_s <= began_ns / 1e9 <= first
    assert span_s(found)[1] <= ended_ns / 1e9
    recorded, noted = steps(lab, run)
    assert 0 < recorded < noted


def test_a_delay_longer_than_the_run(lab):
    run = lab.profile(lab.program("steps", "until", "0.1"), flags=["--delay", "30"])
    assert run.status == 0
    assert run.recording.totals() == {}
    assert "before --delay 30" in run.said


@pytest.mark.parametrize(
    ("way", "kill", "status"),
    [
        ("minutes", "15", 0),
        ("minutes", "sigkill", 0),
        ("saving", "sigterm", 9),
    ],
)
def test_a_duration_ends_the_program(lab, way, kill, status):
    run, part_s = profile_in_time(lab, "--duration", "--kill", kill, way=way)
    assert run.status == status, run.said
    found = run.recording
    assert part_s - 0.1 < span_s(found)[1] < LATE_S
    assert "use -x false to keep it running" in run.said
    assert found.truncated() == ["started", "whole run"]
    assert found.lost == 0
    recorded, noted = steps(lab, run)
    assert 0 < recorded <= noted + 1


@pytest.mark.parametrize("flags", [("--kill", "none"), ("-x", "false")])
def test_a_duration_that_ends_the_recording_only(lab, flags):
    run, _ = profile_in_time(lab, "--duration", *flags)
    assert run.status == 0, run.said
    recorded, noted = steps(lab, run)
    assert 0 < recorded < noted
    assert (lab.folder / "ledger.done").exists()


def test_a_program_that_does_not_hear_the_signal(lab):
    part_s = PARTS_S[1]
    launcher = lab.start(lab.profiled(lab.program("steps", "deaf"), ["-d", str(part_s)]))
    lab.wait_for("ready", seconds=60)
    with pytest.raises(subprocess.TimeoutExpired):
        launcher.wait(timeout=2 * part_s)
    launcher.send_signal(signal.SIGINT)  # passed on
    run = lab.end(launcher)
    assert run.status == -signal.SIGINT, run.said
    recorded, noted = steps(lab, run)
    assert recorded < noted


def windows(lab, *arguments, flags=(), linger="0"):
    """Profile the program of the windows."""
    return lab.profile(
        lab.program("steps", "windows", *arguments),
        flags=["-c", "nvtx", *flags],
        environment={"LINGER": linger},
    )


def inside(numbers):
    """Return what the program notes within its windows."""
    return {"outer": len(numbers), **{f"inside {number}": 3 for number in numbers}}


def without_window(found):
    """Return the totals but for the ranges that are the windows."""
    return {name: count for name, count in found.totals().items() if name != "window"}


@pytest.mark.parametrize("form", ["push", "start"])
@pytest.mark.parametrize(
    ("end", "numbers"),
    [
        ("none", range(4)),
        ("stop", range(1)),
        ("repeat", range(4)),
        ("repeat:2", range(2)),
    ],
)
def test_windows(lab, form, end, numbers):
    flags = ["-p", "window", "--capture-range-end", end]
    run = windows(lab, "4", form, flags=flags)
    assert run.status == 0, run.said
    found = run.recording
    assert without_window(found) == inside(numbers)
    assert found.totals()["window"] == len(numbers)
    # What lies between the ranges is not called recorded.
    ranges = found.trace["range"]
    asked = ranges.filter(ranges["name"] == "window").select("start_ns", "end_ns").rows()
    noted = found.trace.meta.windows_ns
    assert len(asked) == len(noted)
    for (begin_ns, end_ns), (low, high) in zip(sorted(asked), noted, strict=True):
        assert low <= begin_ns < end_ns <= high
    assert not found.truncated()
    assert (lab.folder / "ledger.lingered").exists()
    assert found.lost == 0


@pytest.mark.parametrize(
    ("end", "numbers"), [("stop-shutdown", range(1)), ("repeat-shutdown:3", range(3))]
)
def test_windows_that_end_the_program(lab, end, numbers):
    flags = ["-p", "window", "--capture-range-end", end]
    run = windows(lab, "3", flags=flags, linger="20")
    assert run.status == 0, run.said
    assert (
        "stopping the program with SIGTERM (use --capture-range-end=stop to keep it running)"
        in run.said
    )
    assert without_window(run.recording) == inside(numbers)
    assert not (lab.folder / "ledger.lingered").exists()


@pytest.mark.parametrize(
    ("domain", "asked", "is_there"),
    [
        ("", "window", True),
        ("", "window@*", True),
        ("mine", "window@mine", True),
        ("mine", "window@*", True),
        ("mine", "window", False),
        ("", "window@mine", False),
        ("", "win", False),
    ],
)
def test_windows_and_domains(lab, domain, asked, is_there):
    arguments = ("2", "push", domain) if domain else ("2", "push")
    run = windows(lab, *arguments, flags=["-p", asked, "--capture-range-end", "none"])
    assert run.status == 0, run.said
    assert without_window(run.recording) == (inside(range(2)) if is_there else {})
    assert ("nothing was recorded: -p matched no range" in run.said) is not is_there


def test_windows_of_two_processes_one_dies_in_its_own(lab):
    flags = ["-c", "nvtx", "-p", "window", "--capture-range-end", "repeat"]
    run = lab.profile(lab.program("steps", "windows_of_two"), flags=flags)
    assert run.status == 0, run.said
    found = run.recording
    # The dead process is noticed within a second: the first "outside" may still be in its window.
    extra = found.totals().pop("outside", 0)
    assert extra <= 1
    expected = {
        "child's": 3,
        "parent's, in the child's window": 2,
        "parent's": 4,
        "parent's, after the child's death": 5,
        "parent's second": 6,
    }
    kept = {n: c for n, c in found.totals().items() if n not in {"window", "outside"}}
    assert kept == expected
    assert found.totals()["window"] == 3


def test_a_delay_and_a_capture_range(lab):
    """Ranges before the delay open nothing."""
    flags = ["-p", "window", "--capture-range-end", "none", "--delay", "20"]
    run = windows(lab, "2", flags=flags)
    assert run.status == 0
    assert run.recording.totals() == {}
