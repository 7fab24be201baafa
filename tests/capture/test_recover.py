"""warpline recover, in its own process: an unfinished recording becomes a recording."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from capture.raw_writer import Log, write_session

import warpline
from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


def recover(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpline", "recover", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.fixture
def session(tmp_path: Path) -> Path:
    log = Log(closed=None)
    log.push(10, "open")
    log.push(20, "whole")
    log.pop(30)
    return write_session(tmp_path / "run.warpline.raw", log, ended_monotonic_ns=None)


def test_a_session_becomes_a_recording_and_its_folder_goes(session: Path) -> None:
    run = recover("run.warpline.raw", folder=session.parent)
    assert run.returncode == 0, run.stderr
    output = Path(run.stdout.rstrip("\n"))
    assert output == session.parent.resolve() / "run.warpline"
    assert warpline.open(output)["range"]["name"].to_list() == ["open", "whole"]
    assert "recovered 2 ranges and 0 marks from 1 process" in run.stderr
    assert "process 100 ended abruptly with 1 range open" in run.stderr
    assert not session.exists()


def test_keep_keeps_the_folder(session: Path) -> None:
    assert recover(session, "--keep", folder=session.parent).returncode == 0
    assert session.exists()


def test_another_name(session: Path) -> None:
    run = recover(session, "-o", "other.warpline", folder=session.parent)
    assert run.stdout == "other.warpline\n"
    assert (session.parent / "other.warpline").exists()


def test_a_recording_is_not_replaced_unless_asked(session: Path) -> None:
    output = session.parent / "run.warpline"
    output.write_text("mine")
    run = recover(session, folder=session.parent)
    assert run.returncode == 2
    assert run.stderr == (
        f"error: {output.resolve()} already exists\nhint: use --force-overwrite to replace it\n"
    )
    assert output.read_text() == "mine"
    assert session.exists()
    assert recover(session, "-f", folder=session.parent).returncode == 0
    assert len(warpline.open(output)["range"]) == 2


def test_a_folder_of_which_not_all_can_be_read_stays(session: Path) -> None:
    (session / "7-7-0.wlraw").write_bytes(b"noise")
    run = recover(session, folder=session.parent)
    assert run.returncode == 0
    assert "7-7-0.wlraw is damaged" in run.stderr
    assert "some of it could not be read" in run.stderr
    assert session.exists()


def test_a_session_that_is_being_recorded_is_refused(tmp_path: Path) -> None:
    facts = {
        "host": os.uname().nodename,
        "started_monotonic_ns": time.monotonic_ns(),
        "launcher_pid": os.getpid(),
        "ended_monotonic_ns": None,
    }
    session = write_session(tmp_path / "run.warpline.raw", Log(), **facts)
    run = recover(session, folder=tmp_path)
    assert run.returncode == 1
    assert f"process {os.getpid()} is still recording to" in run.stderr
    assert session.exists()
    assert recover(session, "--force", folder=tmp_path).returncode == 0


def test_a_pid_that_is_used_again_refuses_nothing(tmp_path: Path) -> None:
    facts = {"host": os.uname().nodename, "started_monotonic_ns": 1, "launcher_pid": os.getpid()}
    session = write_session(tmp_path / "run.warpline.raw", Log(), ended_monotonic_ns=None, **facts)
    assert recover(session, folder=tmp_path).returncode == 0


def test_a_session_without_facts_is_recovered(session: Path) -> None:
    (session / "session.json").unlink()
    run = recover(session, folder=session.parent)
    assert run.returncode == 0, run.stderr
    assert "cannot read session.json" in run.stderr
    trace = warpline.open(session.parent / "run.warpline")
    assert trace["range"]["end_ns"].to_list() == [30, 30]


@pytest.mark.parametrize("word", ["nowhere.raw", "."])
def test_what_is_no_session_is_one_line(tmp_path: Path, word: str) -> None:
    run = recover(word, folder=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("error: ")
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_the_clock_is_that_of_the_session(session: Path) -> None:
    log = Log(pid=200, incarnation=3, closed=None)
    log.mark(77)
    log.write(session)
    assert recover(session, folder=session.parent).returncode == 0
    trace = warpline.open(session.parent / "run.warpline")
    assert trace["mark"]["time_ns"].to_list() == [77]
    assert trace.meta.span_ns == (0, 77)
