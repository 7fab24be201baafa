"""Readings and sampled metrics of GPUs in recordings of programs that run already.

Stand-ins for NVIDIA's libraries, which the commands find, have two GPUs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from capture.stand_ins import compiled

import warpline
from warpline.capture.session.readings import read_readings
from warpline.capture.session.sample_file import read_samples

WAIT_S = 60.0
WARPLINE = [sys.executable, "-m", "warpline"]
FLAGS = ("-t", "none", "--gpu-health=50", "--gpu-metrics-devices=all", "--no-summary")
PROGRAM = "cat"  # no Python, which may have a CUPTI of its own


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


class Started:
    """A command in a folder, with standard input to end it."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, output


@pytest.fixture
def start(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Sequence[str]], Started]]:
    """Return a function that starts a command with the stand-ins."""
    assert agent.is_file()
    libraries = tmp_path / "lib64"
    libraries.mkdir()
    for name in ("libcuda.so.1", "libcupti.so.13"):
        (libraries / name).write_bytes(compiled("fake_pm_sampling.c"))
    (libraries / "libnvidia-ml.so.1").write_bytes(compiled("fake_nvml.c"))
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("FAKE_PM_VIOLATIONS", str(tmp_path / "violations"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    started: list[Started] = []

    def run(command: Sequence[str]) -> Started:
        started.append(Started(tmp_path, command))
        return started[-1]

    yield run
    for each in started:
        each.process.kill()
        each.process.communicate()
    violations = tmp_path / "violations"
    assert not violations.exists() or violations.read_text() == ""


def has_samples(raw: Path) -> bool:
    """Return whether readings and metrics of both GPUs have been written."""
    readings, samples = read_readings(raw, "gpu_health"), read_samples(raw)
    if readings is None or readings.rows < 4 or samples is None:
        return False
    return len(samples.gpus) == 2 and all(gpu.blocks for gpu in samples.gpus.values())


def check(recording: Path) -> None:
    """Check that both GPUs were read to the end; the program did not use them."""
    trace = warpline.open(recording)
    assert trace.row_count("host_health") > 0
    assert "metrics of 2 GPUs are left out" in "\n".join(trace.meta.warnings)


def test_of_a_session_twice(start: Callable[[Sequence[str]], Started], tmp_path: Path) -> None:
    words = [*WARPLINE, "launch", "-q", "--session=s1", *FLAGS, "--", PROGRAM]
    program = start(words)
    wait_until((tmp_path / "runtime" / "warpline" / "s1" / "socket").exists)
    for name in ("one", "two"):
        subprocess.run([*WARPLINE, "start", "-o", name], check=True, cwd=tmp_path)
        wait_until(lambda: has_samples(tmp_path / f"{name}.warpline.raw"))  # noqa: B023
        subprocess.run([*WARPLINE, "stop"], check=True, cwd=tmp_path)
        check(tmp_path / f"{name}.warpline")
    assert program.end() == (0, "")


def test_of_a_program_that_is_attached_to(
    start: Callable[[Sequence[str]], Started], tmp_path: Path
) -> None:
    program = start([PROGRAM])
    attached = start([*WARPLINE, "attach", *FLAGS, "-o", "run", str(program.process.pid)])
    wait_until(lambda: has_samples(tmp_path / "run.warpline.raw"))
    assert program.end() == (0, "")
    assert attached.end() == (0, "")
    check(tmp_path / "run.warpline")


def test_a_metric_that_no_gpu_has_is_refused(
    start: Callable[[Sequence[str]], Started], tmp_path: Path
) -> None:
    program = start([PROGRAM])
    words = [*WARPLINE, "attach", "-t", "none", "--gpu-metrics-devices=7"]
    done = subprocess.run(
        [*words, str(program.process.pid)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2].startswith("error: ")
    assert not [*tmp_path.glob("report*")]
    assert program.end() == (0, "")
