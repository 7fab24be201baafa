"""``--keep-last``: recordings that keep their end only, under ``profile`` and in sessions."""

from __future__ import annotations

import re
import signal
import time

import pytest
from processes.conftest import Laboratory, Recording
from processes.test_sessions import Steered, wait_until

from warpline.trace import Trace

STEPS = ("--step-range", "range *")


@pytest.fixture
def steered(lab, monkeypatch):
    return Steered(lab, monkeypatch)


def numbers(trace: Trace) -> list[int]:
    return sorted(int(text.split()[1]) for text in trace["range"]["name"].to_list())


def test_the_last_steps_are_kept_dumped_and_written_at_the_end(steered: Steered) -> None:
    steered.launch("-t", "nvtx")
    steered.do("start", "--keep-last=5steps", *STEPS, "-o", "run")
    for number in range(1, 31):  # one at a time: several between two looks would all be kept
        steered.range_up_to(number)
        time.sleep(0.03)
    assert "keeping the last 5steps" in steered.do("status")
    steered.do("dump")
    assert steered.do("dump", "-q", "-o", "named") == "named.warpline\n"
    steered.range_up_to(32)
    steered.do("stop")
    for name in ("run_dump1", "named"):
        found = numbers(Recording.read(steered.folder / f"{name}.warpline").trace)
        assert found == list(range(found[0], 30))
        assert 5 <= len(found) < 30
    found = numbers(Recording.read(steered.folder / "run.warpline").trace)
    assert found == list(range(found[0], 32))
    assert 5 <= len(found) < 32
    assert steered.end().stdout == b"did 32\n"
    assert not list(steered.folder.glob("*.raw"))


def test_a_time_is_kept(steered: Steered) -> None:
    steered.launch("-t", "nvtx")
    steered.do("start", "--keep-last=1s", "-o", "run")
    steered.range_up_to(1000)
    began = time.monotonic()
    steered.range_up_to(1001)
    wait_until(lambda: time.monotonic() > began + 1.5)
    steered.range_up_to(1002)
    steered.do("stop")
    trace = Recording.read(steered.folder / "run.warpline").trace
    found = numbers(trace)
    assert 1000 not in found  # it was made before a second passed
    assert found in ([], [1001])  # [] where the stop took a second
    assert any("are recorded (--keep-last)" in text for text in trace.meta.warnings)
    steered.end()


def test_what_is_kept_is_written_when_nothing_happens(steered: Steered) -> None:
    steered.launch("-t", "nvtx")
    steered.do("start", "--keep-last=60s", "--when=hang 200ms", "-o", "run")
    steered.range_up_to(7)
    wait_until((steered.folder / "run_dump1.warpline").exists)
    assert numbers(Recording.read(steered.folder / "run_dump1.warpline").trace) == list(range(7))
    steered.range_up_to(9)
    steered.do("stop")
    assert steered.ranges("run.warpline") == list(range(9))
    said = steered.end().said
    assert re.search(r"nothing was recorded for .+: wrote run_dump1\.warpline", said)


def test_what_is_kept_is_written_after_a_slow_step(steered: Steered) -> None:
    steered.launch("-t", "nvtx")
    steered.do("start", "--keep-last=60s", "--when=step > 20s", *STEPS, "-o", "never")
    steered.range_up_to(3)
    steered.do("stop")
    steered.do("start", "--keep-last=60s", "--when=step > 300ms", *STEPS, "-o", "run")
    steered.range_up_to(4)
    time.sleep(0.4)  # the step lasts until the next one begins
    steered.range_up_to(6)
    wait_until((steered.folder / "run_dump1.warpline").exists)
    found = numbers(Recording.read(steered.folder / "run_dump1.warpline").trace)
    assert 3 in found
    steered.do("cancel")
    assert not list(steered.folder.glob("never_dump*"))
    said = steered.end().said
    assert re.search(r"step [\d,]+ took .+: wrote run_dump1\.warpline", said)
    assert "was not recorded" not in said  # it is no process of the program that writes it


def test_profile_writes_what_is_kept_at_the_end(lab: Laboratory) -> None:
    (lab.folder / "wanted").write_text("50")
    command = lab.program("steered", "numbered", str(lab.folder))
    process = lab.start(lab.profiled(command, ["--keep-last=60s", "-t", "nvtx"]))
    lab.wait_for("ready")
    wait_until(lambda: (lab.folder / "done").exists() and (lab.folder / "done").read_text() == "50")
    (lab.folder / "wanted").unlink()
    run = lab.end(process)
    assert run.status == 7
    assert numbers(Recording.read(lab.folder / "run.warpline").trace) == list(range(50))


def test_what_is_kept_is_written_when_a_signal_asks_for_it(lab: Laboratory) -> None:
    (lab.folder / "wanted").write_text("50")
    command = lab.program("steered", "numbered", str(lab.folder))
    flags = ["--keep-last=60s", "--when=signal USR2", "-t", "nvtx"]
    process = lab.start(lab.profiled(command, flags))
    lab.wait_for("ready")
    wait_until(lambda: (lab.folder / "done").exists() and (lab.folder / "done").read_text() == "50")
    for dump in ("run_dump1.warpline", "run_dump2.warpline"):  # also soon after the first
        process.send_signal(signal.SIGUSR2)
        wait_until((lab.folder / dump).exists)
        assert numbers(Recording.read(lab.folder / dump).trace) == list(range(50))
    (lab.folder / "wanted").unlink()
    run = lab.end(process)
    assert run.status == 7  # the program, which the signal would end, did not get it
    assert "received SIGUSR2: wrote run_dump1.warpline" in run.said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--keep-last=0s"], "expected a time of at most 24h, or a number of steps"),
        (["--keep-last=2.5steps"], "expected a time"),
        (["--keep-last=soon"], "use --keep-last=30s or --keep-last=20steps"),
        (["--when=hang 3s"], "--when requires --keep-last"),
        (["--keep-last=3s", "--when=step > 1 x median"], "is not a condition"),
        (["--keep-last=3s", "--when=rain"], 'use --when "step > 2 x median"'),
        (["--keep-last=3s", "--when=signal KILL"], "is not a condition"),
        (["--keep-last=3s", "--steps=3", "--every=9"], "cannot be combined"),
        (["--keep-last=3s", "--pytorch=memory"], "--pytorch=memory and --keep-last cannot be"),
        (["--keep-last=3s", "--pytorch=functions-trace"], "use --pytorch=all,autograd-nvtx"),
    ],
)
def test_what_is_refused(lab: Laboratory, flags: list[str], said: str) -> None:
    run = lab.profile(["true"], flags=flags)
    assert run.status == 2
    assert said in run.said


def test_only_sessions_that_keep_something_are_dumped(steered: Steered) -> None:
    steered.launch("-t", "nvtx")
    assert "keeps no last seconds" in steered.say("dump").stderr
    steered.do("start", "-o", "run")
    assert "warpline start --keep-last=30s" in steered.say("dump").stderr
    steered.do("cancel")
    steered.end()
