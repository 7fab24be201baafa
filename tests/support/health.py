"""Readings of the state of GPUs and machine, added to recordings of simulated programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from support.machine import Machine

MHZ = 1_000_000
MS = 1_000_000
HIGHEST = 1_980 * MHZ  # an H100's
POWER_CAP, APPLICATIONS, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL = 0x4, 0x2, 0x8, 0x20, 0x40
AT_REST: Mapping[str, Any] = {"sm_clock_hz": HIGHEST, "clock_limits": 0}


def read_gpu(machine: Machine, at_ns: int, device: int = 0, **values: Any) -> None:
    """Add a reading of a GPU, at its highest clock and without limits unless `values` differ."""
    names = (*AT_REST, "power_w", "energy_j", "temperature_c", "used_memory_bytes")
    names += ("other_memory_bytes", "other_processes", "busy_ratio", "pcie_generation")
    names += ("pcie_width", "nvlinks", "ecc_uncorrected", "memory_clock_hz", "thermal_limited_ns")
    names += ("nvlink_sent_bytes", "nvlink_received_bytes")
    row = {**dict.fromkeys(names), **AT_REST, **values}
    machine.program.add(
        "gpu_health", start_ns=at_ns, end_ns=at_ns + 1_000_000, device_id=device, **row
    )


def read_gpu_every(
    machine: Machine, period_ns: int, state: Callable[[int], Mapping[str, Any]]
) -> None:
    """Add readings of GPU 0 in equal intervals, from the start of the program to now."""
    for at_ns in range(machine.begun_ns[0], machine.now, period_ns):
        read_gpu(machine, at_ns, **state(at_ns))


def read_host(machine: Machine, at_ns: int, process: int | None = None, **values: Any) -> None:
    """Add a reading of the machine, or of a process."""
    names = ("cpu_ns", "cores", "usable_cores", "throttled_ns", "memory_bytes", "read_bytes")
    row = {**dict.fromkeys((*names, "free_memory_bytes")), **values}
    machine.program.add(
        "host_health", start_ns=at_ns, end_ns=at_ns + 100_000, process_id=process, **row
    )
