"""Some programs of the harm test; all of them: python -m tests.gpu.harm (docs/harm.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SOME = ("graphs.*", "graph_lives.threads", "launches.threads", "contexts.reset", "endings.*s")


def test_recording_changes_nothing(tmp_path):
    command = [sys.executable, "-m", "tests.gpu.harm", "--out", str(tmp_path), "--limit", "240"]
    command += ["--build", str(tmp_path / "build"), "--only", *SOME]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert " 0 harmed, 0 with a flawed recording. 0 programs faulty" in done.stdout
