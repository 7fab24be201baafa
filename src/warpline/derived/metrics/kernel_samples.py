"""Which samples of a metric show one kernel alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.metrics.series import MetricSeries
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64, Integers
from warpline.trace import Trace

# A sample's time may be off against the kernels' by this much, as measured on an H100.
TIME_ERROR_NS = 50_000


class Alone(NamedTuple):
    """The times at which one operation runs alone on a GPU.

    Attributes:
        start_ns: Shape (n,), int64, ascending.
        end_ns: Shape (n,), int64.
        operation: Shape (n,), int64, places in `operations`.
    """

    start_ns: I64
    end_ns: I64
    operation: I64


class KernelSamples(NamedTuple):
    """The samples of a metric during which one kernel runs, and nothing else on its GPU.

    Attributes:
        sample: Shape (n,), int64, places in the series, ascending.
        kernel: Shape (n,), int64, the kernel, places in `operations`.
    """

    sample: I64
    kernel: I64


class GroupMeans(NamedTuple):
    """The mean of a metric while kernels of a group run, for each group.

    Attributes:
        mean: Shape (groups,), float64, by time; 0 without samples.
        samples: Shape (groups,), int64, how many samples show it.
        kernels: Shape (groups,), int64, in how many kernels these are.
    """

    mean: F64
    samples: I64
    kernels: I64


@derived
def alone_times(trace: Trace, device: int) -> Alone:
    """Return when exactly one operation runs on a GPU, and which.

    Args:
        trace: The trace.
        device: Row of the device table.
    """
    work = operations(trace)
    place = np.flatnonzero((work.device == device) & (work.end_ns > work.start_ns))
    ones = np.ones(len(place), np.int64)
    at = np.concatenate((work.start_ns[place], work.end_ns[place]))
    order = np.argsort(at, kind="stable")
    running = np.cumsum(np.concatenate((ones, -ones))[order])
    # Where one operation runs, the sum of all that have begun less those that have ended is it.
    which = np.cumsum(np.concatenate((place, -place))[order])
    at = at[order]
    is_last = np.append(at[1:] > at[:-1], True)[: len(at)]
    at, running, which = at[is_last], running[is_last], which[is_last]
    is_alone = running == 1
    start, end = at[is_alone], np.append(at[1:], 0)[: len(at)][is_alone]
    return Alone(start, end, which[is_alone])


def kernel_samples(trace: Trace, series: MetricSeries) -> KernelSamples:
    """Return the samples that show one kernel alone, with `TIME_ERROR_NS` to spare on both sides.

    So kernels shorter than a sample and twice that have none.
    """
    alone = alone_times(trace, series.device)
    if not len(alone.start_ns) or not len(series):
        none = np.zeros(0, np.int64)
        return KernelSamples(none, none)
    first, last = series.start_ns - TIME_ERROR_NS, series.end_ns + TIME_ERROR_NS
    piece = np.searchsorted(alone.start_ns, first, side="right") - 1
    at = np.maximum(piece, 0)
    within = (piece >= 0) & (last <= alone.end_ns[at]) & (series.end_ns > series.start_ns)
    kernels = operations(trace).table[alone.operation[at]] == DEVICE_TABLES.index("kernel")
    sample = np.flatnonzero(within & kernels)
    return KernelSamples(sample, alone.operation[at[sample]])


def means_of_groups(
    trace: Trace, series: MetricSeries, group: Integers, n_groups: int
) -> GroupMeans:
    """Return the mean of a metric while the kernels of each group run alone.

    Args:
        trace: The trace.
        series: The metric.
        group: Shape (operations,), the group of each kernel; -1 for those in none.
        n_groups: Number of groups.
    """
    found = kernel_samples(trace, series)
    chosen = group[found.kernel] >= 0
    sample, kernel = found.sample[chosen], found.kernel[chosen]
    number = group[kernel]
    is_seen = np.zeros(len(group), np.bool_)
    is_seen[kernel] = True
    length = (series.end_ns - series.start_ns)[sample].astype(np.float64)
    whole = np.bincount(number, length, n_groups)
    sums = np.bincount(number, length * series.value[sample], n_groups)
    return GroupMeans(
        np.divide(sums, whole, out=np.zeros(n_groups), where=whole > 0),
        np.bincount(number, minlength=n_groups),
        np.bincount(group[np.flatnonzero(is_seen)], minlength=n_groups),
    )
