"""Alternating runs of whole processes, A B A B ...: wall and CPU time, peak memory, ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Resources used by one process and its children."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def run(command: Sequence[str]) -> Cost:
    """Run a command, which must succeed, and return its resources. Its output is discarded."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compare(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Cost]]:
    """Run every command once per round, after one uncounted round."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            cost = run(command)
            if turn:
                costs[name].append(cost)
    return costs


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
        statistics.median(cost.peak_mb for cost in costs),
    )


def ratio(costs: Sequence[Cost], peers: Sequence[Cost]) -> float:
    """Return the median per-round ratio of the peer's wall time to ours; above 1, we are faster."""
    return statistics.median(b.wall_s / a.wall_s for a, b in zip(costs, peers, strict=True))
