"""Alternating runs of whole processes, A B A B ...: wall and CPU time, peak memory, ratios."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ONE_RUN = Path(__file__).with_name("one_run.py")


@dataclass(frozen=True)
class Cost:
    """Resources used by one process and its children; memory is that of all at one time."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def run(command: Sequence[str]) -> Cost:
    """Run a command, which must succeed, and return its resources. Its output is discarded."""
    start = [sys.executable, "-I", "-S", str(_ONE_RUN)]
    done = subprocess.run([*start, *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return Cost(**json.loads(done.stdout))


def compare(
    commands: Mapping[str, Sequence[str]], rounds: int, patience_s: float = float("inf")
) -> dict[str, list[Cost]]:
    """Run every command once per round, after one round that is not counted.

    A command that takes longer than `patience_s` in that first round has this one run only.
    """
    first = {name: run(command) for name, command in commands.items()}
    is_short = {name: cost.wall_s <= patience_s for name, cost in first.items()}
    costs = {name: [] if is_short[name] else [cost] for name, cost in first.items()}
    for _ in range(rounds):
        for name, command in commands.items():
            if is_short[name]:
                costs[name].append(run(command))
    return costs


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
        statistics.median(cost.peak_mb for cost in costs),
    )


def ratio(costs: Sequence[Cost], peers: Sequence[Cost]) -> float:
    """Return the peer's wall time over ours, of medians by round; above 1, we are faster.

    Where one of the two has a single run, it is compared with the median of the other.
    """
    if len(costs) != len(peers):
        return median(peers).wall_s / median(costs).wall_s
    return statistics.median(b.wall_s / a.wall_s for a, b in zip(costs, peers, strict=True))
