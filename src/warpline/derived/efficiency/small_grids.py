"""Kernels whose grids are too small for the GPU, launched several times per step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.launch_shapes import blocks_in_x, launch_shapes
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.products import PERSISTENT
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.trace import Run, Trace

_SHORTEST_NS = 10_000  # shorter kernels are bound by launch latency
_SMALL = 0.5  # blocks relative to SMs
_LEAST_LAUNCHES = 2  # per step
# A kernel that takes this long on few SMs has work that more blocks could share.
_LONG_NS = 100_000
_FEW = 0.25  # blocks relative to SMs
# One or two warps on an SM wait about 1 us for each round of loads. In this time, a kernel makes so
# many rounds that more threads would make at once.
_NARROW_THREADS = 64  # of a block
_LONG_NARROW_NS = 20_000


class SmallGrids(NamedTuple):
    """Kernels with too few blocks.

    Attributes:
        kernel: Shape (n,), int64, indices into `operations`.
        least_ratio: Shape (n,), float64, the least share of its time that a kernel may take if all
            launches of its name and grid in a step run at the same time.
        block_ratio: Shape (n,), float64, its blocks relative to the SMs.
        is_long: Shape (n,), bool, whether it is long enough for its few threads to divide its work
            among more.
        is_narrow: Shape (n,), bool, whether its blocks have at most two warps.
    """

    kernel: I64
    least_ratio: F64
    block_ratio: F64
    is_long: BoolArray
    is_narrow: BoolArray


@derived
def small_grids(run: Run) -> SmallGrids:
    """Return kernels of 10 us or more with fewer blocks than half of the GPU's SMs.

    A kernel counts if it is launched at least twice in a step with the same grid or is long, if no
    other operation runs at the same time, and if its name does not say that its blocks compute
    several tiles. It is long from 100 us on, or from 20 us on if its blocks have few threads.
    """
    trace, scope = run.trace, step_scope(run)
    work, in_x = operations(trace), blocks_in_x(trace)
    sm_count = np.append(peaks_of_devices(trace).sm_count, 0)[work.device]
    is_small = (in_x > 0) & (in_x < _SMALL * sm_count)
    is_small &= work.end_ns - work.start_ns >= _SHORTEST_NS
    is_small &= operation_categories(trace) != TimePart.COLLECTIVE
    is_small &= ~_overlapped(trace) & scope.operations
    kernel = np.flatnonzero(is_small)
    if len(kernel):
        blocks = launch_shapes(trace).blocks
        kernel = kernel[blocks[kernel] < _SMALL * sm_count[kernel]]
    if not len(kernel):
        none = np.zeros(0, np.bool_)
        return SmallGrids(kernel, np.zeros(0), np.zeros(0), none, none)
    ids = trace.columns("kernel", "name_id")["name_id"].values[work.row[kernel]]
    number, distinct = number_texts(ids, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    is_persistent = np.array([PERSISTENT.search(text[:4096]) is not None for text in texts])
    number, kernel = number[~is_persistent[number]], kernel[~is_persistent[number]]
    groups = factorize_rows(number, blocks[kernel], work.device[kernel])
    launches = np.bincount(groups.codes, minlength=groups.n_groups)[groups.codes] / scope.count
    block_ratio = blocks[kernel] / sm_count[kernel]
    least = np.maximum(1 / np.maximum(launches, 1), block_ratio)
    threads = launch_shapes(trace).block_threads[kernel]
    is_narrow = (threads > 0) & (threads <= _NARROW_THREADS)
    long_ns = np.where(is_narrow, _LONG_NARROW_NS, _LONG_NS)
    is_long = (work.end_ns - work.start_ns)[kernel] >= long_ns
    is_long &= block_ratio <= _FEW
    chosen = (launches >= _LEAST_LAUNCHES) | is_long
    columns = (kernel, least, block_ratio, is_long, is_narrow)
    return SmallGrids(*(column[chosen] for column in columns))


def _overlapped(trace: Trace) -> BoolArray:
    """Return which operations run at the same time as another one of their GPU."""
    work = operations(trace)
    overlapped = np.zeros(len(work), np.bool_)
    bounds = np.flatnonzero(np.diff(work.device, prepend=-1, append=-1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        start, latest = work.start_ns[low:high], np.maximum.accumulate(work.end_ns[low:high])
        overlapped[low + 1 : high] |= latest[:-1] > start[1:]
        overlapped[low : high - 1] |= work.end_ns[low : high - 1] > start[1:]
    return overlapped
