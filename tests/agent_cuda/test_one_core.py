"""A program whose threads share a CPU core: the missing core is the cause, not the calls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline.capture.machine.perf import perf_obstacle, sampler_library
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.time_parts import TimePart
from warpline.trace import Run, Trace

PROGRAM = Path(__file__).parent / "programs" / "one_core.py"
STEPS, WORKERS = 60, 3


@pytest.fixture
def recorded(tmp_path: Path, cuda: Any) -> Trace:
    """The recording of the program, with context switches."""
    library = sampler_library(cuda.agent)
    obstacle = perf_obstacle(library) if library.exists() else None
    if not library.exists() or obstacle is not None:
        pytest.skip(obstacle.cause if obstacle else f"{library.name} is not built")
    cupti = tmp_path / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    cupti.parent.mkdir(parents=True)
    shutil.copy(cuda.cupti13, cupti)
    source, output = Path(warpline.__file__).parents[1], tmp_path / "run.warpline"
    command = [sys.executable, "-m", "warpline", "profile", "-q", "-t", "cuda,nvtx"]
    command += ["-s", "none", "--cpuctxsw=process-tree", "--gpu-health=off", "-o", str(output)]
    command += ["-e", f"PYTHONPATH={tmp_path / 'packages'}:{source}", "--", sys.executable]
    command += [str(PROGRAM), str(cuda.driver), str(cupti), str(STEPS), str(WORKERS)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return warpline.open(output)


def test_a_thread_without_a_core_does_not_wait_for_the_gpu(recorded: Trace) -> None:
    parts = step_partition(Run(recorded))
    idle_ns, whole_ns = parts.ns.sum(axis=0), int((parts.ns.sum(axis=1)).sum())
    # Four processes want the core, so each has it for a quarter of the time at most.
    assert idle_ns[TimePart.OS_WAIT] > 0.3 * whole_ns
    assert idle_ns[TimePart.HOST_SYNC] < 0.2 * idle_ns[TimePart.OS_WAIT]
    assert idle_ns[TimePart.LAUNCH_BOUND] < 0.5 * idle_ns[TimePart.OS_WAIT]
    found = {item.rule: item for item in warpline.analyze(recorded).findings}
    item = found["cpu-oversubscribed"]
    assert item.severity == "high"
    mean_idle_ns = float(idle_ns[TimePart.OS_WAIT]) / len(parts.ns)
    assert item.saving_ns is not None
    # More than what is idle for it where launches come sooner, too.
    assert 0.5 * mean_idle_ns < item.saving_ns < whole_ns / len(parts.ns)
    others = [found[name].saving_ns or 0 for name in ("host-sync", "launch-bound") if name in found]
    assert max(others, default=0) < item.saving_ns
