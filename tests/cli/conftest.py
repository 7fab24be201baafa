"""Runs the command line in this process or in its own, on the recordings of `warpline demo`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import warpline
from warpline.cli import main

DATA = Path(warpline.__file__).parent / "data"


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def bad() -> str:
    """A real recording: six steps, 12 copies, one process, one device."""
    return str(DATA / "pageable_h2d.bad.sqlite")


@pytest.fixture
def fixed() -> str:
    """The recording of the fixed program."""
    return str(DATA / "pageable_h2d.fixed.sqlite")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run words in this process, on a console of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Outcome:
        status = main(list(words))
        return Outcome(status, *capsys.readouterr())

    return run


@pytest.fixture
def start() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run words in a process of their own."""

    def start(*words: str, shell: str = "{}", **environ: str) -> subprocess.CompletedProcess[bytes]:
        command = " ".join(f"'{word}'" for word in (sys.executable, "-m", "warpline", *words))
        source = str(Path(warpline.__file__).parents[1])
        return subprocess.run(
            ["bash", "-c", shell.format(command)],
            capture_output=True,
            check=False,
            timeout=60,
            env={**os.environ, "PYTHONPATH": source, **environ},
        )

    return start


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 kB."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=40k", "none", str(place)]
    done = subprocess.run(mount, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
