"""A simulated program with sampled metrics and with readings of its GPU and machine.

To look at it: ``python tests/support/sampled.py run.html`` writes the report, with ``--hz N`` of N
samples per second.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.health import MS, POWER_CAP, SW_THERMAL, read_gpu, read_host
from support.machine import ELEMENTWISE, Machine

from warpline.schema.counters import BLOCK_SAMPLES
from warpline.trace import Trace

GAP_NS = (1_000 * MS, 1_090 * MS)  # without samples
ERROR_NS = 1_350 * MS
PEAK_BYTES_PER_S = 3.35e12
HIGHEST_HZ, POWER_LIMIT_W, MEMORY = 1_980_000_000, 700.0, 80 << 30
_OF_PEAK = "pct_of_peak_sustained_elapsed"
CODES = 65_535


class Metric(NamedTuple):
    """A metric, and its values while a GEMM, an elementwise kernel, or nothing runs."""

    name: str
    gemm: float
    elementwise: float
    idle: float


METRICS = (
    Metric(f"gr__cycles_active.avg.{_OF_PEAK}", 100, 100, 0),
    Metric(f"sm__cycles_active.avg.{_OF_PEAK}", 96, 88, 0),
    Metric(f"sm__inst_executed_realtime.avg.{_OF_PEAK}", 31, 12, 0),
    Metric(f"sm__pipe_tensor_cycles_active_realtime.avg.{_OF_PEAK}", 74, 0, 0),
    Metric(f"sm__warps_active_realtime.avg.{_OF_PEAK}", 19, 61, 0),
    Metric(f"dram__read_throughput.avg.{_OF_PEAK}", 22, 47, 0.4),
    Metric(f"dram__write_throughput.avg.{_OF_PEAK}", 9, 41, 0.3),
    Metric("pcie__read_bytes.sum", 12_000, 14_000, 9_000),
    Metric("gpc__cycles_elapsed.avg.per_second", 1.755e9, 1.755e9, 1.98e9),
)
LONG = Metric("L2 Hit Rate [%]", 71, 34, 0)  # as nsys has it: a time of its own for each value


def program(steps: int = 6) -> Machine:
    """Return a program of GEMMs, then elementwise kernels, then time on the CPU only."""
    machine = Machine()
    for step in range(steps):
        for number in range(6):
            machine.launch((30 + 7 * ((step + number) % 3)) * MS)
        for _ in range(4):
            machine.launch(21 * MS, ELEMENTWISE)
        machine.wait()
        machine.work(120 * MS)
        machine.end_step()
    return machine


def sampled(*, hz: int = 10_000, steps: int = 6) -> Trace:
    """Return the recording of the program.

    Args:
        hz: Samples of most metrics per second.
        steps: How many steps the program has.
    """
    machine = program(steps)
    end = machine.now
    _add_health(machine, end)
    for metric in (*METRICS, LONG):
        machine.program.add("metric", name=metric.name)
    codes: list[int] = []
    period = 10**9 // hz
    for number, metric in enumerate(METRICS):
        for low, high in ((0, GAP_NS[0]), (GAP_NS[1], end)):
            starts = np.arange(low, high, period)
            values = _values(machine, metric, starts, period, number)
            for begin in range(0, len(starts), BLOCK_SAMPLES):
                part, first = values[begin : begin + BLOCK_SAMPLES], int(starts[begin])
                is_constant = bool((part == part[0]).all())
                scale = float(part[0]) if is_constant else float(part.max()) / CODES
                machine.program.add(
                    "counter_block",
                    start_ns=first,
                    end_ns=first + period * len(part),
                    device_id=0,
                    metric_id=number,
                    samples=len(part),
                    scale=scale,
                    first_code_id=None if is_constant else len(codes),
                )
                codes += [] if is_constant else np.round(part / scale).astype(int).tolist()
    for code in codes:
        machine.program.add("counter_code", code=code)
    for start in range(0, end, 10 * MS):
        value = _values(machine, LONG, np.array([start]), 10 * MS, len(METRICS))[0]
        machine.program.add(
            "counter", time_ns=start, device_id=0, metric_id=len(METRICS), value=float(value)
        )
    return machine.program.trace(
        "NVIDIA H100 80GB HBM3", memory_bytes=MEMORY, clock_hz=HIGHEST_HZ,
        power_limit_w=int(POWER_LIMIT_W),
    )  # fmt: skip


def _values(
    machine: Machine, metric: Metric, starts: npt.NDArray[Any], period: int, seed: int
) -> npt.NDArray[Any]:
    """Return the value of a metric in samples, by the kernel that runs in the middle of each."""
    kernels = machine.program.rows["kernel"]
    begins = np.array([row["start_ns"] for row in kernels])
    ends = np.array([row["end_ns"] for row in kernels])
    level = np.array(
        [metric.elementwise if row["name"] == ELEMENTWISE else metric.gemm for row in kernels]
    )
    middle = starts + period // 2
    place = np.searchsorted(begins, middle, side="right") - 1
    runs = (place >= 0) & (middle < ends[place])
    noise = np.random.default_rng(seed).normal(1, 0.04, len(starts))
    most = 100 if metric.gemm <= 100 else math.inf
    return np.clip(np.where(runs, level[place], metric.idle) * noise, 0, most)


def _add_health(machine: Machine, end: int) -> None:
    sent = cpu_ns = read = 0
    for number, at_ns in enumerate(range(0, end, 100 * MS)):
        share = 0.5 + 0.5 * math.sin(number / 4)
        sent += round(3e9 * share)
        cpu_ns += round(100e6 * (1 + 3 * share))
        read += round(2e7 * share)
        limit: Mapping[str, Any] = {"clock_limits": 0}
        if 12 <= number < 20:
            limit = {"clock_limits": POWER_CAP, "sm_clock_hz": 1_605_000_000}
        elif 24 <= number < 27:
            limit = {"clock_limits": SW_THERMAL, "sm_clock_hz": 1_200_000_000}
        read_gpu(
            machine, at_ns, power_w=250 + 430 * share, temperature_c=48 + number // 3,
            used_memory_bytes=(20 << 30) + (number << 29), other_memory_bytes=3 << 30,
            nvlink_sent_bytes=sent, nvlink_received_bytes=sent // 2, **limit,
        )  # fmt: skip
        read_host(
            machine, at_ns, cpu_ns=cpu_ns, cores=32, usable_cores=16.0, read_bytes=read,
            memory_bytes=60 << 30, free_memory_bytes=196 << 30,
        )  # fmt: skip
        read_host(machine, at_ns + 50, 0, cpu_ns=cpu_ns // 2)
    machine.program.add("gpu_error", time_ns=ERROR_NS, device_id=0, xid=63)


if __name__ == "__main__":
    import warpline

    given = int(sys.argv[sys.argv.index("--hz") + 1]) if "--hz" in sys.argv else 10_000
    warpline.report(sampled(hz=given), sys.argv[1], overwrite=True)
