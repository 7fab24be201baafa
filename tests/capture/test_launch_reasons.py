"""The reason for an empty recording, in one line and as specific as possible."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.launching import needs_agent, profile, python

from warpline.capture.flags.parsing import parse
from warpline.capture.launcher import reasons
from warpline.capture.launcher.ending import Ending
from warpline.capture.machine.processes import cannot_be_recorded
from warpline.capture.session.control import Counters

NOTHING = Counters(0, 0, 0, 0, 0, 0, False, 0, "")


def why(
    line: str,
    counters: Counters = NOTHING,
    *,
    seconds: float = 5.0,
    ending: Ending | None = None,
    unrecorded: tuple[str, ...] = (),
) -> str:
    """Return the reason for a run of these words."""
    options = parse([*line.split(), "python"])
    executable = Path(sys.executable)
    ended = ending or Ending()
    evidence = reasons.Evidence(options, counters, ended, executable, seconds, unrecorded)
    return reasons.why_nothing(evidence).text


def counted(**changes: object) -> Counters:
    """Return counters of a run in which NVTX was bound."""
    return replace(NOTHING, attached=1, nvtx_bound=1, **changes)  # type: ignore[arg-type]


def test_each_reason_is_told_before_those_that_follow_from_it():
    lost = Ending(unrecorded={7: "worker"})
    assert why("-t vulkan -c nvtx -p x").startswith("-t vulkan selects no supported API")
    assert why("", replace(NOTHING, agent_errors=1, first_error="no room")).endswith("no room")
    assert why("", counted(out_of_space=True)) == "the disk was full"
    assert why("-y 9", ending=lost).startswith("the program ended after 5.0 s, before --delay")
    assert why("-c nvtx -p x", ending=lost).startswith("process 7 (worker) was not recorded")
    small = Ending(unloadable={"/bin/x": "is a 32-bit program"})
    assert why("", ending=small) == "/bin/x is a 32-bit program"
    held = ("X holds CUPTI; stop it",)
    assert why("-c nvtx -p x", counted(), unrecorded=held) == "X holds CUPTI; stop it"
    assert why("-c nvtx -p x", counted(range_misses=1)).startswith("-p matched no range")
    assert why("-c nvtx -p x", counted()).startswith("range 'x' of -p never started")
    excluded = "--nvtx-domain-include a,b excluded all events"
    assert why("--nvtx-domain-include=a,b", counted()) == excluded
    assert why("", counted()).startswith("NVTX was loaded, but not called")
    assert why("") == "no process called NVTX or CUDA"
    assert why("-t nvtx") == "no process called NVTX"
    assert why("-t cuda") == "no process called CUDA"
    assert why("-t cuda -c nvtx -p x", counted()) == "no process called CUDA"
    assert why("-t cuda --steps 1 --every 5", counted()) == "no process called CUDA"
    used = replace(NOTHING, attached=1, cuda_bound=1)
    assert why("", used).startswith("CUDA was loaded, but not called")
    assert why("-t osrt") == "the agent could not be loaded"
    silent = why("-t cuda,osrt --osrt-threshold 5000000", replace(NOTHING, attached=1))
    assert silent == "no call of the C library took 5,000,000 ns while recording was on"
    told = "the program never called cudaProfilerStart"
    assert why("-c cudaProfilerApi", used) == told


def test_lost_children_are_counted():
    assert reasons.unrecorded(Ending()) is None
    several = reasons.unrecorded(Ending(unrecorded={7: "a", 8: "b", 9: "c"}))
    assert several is not None
    assert several.startswith("process 7 (a) and 2 others were not recorded")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-c", "nvtx", "-p", "none"], "-p matched no range: no range is named 'none'"),
        (["-c", "nvtx", "-p", "r@elsewhere"], "in domain 'elsewhere'"),
        (["--nvtx-domain-include", "other"], "--nvtx-domain-include other excluded all events"),
        (["-y", "30"], "before --delay 30 elapsed"),
        (["-t", "vulkan"], "-t vulkan selects no supported API"),
    ],
)
def test_a_program_with_ranges(tmp_path, words, expected):
    needs_agent()
    program = python(tmp_path, "import nvtx\nwith nvtx.annotate('r'): pass\n")
    found = profile(tmp_path, *words, *program)
    (line,) = (text for text in found.err.splitlines() if "nothing was recorded" in text)
    assert expected in line
    assert "next:" not in found.err
    assert found.status == 0


def test_a_program_without_nvtx(tmp_path):
    needs_agent()
    found = profile(tmp_path, "true")
    assert found.err.splitlines() == [
        "warning: nothing was recorded: no process called NVTX or CUDA",
        "hint: add ranges with nvtx, torch.cuda.nvtx or python -m warpline.annotate SCRIPT",
        "note: wrote report1.warpline",
    ]


def test_a_child_with_an_environment_of_its_own(tmp_path):
    needs_agent()
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(1)'], env={'A': '1'})\n"
    )
    found = profile(tmp_path, *python(tmp_path, code))
    assert "was not recorded: WARPLINE_SESSION is missing from its environment" in found.err


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A program into which nothing can be loaded."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }")
    made = subprocess.run(
        ["cc", "-static", "-o", tmp_path / "static", source], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("there is no static C library")
    return tmp_path / "static"


def test_a_static_program(tmp_path, static):
    needs_agent()
    assert "static is statically linked" in profile(tmp_path, str(static)).err


def test_why_a_file_cannot_be_recorded(tmp_path):
    assert cannot_be_recorded(sys.executable) is None
    assert cannot_be_recorded(str(tmp_path / "none")) is None
    head = bytearray(Path(sys.executable).read_bytes()[:64])
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert cannot_be_recorded(str(script)) is None
    for offset, value, expected in ((4, 1, "32-bit"), (18, 0xFE, "another CPU architecture")):
        changed = head.copy()
        changed[offset] = value
        script.write_bytes(changed)
        assert expected in (cannot_be_recorded(str(script)) or "")
    script.write_bytes(head[:40])
    assert cannot_be_recorded(str(script)) is None
