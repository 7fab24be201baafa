"""On a machine with a GPU and PyTorch: python -m pytest -m gpu tests/gpu."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpline

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
CAPTURED: Any = {"capture_output": True, "text": True}
PROGRAMS = ROOT / "benchmarks" / "capture" / "gpu_programs.py"


def profile(folder: Path, *words: str) -> tuple[warpline.Trace, str]:
    """Run `warpline profile` and return the recording and what was printed."""
    path = folder / "run.warpline"
    command = [sys.executable, "-m", "warpline", "profile", "-o", str(path), *words]
    done = subprocess.run(command, check=False, **CAPTURED, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return warpline.open(path), done.stdout + done.stderr


def kernel_names(trace: warpline.Trace) -> dict[str, int]:
    """Return how many kernels there are by name."""
    return {row[8]: row[2] for row in warpline.stats(trace, "cuda_gpu_kern_sum").rows()}


def test_all_that_torch_sees_is_recorded(tmp_path):
    seen = tmp_path / "torch.json"
    command = [sys.executable, str(PROGRAMS), "mixed", "30", "--kineto", str(seen)]
    subprocess.run(command, check=True, timeout=300)
    trace, printed = profile(tmp_path, sys.executable, str(PROGRAMS), "mixed", "30")
    told = json.loads(seen.read_text())
    ours = warpline.stats(trace, "cuda_gpu_kern_sum").rows()
    assert sorted(row[2] for row in ours) == sorted(told["kernels"].values())
    copied = warpline.stats(trace, "cuda_gpu_mem_size_sum").rows()
    assert sum(row[0] for row in copied if "memcpy" in row[7]) == told["copied_bytes"]
    assert "Kernels" in printed
    assert trace.meta.lost == {}


def test_work_belongs_to_the_ranges_that_launched_it(tmp_path):
    program = (
        "import torch\n"
        "x = torch.ones(1024, device='cuda')\n"
        "for step in range(3):\n"
        "    with torch.cuda.nvtx.range('step'):\n"
        "        for _ in range(7): x.add_(1)\n"
        "torch.cuda.synchronize()\n"
    )
    trace, _ = profile(tmp_path, sys.executable, "-c", program)
    result = warpline.stats(trace, "nvtx_kern_sum")
    names = [field.name for field in result.fields]
    rows = [dict(zip(names, row, strict=True)) for row in result.rows()]
    within = [(row["ranges"], row["instances"]) for row in rows if row["range"] is not None]
    assert within == [(3, 21)]


def test_a_capture_range_of_cuda_is_kept_to(tmp_path):
    program = (
        "import torch\n"
        "x = torch.ones(1024, device='cuda')\n"
        "def work(n):\n"
        "    for _ in range(n): x.add_(1)\n"
        "    torch.cuda.synchronize()\n"
        "work(50)\n"
        "torch.cuda.cudart().cudaProfilerStart()\n"
        "work(20)\n"
        "torch.cuda.cudart().cudaProfilerStop()\n"
        "work(50)\n"
    )
    words = ["-c", "cudaProfilerApi", "--capture-range-end=stop", sys.executable, "-c", program]
    trace, _ = profile(tmp_path, *words)
    assert sum(kernel_names(trace).values()) == 20


@pytest.mark.parametrize(("level", "kernels", "graphs"), [("graph", 0, 8), ("node", 40, 8)])
def test_graphs_are_recorded_at_either_level(tmp_path, level, kernels, graphs):
    program = (
        "import torch\n"
        "x = torch.ones(1024, device='cuda')\n"
        "x.add_(1); torch.cuda.synchronize()\n"
        "graph = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(graph):\n"
        "    for _ in range(5): x.mul_(2)\n"
        "for _ in range(8): graph.replay()\n"
        "torch.cuda.synchronize()\n"
    )
    trace, _ = profile(tmp_path, f"--cuda-graph-trace={level}", sys.executable, "-c", program)
    muls = [count for name, count in kernel_names(trace).items() if "Mul" in name or "mul" in name]
    assert sum(muls) == kernels
    assert trace.row_count("graph_launch") == graphs


def test_a_profile_in_process_sees_what_happens_in_it(tmp_path):
    program = (
        "import torch, warpline\n"
        "x = torch.ones(1024, device='cuda')\n"
        "def work(n):\n"
        "    for _ in range(n): x.add_(1)\n"
        "    torch.cuda.synchronize()\n"
        "work(10)\n"
        "for name, n in (('a', 20), ('b', 30)):\n"
        "    with warpline.profile(name + '.warpline'):\n"
        "        work(n)\n"
        "    work(10)\n"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], check=True, cwd=tmp_path, timeout=300
    )
    for name, count in (("a", 20), ("b", 30)):
        trace = warpline.open(tmp_path / f"{name}.warpline")
        assert sum(kernel_names(trace).values()) == count


def test_every_check_of_the_agent_holds(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    command = [sys.executable, str(ROOT / "benchmarks" / "capture" / "gpu_check.py")]
    for name in ("library", "complete", "correlations", "graphs", "windows", "detach", "ends"):
        command += ["--only", name]
    done = subprocess.run(command, check=False, **CAPTURED, env=environment, timeout=500)
    assert "BAD" not in done.stdout, done.stdout
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ok ") > 10
