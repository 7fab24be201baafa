"""Counted kernels of a session's logs, and the values that the fake range profiler gives them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_cuda import cuda_logs as logs

TIME = "gpu__time_duration.sum"
INSTRUCTIONS = "sm__inst_executed.sum"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
THROUGHPUT = "sm__throughput.avg.pct_of_peak_sustained_elapsed"  # takes nine passes
LIGHT = [f"{TIME} ns", f"{INSTRUCTIONS} inst", WARPS]
HEAVY = [*LIGHT, f"{THROUGHPUT} %"]
PASSES = 9


def keys(metrics: list[str] = LIGHT, **more: Any) -> dict[str, Any]:
    """Return the keys of agent.conf to count metrics, and others without their `counter_`."""
    asked = {"counters": 1, "counter_metric": metrics}
    return asked | {f"counter_{key}": value for key, value in more.items()}


def value(metric: str, grid: int, number: int) -> float:
    """Return what the fake counts for a kernel: the rule that fake_counters.cpp states."""
    return 1000.0 * grid if metric == TIME else 1000.0 * len(metric) + grid + number / 64


@dataclass
class Counted:
    """A counted kernel: its record, the process's ID, its values by metric, and its clock.

    The clock is the lowest and the highest one during its passes, in MHz; None if it has none.
    """

    record: logs.Found
    pid: int
    values: dict[str, float] = field(default_factory=dict)
    clock: tuple[int, int] | None = None

    @property
    def number(self) -> int:
        """The number in its name: kernel7 has 7, others have 0."""
        found = re.search(r"kernel(\d+)", self.record.name)
        return int(found[1]) if found else 0

    @property
    def item(self) -> str:
        """The kernel as an item of a pattern: `k7g2`."""
        return f"k{self.number}g{self.record.grid[0]}"


def read(folder: Path) -> list[Counted]:
    """Return the counted kernels in the order of their launches, process by process.

    Asserts what is true of every session: metrics have one number in a process, launches are
    numbered from 0, and each value or clock is one of a launch and has been written once.
    """
    names: dict[tuple[int, int], str] = {}
    kernels: dict[tuple[int, int], Counted] = {}
    values, clocks = [], []
    for log in logs.read(folder):
        for one in log.found:
            if one.kind == logs.COUNTER_NAME:
                assert names.setdefault((log.pid, one.metric), one.name) == one.name
            elif one.kind == logs.COUNTED_KERNEL:
                assert (log.pid, one.launch) not in kernels
                assert one.start <= one.end
                kernels[log.pid, one.launch] = Counted(one, log.pid)
            elif one.kind == logs.COUNTER_VALUE:
                values.append((log.pid, one))
            elif one.kind == logs.PASS_CLOCK:
                clocks.append((log.pid, one))
    for pid, one in values:
        has = kernels[pid, one.launch].values
        assert names[pid, one.metric] not in has
        has[names[pid, one.metric]] = one.value
    for pid, one in clocks:
        assert kernels[pid, one.launch].clock is None
        kernels[pid, one.launch].clock = one.mhz
    for pid in {pid for pid, _ in kernels}:
        launches = sorted(launch for of, launch in kernels if of == pid)
        assert launches == list(range(len(launches)))
    return [kernels[key] for key in sorted(kernels)]


def items(folder: Path) -> list[str]:
    """Return the counted kernels as items of patterns."""
    return [one.item for one in read(folder)]


def check_values(kernels: list[Counted], metrics: list[str] = LIGHT) -> None:
    """Assert that each kernel has all the values of its own launch."""
    for one in kernels:
        wanted = [metric.split(" ")[0] for metric in metrics]
        grid = one.record.grid[0]
        assert one.values == {name: value(name, grid, one.number) for name in wanted}
        assert not one.record.is_failed


def output(folder: Path) -> str:
    """Return what the program has printed."""
    return (folder / "stdout").read_text()


def starts(told: Path) -> list[str]:
    """Return the starts of profilers that FAKE_CUPTI_LOG was told of, each as its replay."""
    replays = {"1": "application", "2": "kernel", "3": "user"}
    text = told.read_text() if told.exists() else ""
    return [replays[replay] for replay in re.findall(r"counters_start (\d)", text)]
