"""Every reader on some damaged files; benchmarks/fuzz.py does it for longer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import kineto_files, memory_snapshots

import warpline

MUTANTS = 12
LONGEST_S = 60  # of one, also on a busy machine: a hang takes for ever


def recording(capture: Callable[[str], Path], folder: Path) -> list[Path]:
    trace = warpline.open(capture("pageable_h2d.fixed"))
    return [warpline.export(trace, folder / "run.warpline", "warpline")]


def nsys(capture: Callable[[str], Path], _: Path) -> list[Path]:
    return [capture("cuda_graph_level"), capture("pageable_h2d.fixed")]


def kineto(_: Callable[[str], Path], folder: Path) -> list[Path]:
    packed = kineto_files.FOLDER / "pageable_h2d.bad.json.gz"
    return [packed, kineto_files.unpack("fp32_matmul.fixed", folder)]


def memory(_: Callable[[str], Path], folder: Path) -> list[Path]:
    data = Path(__file__).parents[1] / "data"
    return [memory_snapshots.unpack(data, name, folder) for name in ("leak", "graph")]


@pytest.mark.parametrize("originals", [recording, nsys, kineto, memory])
def test_no_damage_ends_in_a_traceback_a_crash_or_a_hang(
    originals: Callable[[Callable[[str], Path], Path], list[Path]],
    capture: Callable[[str], Path],
    repository: Path,
    tmp_path: Path,
) -> None:
    command = [sys.executable, repository / "benchmarks" / "fuzz.py"]
    command += originals(capture, tmp_path)
    limits = ["--mutants", str(MUTANTS), "--seconds", str(LONGEST_S)]
    run = subprocess.run(
        [*map(str, command), *limits, "--keep", str(tmp_path / "kept")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    count = re.search(r"^(\d+) mutants in", run.stdout, re.MULTILINE)
    assert count is not None
    assert int(count[1]) == MUTANTS
