"""Sequences of small GEMMs that a step launches many times in a row, such as once per matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.efficiency.launch_shapes import launch_shapes
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.trace import Run

_LEAST_REPEATS = 8
_LEAST_LOOPS = 5  # within each repetition; gates of recurrent cells are three or four
_MOST_PERIOD = 4096
_MOST_CANDIDATES = 12
_LONGEST_GEMM_NS = 30_000  # longer ones use the GPU without being batched
# Attention, softmax and normalization say that it is a model's layers, which depend on each other.
_PARTS = (
    *(TimePart.GEMM, TimePart.ELEMENTWISE, TimePart.REDUCTION),
    *(TimePart.CAST_COPY, TimePart.LAYOUT_COPY, TimePart.COPY_D2D, TimePart.MEMSET),
)


class RepeatedGemms(NamedTuple):
    """Operations of repeated sequences, in launch order.

    Attributes:
        operation: Shape (n,), int64, indices into `operations`.
        first: Shape (n,), int64, the same place of the first repetition, index into `operations`.
    """

    operation: I64
    first: I64


@derived
def repeated_gemms(run: Run) -> RepeatedGemms:
    """Return sequences that repeat at least eight times in a row and loop over GEMMs inside.

    A sequence has only GEMMs of 30 us or less, elementwise kernels, reductions and copies. Within
    it, a shorter sequence with two GEMMs or more repeats at least five times: iterations on one
    matrix, which depend on each other, as the repetitions for each matrix may not.
    """
    none = RepeatedGemms(np.zeros(0, np.int64), np.zeros(0, np.int64))
    sequences = launch_sequences(run)
    placed = sequences.operation
    fits, is_gemm = _fits(run, placed)
    if is_gemm.sum() < _LEAST_REPEATS * _LEAST_LOOPS * 2:
        return none
    what = factorize_rows(sequences.what, launch_shapes(run.trace).blocks[placed], sequences.step)
    codes = what.codes.astype(np.int64)
    codes[~fits] = -1 - np.flatnonzero(~fits)  # equal to nothing
    periods = _periods(codes)
    first = np.full(len(codes), -1)
    gemms = np.append(0, np.cumsum(is_gemm))
    loops: list[tuple[I64, I64]] = []
    for period in periods:  # the shortest first
        low, high = _runs(codes, period, _LEAST_REPEATS)
        looping = np.append(0, np.cumsum(_looping(loops, period, is_gemm)))
        is_looping = (looping[high] > looping[low]) & (
            2 * (looping[high] - looping[low]) >= gemms[high] - gemms[low]
        )
        for begin, end in zip(low[is_looping].tolist(), high[is_looping].tolist(), strict=True):
            if (first[begin:end] < 0).all():
                first[begin:end] = begin + np.arange(end - begin) % period
        low, high = _runs(codes, period, _LEAST_LOOPS)
        multiplies = gemms[low + period] - gemms[low] >= 2
        loops.append((low[multiplies], high[multiplies]))
    chosen = np.flatnonzero(first >= 0)
    if not len(chosen):
        return none
    return RepeatedGemms(placed[chosen], placed[first[chosen]])


def _fits(run: Run, placed: I64) -> tuple[BoolArray, BoolArray]:
    """Return which operations may be in a sequence, and which of them are GEMMs."""
    work, part = operations(run.trace), operation_categories(run.trace)[placed]
    is_gemm = part == TimePart.GEMM
    fits = np.isin(part, _PARTS)
    fits &= ~(is_gemm & ((work.end_ns - work.start_ns)[placed] > _LONGEST_GEMM_NS))
    return fits, is_gemm & fits


def _periods(codes: I64) -> list[int]:
    """Return the most frequent distances between equal launches, ascending."""
    order = np.argsort(codes, kind="stable")
    gaps = np.diff(order)[np.diff(codes[order]) == 0]
    counts = np.bincount(gaps[gaps <= _MOST_PERIOD], minlength=2)
    counts *= np.arange(len(counts))  # launches that lie between
    most = np.argsort(counts, kind="stable")[-_MOST_CANDIDATES:]
    return sorted(int(gap) for gap in most if gap >= 2 and counts[gap])


def _runs(codes: I64, period: int, repeats: int) -> tuple[I64, I64]:
    """Return where the codes repeat with a period, at least so often: begins and ends, whole."""
    if len(codes) <= period:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    edges = np.diff(np.concatenate(([0], codes[period:] == codes[:-period], [0])).astype(np.int8))
    low, high = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0) + period
    count = (high - low) // period
    kept = count >= repeats
    return low[kept], (low + count * period)[kept]


def _looping(loops: list[tuple[I64, I64]], period: int, is_gemm: BoolArray) -> BoolArray:
    """Return the GEMMs in loops that fit into a period."""
    depth = np.zeros(len(is_gemm) + 1, np.int64)
    for low, high in loops:
        is_inside = high - low <= period
        np.add.at(depth, low[is_inside], 1)
        np.add.at(depth, high[is_inside], -1)
    looping: BoolArray = (np.cumsum(depth[:-1]) > 0) & is_gemm
    return looping
