"""The GPUs of this machine, and whether their counters can be used: `gpu_probe` asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.machine.agent import CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE
from warpline.capture.machine.obstacles import Obstacle, obstacle
from warpline.errors import CounterError

_MODULE = "warpline.capture.machine.gpu_probe"
LIMIT_S = 60.0  # without persistence mode, drivers take seconds per GPU to start
_INSTEAD = (
    "without a GPU, warpline kernels plan --chip GH100 plans counters, and warpline kernels"
    " FILE.ncu-rep prints a report"
)
_INSTALL = "run pip install nvidia-cuda-cupti in the program's Python environment"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_MISMATCHED = {34, 803, 804}  # of cuInit: a stub, or versions that do not fit


@dataclass(frozen=True)
class Gpu:
    """A GPU that programs see.

    Attributes:
        index: Its number among those that CUDA_VISIBLE_DEVICES shows.
        name: Its name, such as ``NVIDIA H100 80GB HBM3``.
        chip: Its chip, such as ``GH100``; None if it is unknown to CUPTI.
        obstacle: What keeps its counters from being used; None if nothing is known to.
        is_tried: Whether using the counters was tried.
    """

    index: int
    name: str
    chip: str | None
    obstacle: Obstacle | None
    is_tried: bool


@dataclass(frozen=True)
class Gpus:
    """The GPUs that programs see, and the CUPTI that knows them.

    Attributes:
        gpus: At least one.
        cupti: The library.
        version: What `cuptiGetVersion` says of it, such as 130400 for 13.4.
    """

    gpus: tuple[Gpu, ...]
    cupti: Path
    version: int = 0

    @property
    def tried(self) -> Gpu:
        """The GPU whose counters were tried; the first one if none could be opened."""
        return next((gpu for gpu in self.gpus if gpu.is_tried), self.gpus[0])


def find_gpus(
    environment: Mapping[str, str],
    libraries: Iterable[Path],
    opened: Sequence[int] = (),
    *,
    limit_s: float = LIMIT_S,
) -> Gpus:
    """Return the GPUs that a program with this environment sees.

    Args:
        environment: The program's environment.
        libraries: CUPTI libraries, the best one first; the first that can count is used.
        opened: Numbers of the GPUs whose counters are tried; empty for the first one.
        limit_s: How long the driver may take.

    Raises:
        CounterError: There is no GPU, driver or CUPTI that can count, or they do not answer.
    """
    paths = list(libraries)
    if not paths:
        _check_driver(_ask(environment, None, opened, limit_s))
        raise CounterError("CUPTI was not found", hint=f"{_INSTALL}, or install a CUDA toolkit")
    problems = []
    for path in paths:
        said = _ask(environment, path, opened, limit_s)
        _check_driver(said)
        problem = said.get("problem") or (
            f"CUPTI error {said['profiler']}" if said["profiler"] else None
        )
        if problem is None:
            return Gpus(tuple(map(_gpu, said["gpus"])), path, said.get("cupti", 0))
        problems.append(f"{path}: {problem}")
    raise CounterError(
        f"no CUPTI can collect counters with this driver: {problems[0]}",
        hint=f"CUPTI 12.6 or later that fits the driver is required: {_INSTALL}",
    )


def _gpu(said: Mapping[str, Any]) -> Gpu:
    return Gpu(
        said["index"],
        said["name"],
        said["chip"],
        obstacle(said["counters"], said["support"]),
        said["counters"] is not None,
    )


def _check_driver(said: Mapping[str, Any]) -> None:
    """Raise CounterError if there is no GPU that CUDA can use."""
    if "no_driver" in said:
        raise CounterError("no NVIDIA driver was found (libcuda.so.1)", hint=_INSTEAD)
    if said["cuda"] in _MISMATCHED:
        raise CounterError(
            f"the NVIDIA driver cannot be used (CUDA error {said['cuda']}): its parts, or the"
            " container and the host, have different versions",
            hint="restart after an update of the driver, or update it",
        )
    if said["cuda"] not in {0, _NO_DEVICE}:
        raise CounterError(
            f"CUDA cannot be initialized (error {said['cuda']})", hint="run nvidia-smi"
        )
    if said["cuda"] == _NO_DEVICE or not said["gpus"]:
        raise CounterError("no GPU was found; CUDA_VISIBLE_DEVICES may hide it", hint=_INSTEAD)


def _ask(
    environment: Mapping[str, str], path: Path | None, opened: Sequence[int], limit_s: float
) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", _MODULE, str(path or ""), *map(str, opened)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=probe_environment(environment),
            encoding="utf-8",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CounterError(
            f"the GPU driver did not answer within {limit_s:g} s", hint="run nvidia-smi"
        ) from None
    if done.returncode or not done.stdout.endswith("\n"):
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        if path is None:
            raise CounterError(f"the NVIDIA driver crashed ({how})", hint="run nvidia-smi")
        said = _ask(environment, None, opened, limit_s)  # is it the driver?
        return said | {"problem": f"it crashed ({how})"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def probe_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the program's environment for a Python process of ours, without other tools."""
    own = dict(environment)
    for name in (CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE, "LD_PRELOAD", "PYTHONSTARTUP"):
        own.pop(name, None)
    for name in ("PYTHONHOME", "PYTHONINSPECT"):
        own.pop(name, None)
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    own["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return own
