"""The busy time of each kernel, and the kernel that takes most of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import measured_segments
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize
from warpline.trace import Run

_MOST_OF_BUSY = 0.6
_LONGEST_NAME = 4096  # templates make names of many kB


class KernelTimes(NamedTuple):
    """The kernels with time in the analyzed windows of all devices, except collectives.

    Attributes:
        kernel: Shape (n,), int64, places in `operations`, ascending.
        ns: Shape (n,), int64, the time attributed to each, as in the breakdown.
        busy_ns: The busy time of the devices, with all other operations.
    """

    kernel: I64
    ns: I64
    busy_ns: int


class MainKernel(NamedTuple):
    """The kernel that takes most of the busy time.

    Attributes:
        name_id: Its full name, in the trace's strings.
        name: The full name, its start if that is very long.
        share: Its share of the busy time of all devices.
    """

    name_id: int
    name: str
    share: float


@derived
def kernel_times(run: Run) -> KernelTimes:
    """Return the kernels except collectives, and the time attributed to each."""
    trace = run.trace
    segments = device_segments(trace)
    busy_ns, sums = 0, np.zeros(len(operations(trace)), np.int64)
    for pieces in measured_segments(run):
        part, ns = segments.part[pieces.row], pieces.end_ns - pieces.start_ns
        is_counted = is_busy(part)
        busy_ns += int(ns[is_counted].sum())
        wanted = np.flatnonzero(is_counted & (part != TimePart.COLLECTIVE))
        np.add.at(sums, segments.operation[pieces.row[wanted]], ns[wanted])
    kernels = operations(trace).of_table("kernel")
    kernels = kernels[sums[kernels] > 0]
    return KernelTimes(kernels, sums[kernels], busy_ns)


@derived
def main_kernel(run: Run) -> MainKernel | None:
    """Return the kernel that takes at least 60% of the busy time; None if there is none."""
    trace, times = run.trace, kernel_times(run)
    if not len(times.kernel):
        return None
    rows = operations(trace).row[times.kernel]
    names = factorize(trace.columns("kernel", "name_id")["name_id"].filled(-1)[rows])
    sums = np.zeros(names.n_groups, np.int64)
    np.add.at(sums, names.codes, times.ns)
    most = int(sums.argmax())
    name_id, share = int(names.uniques[most]), int(sums[most]) / times.busy_ns
    if share < _MOST_OF_BUSY or name_id < 0:
        return None
    return MainKernel(name_id, trace.strings.text(name_id)[:_LONGEST_NAME], share)
