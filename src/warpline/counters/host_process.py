"""CUPTI's profiler host in a process of its own, which may crash without harm to this one.

CUPTI is foreign code that gets names from the command line, and 13.2 overflows its stack without a
driver. It also loads NvPerf by its bare name: in a process that has another version of it, such as
a notebook with PyTorch, it would get that one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Self

from warpline.counters.profiler_host import COLLECTIONS, WITHOUT_CUPTI
from warpline.errors import CounterError
from warpline.frozen import frozen

_MODULE = "warpline.counters.profiler_host"
_NOT_SUPPORTED = 27  # CUPTI_ERROR_NOT_SUPPORTED
_INSTALL = "pip install nvidia-cuda-cupti"
_INTERNAL_VERSIONS = 100_000  # CUPTI 12 numbers its versions from 18
PROFILING, PM_SAMPLING = COLLECTIONS


class RefusedError(CounterError):
    """CUPTI refused a question.

    Args:
        message: What was refused.
        status: The CUptiResult.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_unsupported(self) -> bool:
        """Whether CUPTI knows what was asked for, and does not support it."""
        return self.status == _NOT_SUPPORTED


@frozen
class Metric:
    """A base metric of a chip.

    Attributes:
        name: Its name, without a rollup: ``sm__inst_executed``.
        kind: ``counter``, ``ratio`` or ``throughput``.
        unit: Unit of the value; empty for ratios of two numbers of the same unit.
        hw_unit: The unit of the GPU that is counted: ``sm``, ``l1tex``, ``lts``.
        description: NVIDIA's description.
    """

    name: str
    kind: str
    unit: str
    hw_unit: str
    description: str


@frozen
class Passes:
    """How often a kernel must run to count some metrics together.

    Attributes:
        count: The number of passes.
        of_metric: For each metric, the passes (from 0) that it is counted in; None if unknown.
        counters: For each pass, the number of its hardware counters; None if unknown.
    """

    count: int
    of_metric: tuple[tuple[int, ...], ...] | None
    counters: tuple[int, ...] | None


class HostProcess:
    """CUPTI in a process of its own, for the time of a ``with`` block.

    Args:
        paths: libcupti libraries; the first that works is used, or whose NvPerf does.

    Attributes:
        path: The library in use.
        version: What it calls its version: ``13.0`` or, before CUDA 13, ``API version 28``; None
            if NvPerf answers alone.
        with_cupti: Whether CUPTI itself answers, or NvPerf alone.

    Raises:
        CounterError: None of them works.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        if not paths:
            raise CounterError(
                "CUPTI was not found", hint=f"{_INSTALL}, or install a CUDA toolkit with CUPTI"
            )
        problems = []
        for path, with_cupti in product(paths, (True, False)):
            try:
                self._start(path, with_cupti=with_cupti)
            except CounterError as error:
                problems.append(error)
            else:
                return
        raise problems[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def chips(self) -> list[str]:
        """Return the names of the chips that CUPTI knows."""
        return list(self._chips)

    def metrics(self, chip: str, collection: str = PROFILING) -> list[Metric]:
        """Return the base metrics of a chip, in alphabetical order.

        Raises:
            RefusedError: This CUPTI has no metrics of the chip.
        """
        found = self._ask("metrics", chip, collection)
        return sorted((Metric(*item) for item in found), key=lambda item: item.name)

    def sub_metrics(self, chip: str, collection: str = PROFILING) -> Mapping[str, Sequence[str]]:
        """Return what may follow the base names, by kind of metric."""
        found: Mapping[str, Sequence[str]] = self._ask("sub_metrics", chip, collection)
        return found

    def passes(self, chip: str, names: Sequence[str], collection: str = PROFILING) -> Passes:
        """Return the passes that metrics take together.

        Raises:
            RefusedError: An unknown metric, or metrics that cannot be counted together.
        """
        found = self._ask("passes", chip, list(names), collection)
        of_metric, counters = found["of_metric"], found["counters"]
        return Passes(
            found["passes"],
            None if of_metric is None else tuple(map(tuple, of_metric)),
            None if counters is None else tuple(counters),
        )

    def one_pass_groups(
        self, chip: str, names: Sequence[str], common: Sequence[str]
    ) -> list[list[str]]:
        """Return groups of metrics that take one pass each, see `one_pass`.

        Raises:
            RefusedError: CUPTI before 12.9.
        """
        found: list[list[str]] = self._ask("one_pass_groups", chip, list(names), list(common))
        return found

    def breakdown(self, chip: str, throughput: str) -> list[str] | None:
        """Return the base metrics that a throughput is the maximum of; None if unknown."""
        found: list[str] | None = self._ask("breakdown", chip, throughput)
        return found

    def _start(self, path: Path, *, with_cupti: bool) -> None:
        self.path = path
        self.with_cupti = with_cupti
        options = [] if with_cupti else [WITHOUT_CUPTI]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(path), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_own_environment(),
            encoding="utf-8",
        )
        try:
            version = self._receive("load")
            self.version = _version_name(version)
            self._chips = self._ask("chips")
        except CounterError as error:
            self._stop()
            raise CounterError(
                f"{path} cannot be used: {error.message}",
                hint=f"CUPTI 12.6 or later is required: {_INSTALL}",
            ) from error

    def _stop(self) -> None:
        assert self._process.stdin is not None  # a pipe
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # of what a crashed process did not read
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, call: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None  # a pipe
        question = json.dumps({"call": call, "arguments": arguments})
        with contextlib.suppress(BrokenPipeError):  # its end is reported below
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        return self._receive(call)

    def _receive(self, call: str) -> Any:
        assert self._process.stdout is not None  # a pipe
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            status = self._process.wait()
            how = f"crashed (signal {-status})" if status < 0 else f"ended with status {status}"
            raise CounterError(f"CUPTI {how} in {call}")
        found = json.loads(line)
        if "unusable" in found:
            raise CounterError(found["unusable"])
        if "failed" in found:
            raise RefusedError(f"{found['failed']} failed ({found['status']})", found["status"])
        return found["value"]


def _version_name(number: int) -> str | None:
    """Return a version as a user writes it: ``13.0``."""
    if not number:
        return None
    if number < _INTERNAL_VERSIONS:
        return f"API version {number}"
    return f"{number // 10_000}.{number // 100 % 100}"


def _own_environment() -> dict[str, str]:
    """Return the environment for a Python process of ours: it imports this very package."""
    environment = dict(os.environ)
    paths = [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
