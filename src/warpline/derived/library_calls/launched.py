"""The kernels that library calls launched."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import I64
from warpline.ops.group import group_sums
from warpline.ops.tree import enclosing
from warpline.trace import Trace

NO_DEVICE = -1


class LaunchedKernels(NamedTuple):
    """The kernels of each library call, in rows of `library_call`.

    Attributes:
        kernels: Shape (calls,), int64, their number.
        gpu_ns: Shape (calls,), int64, the sum of their durations.
        device: Shape (calls,), int64, row of the GPU of the last one, NO_DEVICE without kernels.
    """

    kernels: I64
    gpu_ns: I64
    device: I64


@derived
def launched_kernels(trace: Trace) -> LaunchedKernels:
    """Return the kernels that each library call launched itself.

    A kernel belongs to the innermost library call open on its thread when its launch call starts.
    Kernels of CUDA graphs belong to the call that launches the graph, not to captured calls.
    """
    count = trace.row_count("library_call")
    found = LaunchedKernels(
        np.zeros(count, np.int64), np.zeros(count, np.int64), np.full(count, NO_DEVICE)
    )
    if not count or not trace.has("kernel") or not trace.has("api_call"):
        return found
    launch = launch_calls(trace)["kernel"]
    columns = trace.columns("kernel", "start_ns", "end_ns", "device_id")
    rows = np.flatnonzero(launch.found)
    call, place = np.unique(launch.row[rows], return_inverse=True)
    calls = trace.columns("library_call", "start_ns", "end_ns", "thread_id")
    launches = trace.columns("api_call", "start_ns", "thread_id")
    around = enclosing(
        launches["start_ns"].values[call],
        calls["start_ns"].values,
        calls["end_ns"].values,
        point_group=launches["thread_id"].values[call],
        group=calls["thread_id"].values,
    )
    inside = around.found[place]
    rows, owner = rows[inside], around.row[place[inside]]
    durations_ns = (columns["end_ns"].values - columns["start_ns"].values)[rows]
    found.kernels[:] = np.bincount(owner, minlength=count)
    found.gpu_ns[:] = group_sums(owner, durations_ns, count)
    found.device[owner] = columns["device_id"].values[rows]
    return found
