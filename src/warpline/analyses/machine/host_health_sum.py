"""host_health_sum: CPU, memory, disk and network of the machine and of each process."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.health.readings import MACHINE, Readings, host_readings
from warpline.result import Arguments, Field, Result, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "host_health_sum"
TITLE = "State of the machine and its processes"
HINT = "profile with warpline profile, without --gpu-health=off"


def _mb(name: str, doc: str, heading: str) -> Field:
    return Field(f"{name}_bytes", Unit.BYTES, doc, f"{heading} (MB)", 1e-6, 1)


def _rate(name: str, doc: str, heading: str) -> Field:
    return Field(
        f"{name}_bytes_per_s", Unit.BYTES_PER_S, doc, f"{heading} (MB/s)", 1e-6, 1, is_optional=True
    )


# Counters whose growth per second is a column.
_RATES = {
    "read": ("read_bytes", "Read from disks", "Read"),
    "written": ("written_bytes", "Written to disks", "Written"),
    "received": ("received_bytes", "Received over the network, without loopback", "Received"),
    "sent": ("sent_bytes", "Sent over the network", "Sent"),
    "rdma_received": ("rdma_received_bytes", "Received over InfiniBand and RoCE", "RDMA Received"),
    "rdma_sent": ("rdma_sent_bytes", "Sent over InfiniBand and RoCE", "RDMA Sent"),
}
FIELDS = (
    Field("of", Unit.NONE, "machine, or process.", "Of"),
    Field("pid", Unit.ID, "Process id; empty for the machine.", "PID"),
    Field("name", Unit.NONE, "Executable.", "Name"),
    Field("readings", Unit.COUNT, "Number of readings.", "Readings"),
    Field("busy_cores", Unit.NONE, "Mean number of CPU cores in use.", "Cores Avg", digits=2),
    Field("max_busy_cores", Unit.NONE, "Most, between two readings.", "Cores Max", digits=2),
    Field("cores", Unit.NONE, "CPU cores of the machine.", "Cores"),
    Field("usable_cores", Unit.NONE, "CPU cores that the program may use.", "Usable", digits=1),
    Field(
        "throttled_ratio",
        Unit.RATIO,
        "Share of the time in which the cgroup's CPU limit stopped threads, at most 1.",
        "Throttled (%)",
        100.0,
        1,
        is_optional=True,
    ),
    Field(
        "median_cpu_clock_hz",
        Unit.HZ,
        "Median of the mean clock of CPU cores.",
        "CPU Clock (MHz)",
        1e-6,
        0,
        is_optional=True,
    ),
    _mb("median_memory", "Median memory: in RAM (process), in use (machine).", "Memory Med"),
    _mb("max_memory", "Most memory.", "Memory Max"),
    _mb("min_free_memory", "Least memory that was available.", "Available Min"),
    Field("minor_faults", Unit.COUNT, "Page faults without I/O.", "Minor Faults"),
    Field("major_faults", Unit.COUNT, "Page faults with I/O.", "Major Faults"),
    *(_rate(name, f"{doc}, per second.", heading) for name, (_, doc, heading) in _RATES.items()),
)


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=("host_health",), missing_hint=HINT)
def host_health_sum(trace: Trace, arguments: Arguments) -> Result:
    """CPU, memory, disk and network of the machine and of each process.

    What it measures: While the program was recorded: CPU cores in use, memory, page faults, bytes
        read from and written to disks, and bytes over the network.
    Why it matters: A program that uses all of its CPU cores, or whose container stops it, cannot
        launch GPU work in time. Page faults with I/O and a full memory make data loading slow.
    How it is computed: Differences of Linux's counters (/proc, /sys) between readings: the mean
        from the first to the last, the most between two that follow each other. The machine's
        numbers are of all programs on it.
    Limits: Processes that end between two readings are missing from then on. In a container, the
        machine's numbers may include those of others.
    Source: The Linux manual pages proc(5) and cgroups(7).
    """
    every = host_readings(trace)
    made = [_row(trace, each) for each in every]
    values: dict[str, Values] = {
        field.name: column_of([row[field.name] for row in made]) for field in FIELDS
    }
    return Result(NAME, TITLE, FIELDS, values, ("of", "pid", "name"))


def _row(trace: Trace, each: Readings) -> dict[str, Any]:
    is_machine = each.of == MACHINE
    throttled = each.rate("throttled_ns")
    rates = {f"{name}_bytes_per_s": each.rate(column) for name, (column, _, _) in _RATES.items()}
    return {
        "of": "machine" if is_machine else "process",
        "pid": None if is_machine else int(trace.columns("process", "pid")["pid"].values[each.of]),
        "name": None if is_machine else _name(trace, each.of),
        "readings": len(each),
        **_cores(each),
        "cores": _whole(_last(each, "cores")),
        "usable_cores": _last(each, "usable_cores"),
        "throttled_ratio": None if throttled is None else min(throttled / 1e9, 1.0),
        "median_cpu_clock_hz": _of(np.median, each, "cpu_clock_hz"),
        "median_memory_bytes": _of(np.median, each, "memory_bytes"),
        "max_memory_bytes": _of(np.max, each, "memory_bytes"),
        "min_free_memory_bytes": _of(np.min, each, "free_memory_bytes"),
        "minor_faults": _whole(each.increase("minor_faults")),
        "major_faults": _whole(each.increase("major_faults")),
        **rates,
    }


def _cores(each: Readings) -> dict[str, float | None]:
    """Return the mean and the largest number of CPU cores in use."""
    mean = each.rate("cpu_ns")
    if mean is None:
        return {"busy_cores": None, "max_busy_cores": None}
    known = each.known("cpu_ns")
    time_ns = np.diff(known.at_ns)
    rows = np.flatnonzero(time_ns > 0)
    most = float((np.diff(known.values)[rows] / time_ns[rows]).max())
    return {"busy_cores": mean / 1e9, "max_busy_cores": most}


def _name(trace: Trace, process: int) -> str | None:
    text = int(trace.columns("process", "name_id")["name_id"].filled(-1)[process])
    return None if text < 0 else trace.strings.text(text)


def _of(statistic: Any, each: Readings, name: str) -> float | None:
    values = each.known(name).values
    return float(statistic(values)) if len(values) else None


def _last(each: Readings, name: str) -> float | None:
    values = each.known(name).values
    return float(values[-1]) if len(values) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
