"""What the programs of the blind set share: sizes, steps, comparison of both variants, timing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
RANK = int(os.environ.get("LOCAL_RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "1"))

Step = Callable[[int], object]


@dataclass(frozen=True)
class Setting:
    """The variant of a program to set up."""

    bad: bool
    device: str = "cuda"
    is_tiny: bool = False

    def size(self, full: int, tiny: int) -> int:
        """Return a size: the full one on a GPU, a tiny one for a try on the CPU."""
        return tiny if self.is_tiny else full


class Framework(Protocol):
    """What the harness needs of a framework."""

    def seed(self, number: int) -> None:
        """Seed its random generators."""

    def finish(self, result: object) -> None:
        """Wait until all work is done, including a step's result."""

    def array(self, result: Any) -> npt.NDArray[Any]:
        """Return a result as an array on the CPU."""


@dataclass(frozen=True)
class Pair:
    """A row of pairs.toml.

    Attributes:
        name: Name of the program.
        module: Module of this directory, or a source file in CUDA C++, that has it.
        url: Where the problem and its fix were published.
        title: Title of that page.
        fault: The problem of the bad variant.
        fix: What the fixed variant changes.
        claimed: The published gain.
        framework: What the program is written with.
        gpus: Number of GPUs, one per rank.
        tolerance: Largest difference between the variants' results, relative to the largest value.
        marks: Name of the NVTX range of a step, with {} for its number; empty if it has none.
        is_spare: Whether it only replaces a program that does not run.
        rules: Ids of the rules that name the problem; empty if not decided.
    """

    name: str
    module: str
    url: str
    title: str
    fault: str
    fix: str
    claimed: str
    framework: str
    gpus: int
    tolerance: float
    marks: str
    is_spare: bool
    rules: tuple[str, ...]


def read_pairs() -> dict[str, Pair]:
    """Return the pairs by name, in the order of the files."""
    found: dict[str, Pair] = {}
    for path in sorted(HERE.glob("pairs*.toml")):
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["pair"]
        found |= {row["name"]: pair_of(row) for row in rows}
    return found


def pair_of(row: Mapping[str, Any]) -> Pair:
    """Return a pair from its table of the file."""
    return Pair(
        **{name: row[name] for name in ("name", "module", "url", "title", "fault", "fix")},
        claimed=row["claimed"],
        framework=row["framework"],
        gpus=row.get("gpus", 1),
        tolerance=row.get("tolerance", 1e-3),
        marks=row.get("marks", ""),
        is_spare=row.get("spare", False),
        rules=tuple(row.get("rules", ())),
    )


def difference(bad: npt.NDArray[Any], fixed: npt.NDArray[Any]) -> float:
    """Return the largest difference of two arrays, relative to the largest value."""
    if bad.shape != fixed.shape:
        return float("inf")
    first, second = bad.astype(np.float64), fixed.astype(np.float64)
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return float("inf")
    scale = max(float(np.abs(first).max(initial=0)), 1e-12)
    return float(np.abs(first - second).max(initial=0)) / scale


def compare(
    make: Callable[[Setting], Step], framework: Framework, settings: Sequence[Setting], steps: int
) -> float:
    """Return the largest difference between the results of the bad and the fixed variant."""
    results = []
    for setting in settings:
        framework.seed(RANK)
        step = make(setting)
        results.append([framework.array(step(number)).copy() for number in range(steps)])
    return max(difference(bad, fixed) for bad, fixed in zip(*results, strict=True))


def warmed(make: Callable[[Setting], Step], framework: Framework, setting: Setting) -> Step:
    """Set up a program and run its warm-up steps."""
    framework.seed(RANK)
    step = make(setting)
    result: object = None
    for number in range(4):
        result = step(number)
    framework.finish(result)
    return step


def timed(
    step: Callable[[], object], framework: Framework, steps: int, seconds: float
) -> dict[str, float]:
    """Run steps, fewer if `seconds` pass, and return the mean step in ms."""
    begin = time.perf_counter()
    result: object = None
    done = 0
    while done < steps and (done < 3 or time.perf_counter() - begin < seconds):
        result = step()
        done += 1
    framework.finish(result)
    return {"mean": (time.perf_counter() - begin) / done * 1e3}


@contextlib.contextmanager
def capture_range() -> Iterator[None]:
    """Enclose what profilers record; without a driver, do nothing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        yield
        return
    driver.cuProfilerStart()
    yield
    driver.cuProfilerStop()
