"""``warpline profile --gpu-health``: what users see of it."""

from __future__ import annotations

import pytest
from support.launching import needs_agent, profile, python

import warpline
from warpline.capture.flags.parsing import parse
from warpline.errors import UsageError

PROGRAM = """\
import nvtx
with nvtx.annotate('work'):
    pass
"""


@pytest.mark.parametrize(
    ("word", "hz"),
    [
        *((word, 0) for word in ("off", "0", "false", "none", "NO")),
        *((word, 1) for word in ("1", "true", "on", "Yes")),
        ("10", 10),
        ("0.2", 0.2),
    ],
)
def test_its_values(word: str, hz: float) -> None:
    assert parse([f"--gpu-health={word}", "x"]).gpu_health == hz


def test_it_is_once_a_second_by_default() -> None:
    assert parse(["x"]).gpu_health == 1
    assert parse(["--gpu-health", "--", "x"]).gpu_health == 1


@pytest.mark.parametrize("word", ["-1", "1000", "fast", "nan", "inf", "0.001", "1e9", ""])
def test_other_values(word: str) -> None:
    if word:
        with pytest.raises(UsageError, match="expected off, or a number"):
            parse([f"--gpu-health={word}", "x"])


def test_the_machine_and_the_program_are_in_the_recording(tmp_path):
    needs_agent()
    code = f"""{PROGRAM}
import os, pathlib, time
readings = pathlib.Path(os.environ["WARPLINE_SESSION"], "host_health.readings")
while readings.stat().st_size < 1000:  # the first line and two rows
    time.sleep(0.01)
"""
    words = ["-o", "run", *python(tmp_path, code)]
    assert profile(tmp_path, *words).status == 0
    trace = warpline.open(tmp_path / "run.warpline")
    frame = trace["host_health"]
    machine = frame.filter(frame["process_id"].is_null())
    assert len(machine) >= 1
    assert min(machine["memory_bytes"].to_list()) > 1 << 20
    assert not trace.has("gpu_error")
    assert not list(tmp_path.glob("*.raw"))


def test_off_means_none(tmp_path):
    needs_agent()
    words = ["-o", "run", "--gpu-health=off", *python(tmp_path, PROGRAM)]
    assert profile(tmp_path, *words).status == 0
    assert not warpline.open(tmp_path / "run.warpline").has("host_health")
