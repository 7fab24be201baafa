"""``warpline profile --gpu-metrics-devices`` of the fake program, with stand-ins of libraries."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from capture.stand_ins import compiled
from support.launching import TIMEOUT_S, until

import warpline
from warpline import native
from warpline.capture.session.sample_file import NAME
from warpline.derived.metrics.series import metric_series
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

# The UUID of the fake program's GPU.
UUID = "GPU-00112233-4455-6677-8899-aabbccddeeff"


class Machine:
    """A directory with the libraries, and the commands that run in it."""

    def __init__(self, folder: Path, cuda: Any) -> None:
        self._folder = folder
        self._cuda = cuda
        # The program's CUPTI is found first and has no PM sampling.
        self._cupti = folder / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
        toolkit = folder / "toolkit" / "extras" / "CUPTI" / "lib64" / "libcupti.so.13"
        self._libraries = folder / "libraries"
        for place in (self._cupti.parent, toolkit.parent, self._libraries):
            place.mkdir(parents=True)
        shutil.copy(cuda.cupti13, self._cupti)
        for place in (toolkit, self._libraries / "libcuda.so.1"):
            place.write_bytes(compiled("fake_pm_sampling.c"))
        (self._libraries / "libnvidia-ml.so.1").write_bytes(compiled("fake_nvml.c"))
        self.violations = folder / "violations"
        self.output = folder / "run.warpline"

    def start(
        self, *words: object, flags: tuple[str, ...] = (), more: Mapping[str, str] | None = None
    ) -> Any:
        """Start a recording of the program."""
        command = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true"]
        command += ["-o", str(self.output), "-e", f"PYTHONPATH={self._folder / 'packages'}"]
        command += ["--gpu-metrics-devices=0", *flags, "--"]
        command += self._cuda.command("init", "launch", 5, *words, cupti=self._cupti)
        own = {
            "CUDA_HOME": str(self._folder / "toolkit"),
            "LD_LIBRARY_PATH": str(self._libraries),
            "FAKE_PM_VIOLATIONS": str(self.violations),
            "FAKE_PM_COUNTS": "1",
            "FAKE_NVML_UUID": UUID,
        }
        return subprocess.Popen(
            command,
            env={**os.environ, **own, **(more or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def samples(self) -> Path:
        """Return the file of samples of the recording in progress."""
        return self._folder / "run.warpline.raw" / NAME

    def go_on(self) -> None:
        """Let the program go on."""
        (self._folder / "go").touch()

    @property
    def wait(self) -> tuple[str, Path]:
        """What the program does until it may go on."""
        return "wait", self._folder / "go"


@pytest.fixture
def machine(tmp_path: Path, cuda: Any) -> Machine:
    return Machine(tmp_path, cuda)


def has(machine: Machine, size: int) -> Callable[[], bool]:
    return lambda: machine.samples().is_file() and machine.samples().stat().st_size >= size


def are_samples_right(trace: Trace) -> bool:
    """Return whether the values of all metrics are those of the stand-in, without a gap."""
    found = metric_series(trace)
    for metric, one in enumerate(found):
        numbers = (one.value / (metric + 1)).round().astype(int).tolist()
        if any(after != before % 1000 + 1 for before, after in pairwise(numbers)):
            return False
        if (one.start_ns[1:] != one.end_ns[:-1]).any():
            return False
    return len(found) == 14 and len(found[0]) > 1000


def test_metrics_are_in_the_recording(machine: Machine) -> None:
    process = machine.start(*machine.wait, "launch", 3)
    until(has(machine, 50_000))
    machine.go_on()
    out, error = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (0, "")
    assert error.endswith("run.warpline\n")
    assert "warning" not in error
    trace = warpline.open(machine.output)
    assert (trace.meta.warnings, trace.meta.lost) == ((), {})
    assert len(trace["kernel"]) == 8
    assert are_samples_right(trace)
    assert any("14 metrics sampled 10,000 times" in t for t in trace["diagnostic"]["text"])
    assert not machine.violations.exists()
    low, high = trace.meta.span_ns or (0, 0)
    series = metric_series(trace)[0]
    assert low < series.start_ns[0] < series.end_ns[-1] < high + 1_000_000_000


def test_only_what_is_recorded_keeps_its_samples(machine: Machine) -> None:
    flags = ("-c", "cudaProfilerApi", "--capture-range-end=none")
    process = machine.start(*machine.wait, flags=flags)
    until(lambda: machine.samples().is_file() and machine.samples().stat().st_size)
    time.sleep(0.3)
    machine.go_on()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert not warpline.open(machine.output).has("counter_block")


def test_a_killed_launcher_leaves_a_session_with_the_samples(machine: Machine) -> None:
    process = machine.start(*machine.wait)
    until(has(machine, 50_000))
    process.send_signal(signal.SIGKILL)
    machine.go_on()
    process.communicate(timeout=TIMEOUT_S)
    folder = machine.samples().parent
    until(lambda: b"is_complete" in machine.samples().read_bytes())
    command = [sys.executable, "-m", "warpline", "recover", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert are_samples_right(warpline.open(machine.output))


def test_without_rights_there_is_a_warning_and_the_programs_status(machine: Machine) -> None:
    more = {
        "FAKE_PM_REFUSE": "cuptiPmSamplingGetCounterAvailability=35",
        "FAKE_NVML_GPM": "1",
    }
    process = machine.start(*machine.wait, "exit", 3, more=more)
    until(has(machine, 1500))
    machine.go_on()
    _, error = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 3
    assert "warning: GPU metrics were not sampled: this user may not read GPU counters" in error
    assert "NVML was read 10 times a second instead." in error
    trace = warpline.open(machine.output)
    names = {one.name: one for one in metric_series(trace)}
    assert {*names["gpm__sm_util.pct"].value} == {42.0}


def test_a_metric_that_does_not_fit_is_refused_before_the_start(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("sm__cycles_active.avg\nno.such\n")
    flags = (f"--gpu-metrics-set={tmp_path / 'mine'}",)
    process = machine.start("touch", tmp_path / "ran", flags=flags)
    out, error = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (2, "")
    assert error.startswith("error: no.such cannot be sampled on GPU 0 (Fake GPU)")
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("*.warpline*"))
