"""Kernels with their launch calls: launch, queue and execution times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I64, BoolArray, Integers, as_i64, is_sorted, taken
from warpline.trace import Trace


class KernelLaunches(NamedTuple):
    """Kernels with a recorded launch call, by the start of that call, then in total order.

    Attributes:
        kernel: Shape (n,), int64, rows of the kernel table.
        call: Shape (n,), int64, rows of the api_call table.
        api_start_ns: Shape (n,), int64, start of the call.
        api_ns: Shape (n,), int64, duration of the call.
        has_queue: Shape (n,), bool, whether the kernel starts after the call returns.
        queue_ns: Shape (n,), int64, from the call's end to the kernel's start; 0 without queue.
        kernel_start_ns: Shape (n,), int64, start of the kernel.
        kernel_ns: Shape (n,), int64, duration of the kernel.
        total_ns: Shape (n,), int64, from the call's start to the later end of the two.
        pid: Shape (n,), process ids.
        tid: Shape (n,), ids of the launching threads.
        device: Shape (n,), GPU indices.
    """

    kernel: I64
    call: I64
    api_start_ns: I64
    api_ns: I64
    has_queue: BoolArray
    queue_ns: I64
    kernel_start_ns: I64
    kernel_ns: I64
    total_ns: I64
    pid: Integers
    tid: Integers
    device: Integers


@derived
def kernel_launches(trace: Trace) -> KernelLaunches:
    """Return the kernels with their launch calls; empty if either table is missing."""
    launches = launch_calls(trace)["kernel"]
    rows = np.flatnonzero(launches.found)
    calls = _values(trace, "api_call", launches.row[rows], "start_ns", "end_ns", "thread_id")
    if not is_sorted(calls[0]):
        in_order = np.argsort(calls[0], kind="stable")
        rows, calls = rows[in_order], [taken(column, in_order) for column in calls]
    begin, returned, thread = calls
    start, end, device = _values(trace, "kernel", rows, "start_ns", "end_ns", "device_id")
    tid, process = _values(trace, "thread", thread, "tid", "process_id")
    has_queue = start >= returned
    return KernelLaunches(
        kernel=rows,
        call=launches.row[rows],
        api_start_ns=begin,
        api_ns=returned - begin,
        has_queue=has_queue,
        queue_ns=np.where(has_queue, start - returned, 0),
        kernel_start_ns=start,
        kernel_ns=end - start,
        total_ns=np.maximum(end, returned) - begin,
        pid=_values(trace, "process", process, "pid")[0],
        tid=tid,
        device=_values(trace, "device", device, "gpu_index")[0],
    )


def _values(trace: Trace, table: str, rows: Integers, *names: str) -> list[I64]:
    """Return columns of some rows of a table; without rows, the table need not exist."""
    if not len(rows):
        return [np.zeros(0, np.int64) for _ in names]
    columns = trace.columns(table, *names)
    return [as_i64(name, taken(columns[name].values, rows)) for name in names]
