"""The busy time of each kernel, their sums by name, and the kernel that takes most of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import sums_in
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize
from warpline.trace import Run

_MOST_OF_BUSY = 0.6
_NOT_COUNTED = -1
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


class KernelSums(NamedTuple):
    """The kernels by full name, the longest first; those of equal time by name.

    Attributes:
        names: Shape (m,), the full names.
        group: Shape (n,), int64, the place of each of the kernels of `kernel_times`.
        ns: Shape (m,), int64, the time attributed to each.
    """

    names: list[str]
    group: I64
    ns: I64


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
    count = len(operations(trace))
    # One place more, for collectives, which are busy time but not kernels of a program.
    owner = np.where(segments.part == TimePart.COLLECTIVE, count, segments.operation)
    owner[~is_busy(segments.part)] = _NOT_COUNTED
    (sums,) = sums_in(trace, measure_windows(run), owner, count + 1)
    kernels = operations(trace).of_table("kernel")
    kernels = kernels[sums[kernels] > 0]
    return KernelTimes(kernels, sums[kernels], int(sums.sum()))


@derived
def kernel_sums(run: Run) -> KernelSums:
    """Return the kernels by name, except collectives, and the time attributed to each."""
    trace, times = run.trace, kernel_times(run)
    if not len(times.kernel):
        return KernelSums([], times.kernel, times.ns)
    rows = operations(trace).row[times.kernel]
    names = factorize(trace.columns("kernel", "name_id")["name_id"].values[rows])
    sums = np.zeros(names.n_groups, np.int64)
    np.add.at(sums, names.codes, times.ns)
    texts = trace.strings.texts(names.uniques.tolist())
    # Order kernels of equal time by name: the numbers of strings depend on the file.
    order = sorted(range(names.n_groups), key=lambda code: (-int(sums[code]), texts[code]))
    place = np.zeros(names.n_groups, np.int64)
    place[order] = np.arange(names.n_groups)
    return KernelSums([texts[code] for code in order], place[names.codes], sums[order])


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
