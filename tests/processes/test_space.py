"""No room, or no right, to write: the program goes on unharmed, and what is lost is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# Ends of ranges that were open when it became full: they are lost, the ranges are not.
PENDING = 2
WELL = b"all is well\n"


@pytest.fixture
def small_disk(tmp_path, request):
    """A file system of 3 MB, or as many as are asked for, that is full when it is full."""
    place = tmp_path / "small"
    place.mkdir()
    size = f"size={getattr(request, 'param', 3)}m,mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", size, "none", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(mount, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_without_room_is_refused_before_the_start(lab, small_disk):
    run = lab.profile(lab.program("space", "many", "1"), flags=["-o", str(small_disk / "x")])
    assert run.status == 1
    assert run.stdout == b""
    assert "not enough disk space" in run.said


def session_in(lab, folder, *, keep_free_bytes=0):
    """Make a session in a folder, for any agent."""
    from warpline.capture.session.agent_config import AgentConfig
    from warpline.capture.session.facts import session_facts
    from warpline.capture.session.session import create_session, reserve_folder

    output = folder / "run.warpline"
    facts = session_facts(output, command=[], options={}, environment={}, collected=["nvtx"])
    config = AgentConfig(keep_free_bytes=keep_free_bytes)
    return create_session(reserve_folder(output), config, facts)


def record_into(lab, session, *arguments, limit=None):
    """Run a program with the session's variables."""
    from warpline.capture.machine.agent import agent_library

    command = lab.program("space", *arguments)
    if limit is not None:
        command = ["prlimit", f"--fsize={limit}", *command]
    run = lab.alone(command, environment=session.variables(agent_library()))
    session.end()
    return run


def outcome(lab, session):
    """Finish a session elsewhere."""
    finished = lab.recover(session.folder)
    assert finished.status == 0, finished.said
    return lab.read("run.warpline"), finished.said


def test_a_full_disk(lab, small_disk):
    session = session_in(lab, small_disk)
    run = record_into(lab, session, "many", "60000")
    assert (run.status, run.stdout, run.stderr) == (0, WELL, b"")
    assert shutil.disk_usage(small_disk).free < 1 << 20
    found, said = outcome(lab, session)
    assert found.lost > 0
    assert "disk was full" in found.warnings
    assert "disk was full" in said
    # What could be recorded is whole: one inner range in each outer one.
    recorded = found.totals()
    assert 120_000 <= sum(recorded.values()) + found.lost <= 120_000 + PENDING
    outer = [name for name in recorded if name.startswith("outer")]
    assert abs(len(outer) - recorded["inner"]) <= 1
    assert len(outer) > 10_000


def test_room_again(lab, small_disk):
    filler = small_disk / "filler"
    filler.write_bytes(b"\1" * (2 << 20))
    session = session_in(lab, small_disk)
    run = record_into(lab, session, "room_again", "20000", str(filler))
    assert (run.status, run.stdout, run.stderr) == (0, WELL, b"")
    found, _ = outcome(lab, session)
    assert found.lost > 0
    assert found.totals()["after"] == 10
    recorded = found.totals()
    assert 40_000 <= sum(recorded.values()) - 10 + found.lost <= 40_000 + PENDING


@pytest.mark.parametrize("small_disk", [80], indirect=True)
def test_no_room_for_the_recording(lab, small_disk):
    filler = small_disk / "filler"
    flags = ["-o", str(small_disk / "run")]
    run = lab.profile(lab.program("space", "fill", str(filler)), flags=flags)
    assert run.stdout == WELL
    assert run.status == 1
    error, hint = (line for line in run.said.splitlines() if line.startswith(("error", "hint")))
    assert error == f"error: cannot write {small_disk}/run.warpline: No space left on device"
    assert hint.startswith("hint: free some space, then run warpline recover ")
    assert not (small_disk / "run.warpline").exists()
    filler.unlink()
    recovered = lab.recover(small_disk / "run.warpline.raw")
    assert recovered.status == 0, recovered.said
    assert sum(lab.read("run.warpline").totals().values()) == 40_000
    assert not (small_disk / "run.warpline.raw").exists()


def test_a_limit_on_the_size_of_files(lab):
    session = session_in(lab, lab.folder)
    run = record_into(lab, session, "many", "60000", limit=1 << 20)
    assert (run.status, run.stdout, run.stderr) == (0, WELL, b"")
    found, _ = outcome(lab, session)
    assert 120_000 <= sum(found.totals().values()) + found.lost <= 120_000 + PENDING
    assert 0 < found.lost < 120_000


def test_a_limit_that_leaves_no_room_for_any_log(lab):
    session = session_in(lab, lab.folder)
    run = record_into(lab, session, "many", "1000", limit=1000)
    assert (run.status, run.stdout, run.stderr) == (0, WELL, b"")
    found, said = outcome(lab, session)
    assert found.totals() == {}
    assert found.lost == 2_000
    assert "disk was full" in said


def test_a_session_that_cannot_be_written(lab, small_disk):
    session = session_in(lab, small_disk)
    session.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    from warpline.capture.machine.agent import agent_library

    run = lab.alone(
        lab.program("space", "many", "1000"),
        environment=session.variables(agent_library()),
    )
    assert (run.status, run.stdout, run.stderr) == (0, WELL, b"")


def test_a_folder_that_cannot_be_written(lab):
    place = lab.folder / "place"
    place.mkdir(mode=0o500)
    words = lab.profiled(lab.program("space", "many", "10"), ["-o", str(place / "x")])
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere")
        words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words]
    run = lab.alone(words)
    assert run.status == 1
    assert run.stdout == b""
    assert "is not writable" in run.said


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("other_user", "permission denied, possibly after a change of user (errno 13)"),
        ("no_more_files", "too many open files (errno 24)"),
    ],
)
def test_a_process_that_cannot_write_on(lab, way, why):
    if way == "other_user" and os.geteuid() != 0:
        pytest.skip("only root can change the user")
    run = lab.profile(lab.program("space", way))
    assert (run.status, run.stdout) == (0, WELL * 2)
    found = run.recording
    recorded = sum(found.totals().values())
    assert 120_020 <= recorded + found.lost <= 120_020 + PENDING
    assert 0 < found.lost < 120_000
    assert f"cannot write its log: {why}" in run.said
    assert "disk" not in run.said


def test_the_program_deletes_the_session(lab):
    run = lab.profile(lab.program("space", "delete_session"))
    assert run.stdout == WELL
    assert run.status == 1
    assert "was deleted while the program ran" in run.said
    assert run.said.count("\n") == 2


def test_the_session_is_deleted_under_the_program(lab):
    launcher = lab.start(lab.profiled(lab.program("space", "no_session")))
    lab.wait_for("ready")
    shutil.rmtree(lab.raw)
    lab.tell("deleted")
    run = lab.end(launcher)
    assert run.stdout == WELL * 2
    assert "was deleted while the program ran" in run.said
    assert "Traceback" not in run.said


@pytest.mark.parametrize("mask", ["000", "777"])
def test_logs_are_private(lab, mask):
    session = session_in(lab, lab.folder)
    record_into(lab, session, "masked", mask)
    logs = list(Path(session.folder).glob("*.wlraw"))
    assert len(logs) == 1
    assert {path.stat().st_mode & 0o777 for path in logs} == {0o600}
    assert session.folder.stat().st_mode & 0o777 == 0o700
