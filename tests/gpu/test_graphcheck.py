"""On a machine with a GPU and PyTorch: planted offenders are found, replays are compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

from gpu.graphcheck import programs  # noqa: E402 - it imports torch

import warpline  # noqa: E402

PROGRAM = Path(programs.__file__)
KINDS = {each.__name__: kinds for each, kinds in programs.PLANTED.items()}


def check(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "warpline", "graphcheck", "-q", "--format", "json", "--"]
    done = subprocess.run(
        [*command, sys.executable, str(PROGRAM), name], check=False, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == found["status"]
    return found


@pytest.mark.parametrize("name", programs.CLEAN)
def test_steps_without_offenders(name):
    found = check(name)
    assert (found["verdict"], found["offenders"]) == ("yes", [])


@pytest.mark.parametrize("name", KINDS)
def test_planted_offenders(name):
    found = check(name)
    at = f"programs.py:{programs.planted_line(name)} "
    assert any(
        item["kind"] in KINDS[name] and item["place"].startswith(at) for item in found["offenders"]
    )
    assert all(item["kind"] in KINDS[name] for item in found["offenders"])


@pytest.mark.parametrize("name", programs.CLEAN)
def test_replays_do_what_the_step_does(name):
    step = programs.PROGRAMS[name]()
    found = warpline.torch.graphcheck(lambda: step(0))
    assert found.verdict == "yes", str(found)
    assert found.has_same_kernels in (True, None)


def test_a_capture_that_fails_names_the_line():
    step = programs.PROGRAMS["item"]()
    found = warpline.torch.graphcheck(lambda: step(0))
    assert not found.is_captured
    assert found.place.startswith(f"programs.py:{programs.planted_line('item')} ")
