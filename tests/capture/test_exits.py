"""The launcher's notes about the ends of processes with an agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpline.capture.launcher.attached import Attached
from warpline.capture.session.control import ControlFile, ControlPage
from warpline.capture.session.exits import Exit, read_exits

STATUS_OF_KILL = int(signal.SIGKILL)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ControlFile]:
    control = ControlFile.create(tmp_path)
    yield control
    control.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def attach(page: ControlFile, pid: int, slot: int = 0) -> None:
    """Take a slot as the agent does."""
    page._put("<I", ControlPage.slots.offset + 8 * slot, pid)


def kill(process: subprocess.Popen[bytes]) -> int:
    """Kill a process, wait until it is dead and leave it to be waited for; return when it was."""
    before = time.monotonic_ns()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return before


def check(found: list[Exit], pid: int, status: int | None, killed_ns: int) -> None:
    ((only),) = found
    assert (only.pid, only.status) == (pid, status)
    assert killed_ns <= only.ended_ns <= time.monotonic_ns()


def test_one_with_another_parent_wakes_the_launcher(tmp_path, page, sleeper):
    attached = Attached(tmp_path, page, 0)
    attach(page, sleeper.pid)
    attached.look()
    attached.sweep()
    assert read_exits(tmp_path) == []
    assert page.heartbeat_ns > 0
    assert len(attached.descriptors) == 1
    killed_ns = kill(sleeper)
    attached.sweep()
    check(read_exits(tmp_path), sleeper.pid, STATUS_OF_KILL, killed_ns)
    assert page.attached_pids() == set()
    attached.close()
    assert len(read_exits(tmp_path)) == 1


def test_where_the_kernel_offers_no_descriptors(tmp_path, page, sleeper, monkeypatch):
    def refused(pid: int) -> int:
        raise OSError(38, "no such call")

    monkeypatch.setattr(os, "pidfd_open", refused)
    attached = Attached(tmp_path, page, 0)
    attach(page, sleeper.pid)
    attached.look()
    assert attached.descriptors == []
    killed_ns = kill(sleeper)
    attached.sweep()
    assert read_exits(tmp_path) == []
    attached.look()
    check(read_exits(tmp_path), sleeper.pid, STATUS_OF_KILL, killed_ns)


def test_one_that_has_gone_before_it_was_looked_at(tmp_path, page, sleeper):
    attached = Attached(tmp_path, page, 0)
    killed_ns = kill(sleeper)
    sleeper.wait()
    attach(page, sleeper.pid)
    attached.look()
    attached.look()
    check(read_exits(tmp_path), sleeper.pid, None, killed_ns)


def test_children_that_no_agent_told_of_are_not_noted(tmp_path, page):
    attached = Attached(tmp_path, page, 5)
    attach(page, 7)
    for pid in (5, 6, 7):
        attached.reaped(pid, 0)
    assert [found.pid for found in read_exits(tmp_path)] == [5, 7]


def test_with_more_processes_than_slots_every_child_is_noted(tmp_path, page):
    attached = Attached(tmp_path, page, 5)
    page._put("<Q", ControlPage.attached.offset, 257)
    attached.reaped(6, 0)
    assert [found.pid for found in read_exits(tmp_path)] == [6]


def test_nobody_is_said_to_live_while_an_end_cannot_be_written(tmp_path, page):
    """A full disk, here a folder that is gone: it is tried again."""
    attached = Attached(tmp_path / "later", page, 5)
    attached.reaped(5, STATUS_OF_KILL)
    attached.look()
    assert page.heartbeat_ns == 0
    (tmp_path / "later").mkdir()
    attached.look()
    assert [found.pid for found in read_exits(tmp_path / "later")] == [5]
    assert page.heartbeat_ns > 0
