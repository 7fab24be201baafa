"""Profiled launches with given metrics, and the pairs that predictions are checked on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline import plugins
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.pricing import Priced, priced
from warpline.derived.kernel_limits.rules import KERNEL_RULES
from warpline.trace import MemorySource, Trace

PAIRS = Path(__file__).parents[1] / "data" / "ncu" / "pairs.json"
OPCODES = "sass__inst_executed_per_opcode"
OF_PEAK = "avg.pct_of_peak_sustained_elapsed"

TIME_NS = 100_000
# A kernel of 100 us on a GPU with 100 SMs that does next to nothing; a million cycles.
IDLE: dict[str, float] = {
    "gpu__time_duration.sum": TIME_NS,
    f"gpu__dram_throughput.{OF_PEAK}": 1.0,
    "lts__throughput.max.pct_of_peak_sustained_elapsed": 1.0,
    f"l1tex__data_pipe_lsu_wavefronts.{OF_PEAK}": 1.0,
    f"sm__inst_issued.{OF_PEAK}": 1.0,
    "sm__cycles_elapsed.avg": 1_000_000,
    "sm__cycles_active.avg": 1_000_000,
    "sm__cycles_active.max": 1_000_000,
    "sm__warps_active.avg.per_cycle_active": 64,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 100,
    "sm__maximum_warps_per_active_cycle_pct": 100,
    "sm__maximum_warps_avg_per_active_cycle": 64,
    "launch__sm_count": 100,
    "launch__grid_size": 10_000,
    "launch__block_size": 256,
    "launch__waves_per_multiprocessor": 12.5,
}

Metrics = Mapping[str, float | None]


def trace(
    launches: Sequence[Metrics],
    opcodes: Sequence[Mapping[str, int]] = (),
    gpu: str = "NVIDIA H100 80GB HBM3",
    columns: Mapping[str, Sequence[Any]] | None = None,
    capability: tuple[int, int] | None = None,
) -> Trace:
    """Return launches with metrics, and with counts of opcodes.

    Args:
        launches: The metrics of each.
        opcodes: The counts of each.
        gpu: The GPU.
        columns: Columns of the launches, such as names and grids.
    """
    rows: dict[str, list[Any]] = {"profiled_kernel_id": [], "name": [], "value": []}
    instances: dict[str, list[Any]] = {"kernel_metric_id": [], "key_text": [], "value": []}

    def add(launch: int, name: str, value: float | None) -> int:
        for column, item in zip(rows, (launch, name, value), strict=True):
            rows[column].append(item)
        return len(rows["name"]) - 1

    for place, metrics in enumerate(launches):
        for name, value in metrics.items():
            if value is not None:
                add(place, name, value)
        counts = opcodes[place] if opcodes else {}
        owner = add(place, OPCODES, None) if counts else -1
        for key, value in counts.items():
            instances["kernel_metric_id"].append(owner)
            instances["key_text"].append(key)
            instances["value"].append(value)
    count = len(launches)
    tables: dict[str, dict[str, list[Any]]] = {
        "device": {
            "name": [gpu],
            "sm_count": [132],
            "compute_major": [None if capability is None else capability[0]],
            "compute_minor": [None if capability is None else capability[1]],
        },
        "profiled_kernel": {
            "launch_number": [*range(count)],
            "device_id": [0] * count,
            "name": [f"kernel_{place}" for place in range(count)],
            **{name: [*values] for name, values in (columns or {}).items()},
        },
        "kernel_metric": rows,
    }
    if opcodes:
        tables["metric_instance"] = instances
    return Trace(MemorySource(tables))


def found(metrics: Metrics | None = None, opcodes: Mapping[str, int] | None = None) -> list[Priced]:
    """Return the findings of a launch that does nothing but what is given."""
    plugins.load("kernel-rules")
    launches = Launches(trace([IDLE | dict(metrics or {})], [opcodes] if opcodes else ()))
    (findings,) = priced(launches, KERNEL_RULES)
    return findings


def pairs() -> tuple[Trace, dict[str, int]]:
    """Return the launches of the pairs, and the row of each by ``NAME.bad`` or ``NAME.fixed``."""
    stored = json.loads(PAIRS.read_text("utf-8"))
    kernels = stored["kernels"]
    launches = [
        {name: values[place] for name, values in stored["metrics"].items()}
        for place in range(len(kernels))
    ]
    opcodes = [
        {key: values[place] for key, values in stored[OPCODES].items() if values[place]}
        for place in range(len(kernels))
    ]
    return trace(launches, opcodes, stored["gpu"]), {name: row for row, name in enumerate(kernels)}
