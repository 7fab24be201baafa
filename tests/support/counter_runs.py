"""Recordings of runs that counted launches, made in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from warpline.trace import MemorySource, Trace

CLOCK = "sm__cycles_elapsed.avg.per_second"


class Launch(NamedTuple):
    """A launch of a run."""

    name: str
    grid: int = 1
    process: int = 0
    stream: int = 7


def run(launches: Sequence[Launch], clock: float, **values: float) -> Trace:
    """Return a run; the value of a metric is `values`, and the number of the launch."""
    metrics = {**values, CLOCK: clock}
    processes = 1 + max((one.process for one in launches), default=0)
    kernels: dict[str, Sequence[Any]] = {
        "launch_number": [place for place, _ in enumerate(launches)],
        "process_id": [one.process for one in launches],
        "name": [one.name for one in launches],
        "short_name": [one.name for one in launches],
        "grid_x": [one.grid for one in launches],
        "stream_id": [0 if one.stream == 7 else 1 for one in launches],
        "context_id": [0] * len(launches),
        "passes": [1] * len(launches),
        "start_ns": [place for place, _ in enumerate(launches)],
    }
    rows = [(launch, name) for launch, _ in enumerate(launches) for name in metrics]
    numbered = [metrics[name] + (launch if name != CLOCK else 0) for launch, name in rows]
    return Trace(
        MemorySource(
            {
                # Pids differ between runs.
                "process": {
                    "pid": [int(clock) + place for place in range(processes)],
                    "name": ["python"] * processes,
                },
                "stream": {"process_id": [0, 0], "context_id": [0, 0], "native_id": [7, 8]},
                "profiled_kernel": kernels,
                "kernel_metric": {
                    "profiled_kernel_id": [launch for launch, _ in rows],
                    "name": [name for _, name in rows],
                    "unit": [f"unit of {name}" for _, name in rows],
                    "value": numbered,
                    "instances": [0] * len(rows),
                },
            }
        )
    )


A, B = Launch("a"), Launch("b")
