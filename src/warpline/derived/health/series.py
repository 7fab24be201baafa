"""Readings of GPUs and machine over time: values, and the growth of counters per second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.health.clock_limits import ClockLimit, is_idle, main_limits
from warpline.derived.health.readings import MACHINE, Readings, gpu_readings, host_readings
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I8, I64
from warpline.trace import Trace
from warpline.units import Unit

_LONGEST = 3  # periods: a longer time between readings is a gap


@frozen
class HealthSeries:
    """One value of a GPU, of the machine or of a process over time.

    Attributes:
        of: Row of the device table, or of the process table; `MACHINE` for the machine.
        key: Its name in ids, such as ``sm_clock``.
        label: Its name in words.
        unit: Unit of the values; `Unit.NONE` also for a number of CPU cores.
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64. Intervals are half-open and do not overlap; there may be gaps.
        value: Shape (n,), float64.
        highest: What it can be at most, such as the power limit; None if that is not known.
    """

    of: int
    key: str
    label: str
    unit: Unit
    start_ns: I64
    end_ns: I64
    value: F64
    highest: float | None = None


@frozen
class ClockLimitSpans:
    """When the clock of a GPU was limited, by the main limit at each reading.

    Attributes:
        device: Row of the device table.
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64; spans do not overlap.
        limit: Shape (n,), members of `ClockLimit`.
    """

    device: int
    start_ns: I64
    end_ns: I64
    limit: I8


class _Value(NamedTuple):
    """A column to show: itself, or its growth per second."""

    column: str
    key: str
    label: str
    unit: Unit
    is_counter: bool = False
    highest: str | None = None  # column of the device table


_OF_GPU = (
    _Value("sm_clock_hz", "sm_clock", "SM clock", Unit.HZ, highest="clock_hz"),
    _Value("memory_clock_hz", "memory_clock", "memory clock", Unit.HZ, highest="memory_clock_hz"),
    _Value("power_w", "power", "power", Unit.WATTS, highest="power_limit_w"),
    _Value("temperature_c", "temperature", "temperature", Unit.CELSIUS),
    _Value("memory_temperature_c", "memory_temperature", "memory temperature", Unit.CELSIUS),
    _Value("used_memory_bytes", "memory", "memory in use", Unit.BYTES, highest="memory_bytes"),
    _Value(
        "other_memory_bytes",
        "other_memory",
        "memory of other processes",
        Unit.BYTES,
        highest="memory_bytes",
    ),
    _Value("nvlink_sent_bytes", "nvlink_sent", "NVLink sent", Unit.BYTES_PER_S, is_counter=True),
    _Value(
        "nvlink_received_bytes",
        "nvlink_received",
        "NVLink received",
        Unit.BYTES_PER_S,
        is_counter=True,
    ),
)
_OF_MACHINE = (
    _Value("cpu_ns", "cpu", "CPU cores in use", Unit.NONE, is_counter=True),
    _Value("memory_bytes", "memory", "memory in use", Unit.BYTES),
    _Value("read_bytes", "read", "read from disks", Unit.BYTES_PER_S, is_counter=True),
    _Value("written_bytes", "written", "written to disks", Unit.BYTES_PER_S, is_counter=True),
    _Value("received_bytes", "received", "network received", Unit.BYTES_PER_S, is_counter=True),
    _Value("sent_bytes", "sent", "network sent", Unit.BYTES_PER_S, is_counter=True),
    _Value(
        "rdma_received_bytes", "rdma_received", "RDMA received", Unit.BYTES_PER_S, is_counter=True
    ),
    _Value("rdma_sent_bytes", "rdma_sent", "RDMA sent", Unit.BYTES_PER_S, is_counter=True),
)
_OF_PROCESS = (_OF_MACHINE[0],)


@derived
def gpu_health_series(trace: Trace) -> tuple[HealthSeries, ...]:
    """Return what was read of each GPU over time, in order of the device table."""
    return tuple(
        series
        for readings in gpu_readings(trace)
        for value in _OF_GPU
        for series in _series(readings, value, of_device(trace, readings.of, value.highest))
    )


@derived
def host_health_series(trace: Trace) -> tuple[HealthSeries, ...]:
    """Return what was read of the machine over time, and then of each process."""
    return tuple(
        series
        for readings in host_readings(trace)
        for value in (_OF_MACHINE if readings.of == MACHINE else _OF_PROCESS)
        for series in _series(readings, value, _of_host(readings, value.key))
    )


def clock_limit_spans(trace: Trace) -> tuple[ClockLimitSpans, ...]:
    """Return when the clock of each GPU was limited, other than by the GPU being idle."""
    found = []
    for readings in gpu_readings(trace):
        limit = main_limits(readings)
        is_free = np.isin(limit, [int(ClockLimit.NONE), int(ClockLimit.UNKNOWN)])
        limit[is_free | is_idle(readings)] = int(ClockLimit.NONE)
        start, end = readings.start_ns, _ends(readings.start_ns, readings.end_ns)
        joins = (limit[1:] == limit[:-1]) & (start[1:] == end[:-1])
        first = np.flatnonzero(~np.append(False, joins))
        last = np.append(first[1:], len(start)) - 1
        kept = limit[first] != int(ClockLimit.NONE)
        if kept.any():
            spans = start[first][kept], end[last][kept], limit[first][kept]
            found.append(ClockLimitSpans(readings.of, *spans))
    return tuple(found)


def _series(readings: Readings, value: _Value, highest: float | None) -> Iterator[HealthSeries]:
    """Yield a series if there are values."""
    known = readings.known(value.column)
    rows = np.flatnonzero(readings.is_known(value.column))
    start, values = known.at_ns, known.values
    if value.is_counter:
        time_ns, grown = np.diff(start), np.diff(values)
        kept = np.flatnonzero((time_ns > 0) & (grown >= 0))  # it is less after a restart
        # A CPU time is in ns, so its growth per ns is a number of cores.
        per = 1.0 if value.unit is Unit.NONE else 1e9
        start, end, values = start[:-1][kept], start[1:][kept], (grown * per)[kept] / time_ns[kept]
    else:
        end = _ends(start, readings.end_ns[rows])
    if len(start):
        yield HealthSeries(
            readings.of, value.key, value.label, value.unit, start, end, values, highest
        )


def _ends(start: I64, read_ns: I64) -> I64:
    """Return until when readings count: to the next one, unless it is much later than usual."""
    if len(start) < 2:
        return read_ns
    period = int(np.median(np.diff(start)))
    until = np.append(start[1:], read_ns[-1])
    return np.where(until - start > _LONGEST * period, start + period, until)


def of_device(trace: Trace, device: int, column: str | None) -> float | None:
    """Return a number of the device table; None if it is not known, or without a column."""
    if column is None:
        return None
    value = trace.columns("device", column)[column].to_list()[device]
    return None if value is None else float(value)


def _of_host(readings: Readings, key: str) -> float | None:
    """Return how many cores or how much memory the machine has; None if that is not known."""
    if key == "cpu":
        cores = readings.known("cores").values
        return float(cores.max()) if len(cores) else None
    if key == "memory":
        free, used = (readings.columns[f"{name}memory_bytes"] for name in ("free_", ""))
        both = np.flatnonzero(free.is_valid() & used.is_valid())
        return float((free.values[both] + used.values[both]).max()) if len(both) else None
    return None
