"""Alternating runs of whole processes, A B A B ...: wall and CPU time, peak memory, ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SAMPLE_S = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """Resources used by one process and its children; memory is that of all at one time."""

    wall_s: float
    cpu_s: float
    peak_mb: float


class _Sampler(threading.Thread):
    """Samples the memory of a process and its descendants.

    Pages that several of them share count for each. A peak between two samples is missed, except
    that of the process itself, which the kernel keeps.
    """

    def __init__(self, process_id: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._process_id = process_id
        self._is_over = threading.Event()

    def run(self) -> None:
        """Sample until the end."""
        while not self._is_over.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, _tree_bytes(self._process_id))

    def end(self) -> None:
        """Stop sampling."""
        self._is_over.set()
        self.join()


def _tree_bytes(process_id: int) -> int:
    folder = Path("/proc", str(process_id))
    try:
        size = int((folder / "statm").read_text().split()[1]) * _PAGE
        lists = [path.read_text() for path in folder.glob("task/*/children")]
    except (OSError, IndexError):
        return 0  # it has ended, or this system has no such files
    return size + sum(_tree_bytes(int(child)) for told in lists for child in told.split())


def run(command: Sequence[str]) -> Cost:
    """Run a command, which must succeed, and return its resources. Its output is discarded."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sampler = _Sampler(process.pid)
    sampler.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begin
    sampler.end()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    peak_bytes = max(usage.ru_maxrss * 1024, sampler.peak_bytes)
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, peak_bytes / 1e6)


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
