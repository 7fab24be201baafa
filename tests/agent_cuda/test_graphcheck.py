"""``warpline graphcheck`` of a Python program that uses CUDA: lines, and the exit status."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import launching

import warpline
from warpline import native

pytestmark = [
    pytest.mark.skipif(native.core() is None, reason="needs the native core"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="Python stacks: x86-64 layouts"),
]

PROGRAM = Path(__file__).parent / "programs" / "graph_steps.py"
LINE = 1 + next(
    number
    for number, line in enumerate(PROGRAM.read_text(encoding="utf-8").splitlines())
    if line.endswith("# the line of the offender")
)


@pytest.fixture
def check(tmp_path: Path, cuda: Any) -> Any:
    """Return a function that checks the program with more words."""
    library = tmp_path / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    library.parent.mkdir(parents=True)
    shutil.copy(cuda.cupti13, library)
    source = Path(warpline.__file__).parents[1]

    def run(*words: str) -> tuple[dict[str, Any], int]:
        command = [sys.executable, "-m", "warpline", "graphcheck", "-q", "--format", "json"]
        command += ["-e", f"PYTHONPATH={tmp_path / 'packages'}:{source}", "--"]
        command += [sys.executable, str(PROGRAM), str(cuda.driver), str(library), *words]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env=launching.environment(),
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done.returncode

    return run


def test_an_offender_with_its_line(check: Any) -> None:
    found, status = check("20", "waits")
    assert (found["verdict"], status) == ("no", 3)
    (offender,) = found["offenders"]
    assert offender["kind"] == "synchronization"
    assert offender["place"] == f"graph_steps.py:{LINE} wait"
    assert offender["per_step"] == 1
    assert offender["steps"] == offender["of_steps"] >= 5  # others may be outliers under load


def test_steps_without_an_offender(check: Any) -> None:
    found, status = check("20")
    assert (found["verdict"], status) == ("yes", 0)
    assert found["steps"]["launches"] == 4
    assert found["saving"] is not None
