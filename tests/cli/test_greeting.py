"""``warpline`` without arguments: what is here, and three commands for that."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpline import __version__
from warpline.cli import greeting, parser
from warpline.cli.greeting import Found, look, text

DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a machine with two GPUs."""
    root = tmp_path / "root"
    for number in (0, 1):
        folder = root / "proc" / "driver" / "nvidia" / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text("Model: \t NVIDIA H200\nIRQ: 4\n")
    (root / "proc" / "driver" / "nvidia" / "version").write_text(DRIVER)
    return root


def commands(found: Found) -> list[str]:
    lines = text(found).split("\nNext\n")[1].split("\n\n")[0].splitlines()
    return [line.strip().split("  ")[0] for line in lines]


def test_it_greets_with_what_it_found(run, tmp_path, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    shutil.copy(bad, tmp_path / "run.sqlite")
    done = run()
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"Warpline {__version__}: ")
    assert "  Recordings  run.sqlite (" in done.out
    assert "  warpline analyze run.sqlite " in done.out
    assert "\nTelemetry: none. Nothing is sent anywhere.\n" in done.out
    assert max(map(len, done.out.splitlines())) <= 100


def test_the_machine_is_described(machine, tmp_path):
    packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    library = packages / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    (packages / "torch-2.11.0+cu130.dist-info").mkdir()
    toolkit = tmp_path / "cuda" / "lib64" / "libcupti.so.13"
    toolkit.parent.mkdir(parents=True)
    toolkit.touch()
    environment = {"VIRTUAL_ENV": str(tmp_path / "env"), "CUDA_HOME": str(tmp_path / "cuda")}
    found = look(environment, machine, tmp_path)
    assert found.gpus == "2 x NVIDIA H200, driver 580.159.03"
    assert found.torch == "2.11.0+cu130"
    assert found.cuda is not None
    assert found.recordings == []


def test_each_situation_has_three_commands_that_parse(machine, tmp_path):
    situations = [
        Found(None, None, None, []),
        Found("1 x NVIDIA H200, driver 1", None, None, []),
        Found("1 x NVIDIA H200, driver 1", "CUPTI", "2.11", []),
        Found("1 x NVIDIA H200, driver 1", "CUPTI", "2.11", [("a b.warpline", 5)]),
        Found(None, None, None, [("-x.warpline", 5), ("b.sqlite", 100_000)]),
        Found(None, None, None, [("k.ncu-rep", 5)]),
    ]
    for found in situations:
        shown = commands(found)
        assert len(shown) == 3
        for line in shown:
            name, *words = shlex.split(line)
            assert name == "warpline"
            parser.parse(words)  # raises UsageError for what we do not accept
    assert commands(situations[4])[2] == "warpline compare b.sqlite ./-x.warpline"
    assert "--host" in commands(situations[0])[2]


def test_other_files_are_no_recordings(tmp_path):
    (tmp_path / "cookies.sqlite").write_bytes(b"SQLite format 3\0" + bytes(4096))
    (tmp_path / "folder.warpline").mkdir()
    (tmp_path / "odd\nname.warpline").touch()
    (tmp_path / "new.warpline").touch()
    (tmp_path / "old.warpline").touch()
    os.utime(tmp_path / "old.warpline", (1, 1))
    found = look({}, tmp_path / "root", tmp_path)
    assert [name for name, _ in found.recordings] == ["new.warpline", "old.warpline"]


def test_it_costs_little_and_imports_neither_torch_nor_numpy(tmp_path):
    # CPU time, not the clock; it takes some 10 ms.
    code = (
        "import sys, time\n"
        "from warpline.cli import main\n"
        "began = time.process_time()\n"
        "assert main([]) == 0\n"
        "used = time.process_time() - began\n"
        "assert used < 0.2, used\n"
        "assert not {'torch', 'numpy', 'polars'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)


def test_ages_are_in_words():
    assert [greeting._age(s) for s in (3, 61, 7200, 90_000, 200_000)] == [
        "now",
        "1 minute ago",
        "2 hours ago",
        "1 day ago",
        "2 days ago",
    ]
