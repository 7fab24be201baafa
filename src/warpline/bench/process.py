"""Runs a benchmark in a process of its own, and returns its rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline import progress
from warpline.capture.machine.gpus import probe_environment
from warpline.errors import BenchmarkError

_MODULE = "warpline.bench.worker"


def measure(
    benchmark: str,
    points: Sequence[Mapping[str, Any]],
    backends: Sequence[str],
    device: int,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """Run a benchmark.

    Args:
        benchmark: ``gemm``, ``copy`` or ``launch``.
        points: What to measure, from the module of the benchmark.
        backends: Backends by name; the first that works is used.
        device: Number of the GPU.
        environment: Environment of the process.

    Returns:
        ``benchmark``, ``device``, ``backend``, ``launched`` (the kernel), ``versions``, ``refused``
        (backends that cannot be used, with the reason), and ``rows``: what was measured of each
        point, or a row with the ``reason`` why not.

    Raises:
        BenchmarkError: Nothing can be measured.
    """
    request = {
        "benchmark": benchmark,
        "device": device,
        "backends": list(backends),
        "points": list(points),
    }
    found: dict[str, Any] = {"benchmark": benchmark, "versions": {}}
    rows: dict[int, list[dict[str, Any]]] = {}
    is_whole = False
    with subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=probe_environment(environment),
        encoding="utf-8",
    ) as process:
        try:
            _send(process, request)
            for line in _with_progress(_answers(process), len(points)):
                if "failed" in line:
                    raise BenchmarkError(
                        f"cannot run the benchmark: {line['failed']}", hint=_hint(line["failed"])
                    )
                if "row" in line:
                    rows.setdefault(line["point"], []).append(line["row"])
                else:
                    found.update(line)
                    is_whole = "versions" in line
        finally:
            process.kill()
    crash = None if is_whole else f"the benchmark's process {_crash(process.returncode)}"
    if "backend" not in found:
        raise BenchmarkError(str(crash), hint="run nvidia-smi")
    found["rows"] = [
        row
        for number, point in enumerate(points)
        for row in rows.get(number, [{**point, "reason": crash}])
    ]
    return found


def _send(process: subprocess.Popen[str], request: Mapping[str, Any]) -> None:
    assert process.stdin is not None  # a pipe
    try:
        process.stdin.write(json.dumps(request))
        process.stdin.close()
    except BrokenPipeError:
        pass  # its end is reported by the caller


def _answers(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None  # a pipe
    for line in process.stdout:
        if line.endswith("\n"):  # else it ended amid a line
            yield json.loads(line)
    process.wait()


def _with_progress(lines: Iterator[dict[str, Any]], points: int) -> Iterator[dict[str, Any]]:
    last = -1
    with progress.task("Measuring", points) as advance:
        for line in lines:
            if line.get("point", last) != last:
                last = line["point"]
                advance(1)
            yield line


def _crash(status: int) -> str:
    return f"crashed (signal {-status})" if status < 0 else f"ended with status {status}"


def _hint(reason: str) -> str:
    if "driver" in reason or "GPU" in reason:
        return "run warpline doctor and nvidia-smi"
    return "use --backend ctypes, which needs the NVIDIA driver and, for GEMMs, cuBLAS"
