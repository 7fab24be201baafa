"""The process and the GPU of work, as shown to users."""

from __future__ import annotations

from typing import NamedTuple

from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import UNKNOWN, rank_of_process
from warpline.ops.group import distinct_values
from warpline.trace import Trace


class Owner(NamedTuple):
    """Process and GPU of a part of the work, as shown to users.

    Attributes:
        pid: Process id; None if several processes share the device.
        rank: The process's rank in a distributed program, if known.
        gpu_index: The producer's index of the GPU.
        device_name: Its product name, if known.
    """

    pid: int | None
    rank: int | None
    gpu_index: int
    device_name: str | None


def owner_of(trace: Trace, process: int, device: int) -> Owner:
    """Return the names of a process and a device.

    Args:
        trace: The trace.
        process: Row of the process table; if -1, the only process that used the device.
        device: Row of the device table.
    """
    pid = rank = name = None
    if process < 0:
        process = _only_process(trace, device)
    if process >= 0:
        pid = int(trace.columns("process", "pid")["pid"].values[process])
        rank = int(rank_of_process(trace)[process])
    columns = trace.columns("device", "gpu_index", "name_id")
    text = int(columns["name_id"].filled(-1)[device])
    if text >= 0:
        name = trace.strings.text(text)
    gpu_index = int(columns["gpu_index"].values[device])
    return Owner(pid, None if rank == UNKNOWN else rank, gpu_index, name)


def _only_process(trace: Trace, device: int) -> int:
    """Return the only process that used a device, -1 if there are several."""
    work = operations(trace)
    processes = distinct_values(work.process[work.device == device])
    return int(processes[0]) if len(processes) == 1 else -1
