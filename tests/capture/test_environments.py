"""Variables in the environments of processes, also of those that are just being started."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpline.capture.machine import processes


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of process 7 in a /proc of the test's own."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "exe").symlink_to("/bin/cat")
    return folder


def write(folder: Path, environment: bytes, command: bytes) -> None:
    (folder / "environ").write_bytes(environment)
    (folder / "cmdline").write_bytes(command)


def test_a_variable_that_is_set_or_not(proc: Path) -> None:
    write(proc, b"A=1\0NAME=x=y\0", b"cat\0")
    assert processes.variable_of(7, "NAME") == "x=y"
    assert processes.variable_of(7, "OTHER") == ""


def test_an_empty_environment_has_no_variable(proc: Path) -> None:
    write(proc, b"", b"cat\0")
    assert processes.variable_of(7, "NAME") == ""


def test_a_program_that_is_being_started_is_unknown(proc: Path) -> None:
    write(proc, b"", b"")
    assert processes.variable_of(7, "NAME") is None


def test_a_process_that_has_ended_is_unknown(proc: Path) -> None:
    write(proc, b"NAME=x\0", b"cat\0")
    (proc / "exe").unlink()
    assert processes.variable_of(7, "NAME") is None
    assert processes.variable_of(8, "NAME") is None
