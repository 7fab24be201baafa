"""Millions of ranges from C: all are recorded, and the program's memory does not grow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "capture" / "long_run.c"
LINE = re.compile(r"(\d+) ranges  private (\d+) kB  shared (\d+) kB")


@pytest.fixture
def long_run(tmp_path):
    """The program, built; skips where there is no compiler or no NVTX header."""
    compiler = os.environ.get("CC", "cc")
    packages = Path(sysconfig.get_path("platlib")) / "nvidia"
    places = [*packages.glob("*/include"), Path("/usr/local/cuda/include")]
    found = [place for place in places if (place / "nvtx3" / "nvToolsExt.h").is_file()]
    if shutil.which(compiler) is None or not found:
        pytest.skip("needs a C compiler and NVTX's headers")
    target = tmp_path / "long_run"
    command = [compiler, "-O2", f"-I{found[0]}", str(SOURCE), "-o", str(target), "-ldl"]
    subprocess.run(command, check=True)
    return target


@pytest.mark.parametrize(
    "count", [100_000, pytest.param(10_000_000, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_memory_is_flat_and_nothing_is_lost(lab, long_run, count):
    run = lab.profile([str(long_run), str(count)])
    assert run.status == 0, run.said
    lines = [[int(word) for word in found] for found in LINE.findall(run.stdout.decode())]
    assert [ranges for ranges, _, _ in lines] == [count // 10 * part for part in range(1, 11)]
    private = [kb for _, kb, _ in lines]
    assert max(private) - private[0] <= 128, run.stdout
    assert max(shared for _, _, shared in lines) < 16 << 10
    found = run.recording
    assert found.lost == 0
    recorded = found.totals()
    assert sum(recorded.values()) == count
    assert recorded["layer"] == count - count // 1000
    assert len(recorded) == 1 + min(count // 1000, 5000)
